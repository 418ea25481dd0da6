// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/durations.h"

/*
 * One group per hooked function (by id), then one per name (manual scopes). All durations of finished calls
 * lie in one array, group after group, so that percentiles are exact.
 */
struct group {
	struct function_statistics statistics;
	uint64_t finished;
	size_t first; /* of its durations */
	size_t filled;
};

struct groups {
	const struct timeline *timeline;
	struct group *items;
	size_t count;
	uint64_t *durations;
};

static struct group *group_of(const struct groups *groups, const struct scope *scope)
{
	return scope->kind == SCOPE_HOOKED ? &groups->items[scope->function]
					   : &groups->items[groups->timeline->function_count + scope->name];
}

/* Ended by something else than its own end: it counts as a call, and not among the durations. */
static bool is_finished(const struct scope *scope)
{
	return !(scope->flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_CUT));
}

static void count_scope(const struct groups *groups, const struct scope *scope)
{
	struct group *group = group_of(groups, scope);
	uint64_t duration = scope->end_ns - scope->start_ns;

	group->statistics.calls++;
	group->statistics.unfinished += !is_finished(scope);
	group->finished += is_finished(scope);
	group->statistics.total_ns += duration;
	group->statistics.self_ns += duration - scope->child_ns;
}

static void keep_duration(const struct groups *groups, const struct scope *scope)
{
	struct group *group = group_of(groups, scope);

	if (is_finished(scope))
		groups->durations[group->first + group->filled++] = scope->end_ns - scope->start_ns;
}

static void for_each_scope(const struct groups *groups,
			   void (*visit)(const struct groups *groups, const struct scope *scope))
{
	for (size_t i = 0; i < groups->timeline->lane_count; i++) {
		const struct lane *lane = &groups->timeline->lanes[i];

		for (size_t j = 0; j < lane->scope_count; j++)
			visit(groups, &lane->scopes[j]);
	}
}

static int collect(struct groups *groups)
{
	const struct timeline *timeline = groups->timeline;
	size_t first = 0;

	groups->count = timeline->function_count + timeline->name_count;
	groups->items = calloc(groups->count + 1, sizeof(*groups->items));
	if (!groups->items)
		return -ENOMEM;
	for_each_scope(groups, count_scope);
	for (size_t i = 0; i < groups->count; i++) {
		groups->items[i].first = first;
		first += groups->items[i].finished;
	}
	groups->durations = calloc(first + 1, sizeof(*groups->durations));
	if (!groups->durations)
		return -ENOMEM;
	for_each_scope(groups, keep_duration);
	return 0;
}

static void summarise(const struct groups *groups, struct group *group)
{
	struct function_statistics *statistics = &group->statistics;
	struct duration_statistics durations;

	statistics_of_durations(groups->durations + group->first, group->finished, &durations);
	statistics->min_ns = durations.min_ns;
	statistics->mean_ns = durations.mean_ns;
	statistics->p50_ns = durations.p50_ns;
	statistics->p90_ns = durations.p90_ns;
	statistics->p99_ns = durations.p99_ns;
	statistics->max_ns = durations.max_ns;
}

/* Takes the groups that are worth a line. Returns their number. */
static size_t take(const struct groups *groups, struct function_statistics *statistics)
{
	const struct timeline *timeline = groups->timeline;
	size_t count = 0;

	for (size_t i = 0; i < groups->count; i++) {
		bool hooked = i < timeline->function_count;
		struct function_statistics *one = &statistics[count];

		if (!hooked && !groups->items[i].statistics.calls)
			continue;
		summarise(groups, &groups->items[i]);
		*one = groups->items[i].statistics;
		one->kind = hooked ? SCOPE_HOOKED : SCOPE_MANUAL;
		one->function = hooked ? (uint32_t)i : UINT32_MAX;
		one->name =
			hooked ? timeline->functions[i].info.name : (uint32_t)(i - timeline->function_count);
		one->module = hooked ? timeline->functions[i].info.module : 0;
		count++;
	}
	return count;
}

static int by_total(const void *a, const void *b, void *context)
{
	const struct function_statistics *x = a, *y = b;
	const struct timeline *timeline = context;
	int names;

	if (x->total_ns != y->total_ns)
		return x->total_ns > y->total_ns ? -1 : 1;
	names = strcmp(timeline->names[x->name], timeline->names[y->name]);
	if (names)
		return names;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

int timeline_statistics(const struct timeline *timeline, struct function_statistics **statistics,
			size_t *count)
{
	struct groups groups = {.timeline = timeline};
	int err = collect(&groups);

	*statistics = NULL;
	*count = 0;
	if (!err) {
		*statistics = calloc(groups.count + 1, sizeof(**statistics));
		if (!*statistics)
			err = -ENOMEM;
	}
	if (!err) {
		*count = take(&groups, *statistics);
		qsort_r(*statistics, *count, sizeof(**statistics), by_total, (void *)timeline);
	}
	free(groups.items);
	free(groups.durations);
	return err;
}
