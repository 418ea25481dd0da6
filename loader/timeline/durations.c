// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/durations.h"

#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Nearest rank: the smallest duration that at least `percent` of all do not exceed. */
static uint64_t percentile(const uint64_t *sorted, uint64_t count, unsigned percent)
{
	uint64_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100;

	return sorted[rank ? rank - 1 : 0];
}

void statistics_of_durations(uint64_t *durations, uint64_t count, struct duration_statistics *statistics)
{
	memset(statistics, 0, sizeof(*statistics));
	if (!count)
		return;
	qsort(durations, count, sizeof(*durations), ascending);
	for (uint64_t i = 0; i < count; i++)
		statistics->total_ns += durations[i];
	statistics->count = count;
	statistics->min_ns = durations[0];
	statistics->mean_ns = statistics->total_ns / count;
	statistics->p50_ns = percentile(durations, count, 50);
	statistics->p90_ns = percentile(durations, count, 90);
	statistics->p99_ns = percentile(durations, count, 99);
	statistics->max_ns = durations[count - 1];
}
