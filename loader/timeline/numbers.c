// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "timeline/summary.h"

static uint8_t group_kind(uint8_t kind)
{
	return kind == MANUAL_COUNTER_DOUBLE ? MANUAL_COUNTER_INT : kind;
}

static bool is_sample(const struct mark *mark)
{
	return mark->kind == MANUAL_COUNTER_INT || mark->kind == MANUAL_COUNTER_DOUBLE ||
	       mark->kind == MANUAL_ARGUMENT || mark->kind == MANUAL_INSTANT;
}

static bool same_group(const struct number_statistics *x, const struct number_statistics *y)
{
	return x->kind == y->kind && x->pid == y->pid && x->name == y->name && x->scope == y->scope;
}

static struct number_group *group_of(struct number_collector *collector,
				     const struct number_statistics *key)
{
	const uint32_t words[] = {key->pid, key->name, key->scope, key->kind};
	uint64_t hash = hash_bytes(words, sizeof(words));
	struct number_group *group;
	uint32_t before = 0;

	if (hash_map_get(&collector->index, hash, &before)) {
		for (before++; before; before = group->before) {
			group = &collector->groups[before - 1];
			if (same_group(&group->statistics, key))
				return group;
		}
		hash_map_get(&collector->index, hash, &before);
		before++;
	}
	if (vec_grow(&collector->groups, &collector->capacity, collector->count) ||
	    hash_map_put(&collector->index, hash, (uint32_t)collector->count))
		return NULL;
	group = &collector->groups[collector->count++];
	*group = (struct number_group){.statistics = *key, .before = before};
	return group;
}

static double real_value(const struct mark *mark)
{
	double real;

	if (mark->kind != MANUAL_COUNTER_DOUBLE)
		return (double)(int64_t)mark->value;
	memcpy(&real, &mark->value, sizeof(real));
	return real;
}

static void add_value(struct number_group *group, const struct mark *mark)
{
	struct number_statistics *one = &group->statistics;
	bool is_floating = mark->kind == MANUAL_COUNTER_DOUBLE;
	int64_t integer = is_floating ? 0 : (int64_t)mark->value;
	double real = real_value(mark);
	bool first = !one->samples;

	if (first || integer < one->min_integer)
		one->min_integer = integer;
	if (first || integer > one->max_integer)
		one->max_integer = integer;
	/* A NaN is no value: min, max and mean are NaN only while there is nothing else. */
	if (first || isnan(one->min) || real < one->min)
		one->min = real;
	if (first || isnan(one->max) || real > one->max)
		one->max = real;
	/* Of several threads: the latest in time. */
	if (first || mark->time_ns >= group->last_ns) {
		one->last_integer = integer;
		one->last = real;
		group->last_ns = mark->time_ns;
	}
	one->is_floating |= is_floating;
	one->samples++;
	if (isnan(real) && group->numbers)
		return;
	group->numbers += !isnan(real);
	/* Step by step, so that a sum of large numbers does not overflow. */
	one->mean = group->numbers <= 1 ? real
					: one->mean + (real - one->mean) / (double)group->numbers;
}

int numbers_add(struct number_collector *collector, const struct lane_part *part)
{
	for (size_t i = 0; i < part->mark_count; i++) {
		const struct mark *mark = &part->marks[i];
		bool scoped = mark->kind == MANUAL_ARGUMENT && mark->scope != MARK_NO_SCOPE;
		const struct number_statistics key = {.pid = part->lane->pid,
						      .name = mark->name,
						      .scope = scoped ? mark->scope_name : 0,
						      .kind = group_kind(mark->kind)};
		struct number_group *group;

		if (!is_sample(mark))
			continue;
		group = group_of(collector, &key);
		if (!group)
			return -ENOMEM;
		add_value(group, mark);
	}
	return 0;
}

static int by_group(const void *a, const void *b)
{
	const struct number_statistics *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->scope != y->scope)
		return x->scope < y->scope ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

int numbers_end(struct number_collector *collector, struct timeline_summary *summary)
{
	summary->numbers = calloc(collector->count + 1, sizeof(*summary->numbers));
	if (!summary->numbers)
		return -ENOMEM;
	for (size_t i = 0; i < collector->count; i++)
		summary->numbers[i] = collector->groups[i].statistics;
	summary->number_count = collector->count;
	qsort(summary->numbers, summary->number_count, sizeof(*summary->numbers), by_group);
	return 0;
}

void numbers_clear(struct number_collector *collector)
{
	free(collector->groups);
	hash_map_clear(&collector->index);
	memset(collector, 0, sizeof(*collector));
}
