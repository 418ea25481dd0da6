// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/durations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define BUCKET_BITS 7
#define BUCKETS	    (1u << BUCKET_BITS)

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* ---- buckets ---- */

static unsigned octave_of(uint64_t ns)
{
	return ns < BUCKETS ? 0 : 64 - BUCKET_BITS - (unsigned)__builtin_clzll(ns);
}

static unsigned bucket_of(uint64_t ns, unsigned octave)
{
	return octave ? (unsigned)(ns >> (octave - 1)) & (BUCKETS - 1) : (unsigned)ns;
}

static uint64_t middle_of(unsigned octave, unsigned bucket)
{
	if (!octave)
		return bucket;
	return ((uint64_t)(BUCKETS + bucket) << (octave - 1)) + (1ull << (octave - 1)) / 2;
}

static int count_one(struct durations *durations, uint64_t ns)
{
	unsigned octave = octave_of(ns);
	uint64_t **buckets = &durations->octaves[octave];

	if (!*buckets) {
		*buckets = calloc(BUCKETS, sizeof(**buckets));
		if (!*buckets)
			return -ENOMEM;
	}
	(*buckets)[bucket_of(ns, octave)]++;
	return 0;
}

/* There are too many of them to keep each. */
static int start_counting(struct durations *durations)
{
	int err = 0;

	durations->octaves = calloc(DURATIONS_OCTAVES, sizeof(*durations->octaves));
	if (!durations->octaves)
		return -ENOMEM;
	for (uint64_t i = 0; i < durations->count && !err; i++)
		err = count_one(durations, durations->exact[i]);
	free(durations->exact);
	durations->exact = NULL;
	durations->exact_capacity = 0;
	return err;
}

/* ---- adding ---- */

static int keep_one(struct durations *durations, uint64_t ns)
{
	if (vec_grow(&durations->exact, &durations->exact_capacity, durations->count))
		return -ENOMEM;
	durations->exact[durations->count] = ns;
	return 0;
}

int durations_add(struct durations *durations, uint64_t ns)
{
	int err = 0;

	if (!durations->octaves && durations->count == DURATIONS_EXACT)
		err = start_counting(durations);
	if (!err)
		err = durations->octaves ? count_one(durations, ns) : keep_one(durations, ns);
	if (err)
		return err;
	if (!durations->count || ns < durations->min_ns)
		durations->min_ns = ns;
	if (ns > durations->max_ns)
		durations->max_ns = ns;
	durations->total_ns += ns;
	durations->count++;
	return 0;
}

/* ---- what it comes to ---- */

static uint64_t counted(const struct durations *durations, uint64_t rank)
{
	uint64_t below = 0;

	for (unsigned octave = 0; octave < DURATIONS_OCTAVES; octave++) {
		const uint64_t *buckets = durations->octaves[octave];

		for (unsigned i = 0; buckets && i < BUCKETS; i++) {
			uint64_t middle = middle_of(octave, i);

			below += buckets[i];
			if (below < rank)
				continue;
			if (middle < durations->min_ns)
				return durations->min_ns;
			return middle < durations->max_ns ? middle : durations->max_ns;
		}
	}
	return durations->max_ns;
}

/* Nearest rank: the smallest duration that at least `percent` of all do not exceed. */
static uint64_t percentile(const struct durations *durations, unsigned percent)
{
	uint64_t count = durations->count;
	uint64_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100;

	if (durations->octaves)
		return counted(durations, rank ? rank : 1);
	return durations->exact[rank ? rank - 1 : 0];
}

void durations_summary(struct durations *durations, struct duration_statistics *statistics)
{
	memset(statistics, 0, sizeof(*statistics));
	statistics->exact = !durations->octaves;
	if (!durations->count)
		return;
	if (!durations->octaves)
		qsort(durations->exact, durations->count, sizeof(*durations->exact), ascending);
	statistics->total_ns = durations->total_ns;
	statistics->count = durations->count;
	statistics->min_ns = durations->min_ns;
	statistics->mean_ns = durations->total_ns / durations->count;
	statistics->p50_ns = percentile(durations, 50);
	statistics->p90_ns = percentile(durations, 90);
	statistics->p99_ns = percentile(durations, 99);
	statistics->max_ns = durations->max_ns;
}

void durations_clear(struct durations *durations)
{
	for (unsigned octave = 0; durations->octaves && octave < DURATIONS_OCTAVES; octave++)
		free(durations->octaves[octave]);
	free(durations->octaves);
	free(durations->exact);
	memset(durations, 0, sizeof(*durations));
}
