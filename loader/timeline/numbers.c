// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/timeline.h"

struct sample {
	uint64_t time_ns;
	uint64_t value;
	size_t order;
	uint32_t pid;
	uint32_t name;
	uint32_t scope;
	uint8_t kind; /* that of its group */
	bool is_floating;
};

static uint8_t group_kind(uint8_t kind)
{
	return kind == MANUAL_COUNTER_DOUBLE ? MANUAL_COUNTER_INT : kind;
}

static bool is_sample(const struct mark *mark)
{
	return mark->kind == MANUAL_COUNTER_INT || mark->kind == MANUAL_COUNTER_DOUBLE ||
	       mark->kind == MANUAL_ARGUMENT || mark->kind == MANUAL_INSTANT;
}

static size_t count_samples(const struct timeline *timeline)
{
	size_t count = 0;

	for (size_t i = 0; i < timeline->lane_count; i++)
		for (size_t j = 0; j < timeline->lanes[i].mark_count; j++)
			count += is_sample(&timeline->lanes[i].marks[j]);
	return count;
}

static void collect(const struct timeline *timeline, struct sample *samples)
{
	size_t count = 0;

	for (size_t i = 0; i < timeline->lane_count; i++) {
		const struct lane *lane = &timeline->lanes[i];

		for (size_t j = 0; j < lane->mark_count; j++) {
			const struct mark *mark = &lane->marks[j];
			bool scoped = mark->kind == MANUAL_ARGUMENT && mark->scope != MARK_NO_SCOPE;

			if (!is_sample(mark))
				continue;
			samples[count] = (struct sample){.time_ns = mark->time_ns,
							 .value = mark->value,
							 .order = count,
							 .pid = lane->pid,
							 .name = mark->name,
							 .scope = scoped ? lane->scopes[mark->scope].name : 0,
							 .kind = group_kind(mark->kind),
							 .is_floating = mark->kind == MANUAL_COUNTER_DOUBLE};
			count++;
		}
	}
}

static bool same_group(const struct sample *x, const struct sample *y)
{
	return x->kind == y->kind && x->pid == y->pid && x->name == y->name && x->scope == y->scope;
}

static int by_group(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->scope != y->scope)
		return x->scope < y->scope ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static double real_value(const struct sample *sample)
{
	double real;

	if (!sample->is_floating)
		return (double)(int64_t)sample->value;
	memcpy(&real, &sample->value, sizeof(real));
	return real;
}

static void add_sample(struct number_statistics *one, const struct sample *sample)
{
	int64_t integer = sample->is_floating ? 0 : (int64_t)sample->value;
	double real = real_value(sample);
	bool first = !one->samples;

	if (first || integer < one->min_integer)
		one->min_integer = integer;
	if (first || integer > one->max_integer)
		one->max_integer = integer;
	one->last_integer = integer;
	if (first || real < one->min)
		one->min = real;
	if (first || real > one->max)
		one->max = real;
	one->last = real;
	one->is_floating |= sample->is_floating;
	one->samples++;
	/* Step by step, so that a sum of large numbers does not overflow. */
	one->mean += (real - one->mean) / (double)one->samples;
}

int timeline_numbers(const struct timeline *timeline, struct number_statistics **statistics, size_t *count)
{
	size_t sample_count = count_samples(timeline);
	struct sample *samples = malloc((sample_count + 1) * sizeof(*samples));

	*count = 0;
	*statistics = calloc(sample_count + 1, sizeof(**statistics));
	if (!samples || !*statistics) {
		free(samples);
		free(*statistics);
		*statistics = NULL;
		return -ENOMEM;
	}
	collect(timeline, samples);
	qsort(samples, sample_count, sizeof(*samples), by_group);
	for (size_t i = 0; i < sample_count; i++) {
		const struct sample *sample = &samples[i];

		if (!i || !same_group(&samples[i - 1], sample))
			(*statistics)[(*count)++] = (struct number_statistics){.pid = sample->pid,
									       .name = sample->name,
									       .scope = sample->scope,
									       .kind = sample->kind};
		add_sample(&(*statistics)[*count - 1], sample);
	}
	free(samples);
	return 0;
}
