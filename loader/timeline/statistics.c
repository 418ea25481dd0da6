// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "timeline/summary.h"

/* ---- scopes by function or name ---- */

static size_t slot_of(const struct timeline *timeline, uint8_t kind, uint32_t function,
		      uint32_t name)
{
	return kind == SCOPE_HOOKED ? function : timeline->function_count + name;
}

static int make_slots(struct function_collector *collector, const struct timeline *timeline)
{
	if (!collector->slots)
		collector->slots = calloc(timeline->function_count + timeline->name_count + 1,
					  sizeof(*collector->slots));
	return collector->slots ? 0 : -ENOMEM;
}

static struct function_group *group_at(struct function_collector *collector, size_t slot)
{
	if (!collector->slots[slot]) {
		if (vec_grow(&collector->groups, &collector->capacity, collector->count))
			return NULL;
		memset(&collector->groups[collector->count], 0, sizeof(*collector->groups));
		collector->slots[slot] = (uint32_t)++collector->count;
	}
	return &collector->groups[collector->slots[slot] - 1];
}

/* Ended by something else than its own end, or not seen to: a call, and not among the durations. */
#define NOT_TIMED (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_CUT | SCOPE_FLAG_UNWOUND | SCOPE_FLAG_INSTANT)

static void count_untimed(struct function_statistics *statistics, uint16_t flags)
{
	statistics->unfinished += (flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_CUT)) != 0;
	statistics->unwound += (flags & SCOPE_FLAG_UNWOUND) != 0;
	statistics->instants += (flags & SCOPE_FLAG_INSTANT) != 0;
}

int functions_add(struct function_collector *collector, const struct timeline *timeline,
		  const struct lane_part *part)
{
	int err = make_slots(collector, timeline);

	for (size_t i = 0; i < part->scope_count && !err; i++) {
		const struct scope *scope = &part->scopes[i];
		uint64_t duration = scope->end_ns - scope->start_ns;
		struct function_group *group = group_at(
			collector, slot_of(timeline, scope->kind, scope->function, scope->name));

		if (!group)
			return -ENOMEM;
		group->statistics.calls++;
		group->statistics.total_ns += duration;
		group->statistics.self_ns += duration - scope->child_ns;
		if (scope->flags & NOT_TIMED)
			count_untimed(&group->statistics, scope->flags);
		else
			err = durations_add(&group->durations, duration);
	}
	for (size_t i = 0; i < part->late_count && !err; i++) {
		const struct late_child *late = &part->late[i];
		struct function_group *group = group_at(
			collector, slot_of(timeline, late->kind, late->function, late->name));

		if (!group)
			return -ENOMEM;
		group->statistics.self_ns -= late->ns;
	}
	return err;
}

static void summarise(struct function_group *group)
{
	struct function_statistics *statistics = &group->statistics;
	struct duration_statistics durations;

	durations_summary(&group->durations, &durations);
	statistics->exact = durations.exact;
	statistics->min_ns = durations.min_ns;
	statistics->mean_ns = durations.mean_ns;
	statistics->p50_ns = durations.p50_ns;
	statistics->p90_ns = durations.p90_ns;
	statistics->p99_ns = durations.p99_ns;
	statistics->max_ns = durations.max_ns;
}

/* The line of a hooked function, with or without calls, or of a manual name that has scopes. */
static bool take(struct function_collector *collector, const struct timeline *timeline, size_t slot,
		 struct function_statistics *statistics)
{
	bool hooked = slot < timeline->function_count;

	if (!collector->slots[slot] && (!hooked || timeline->functions[slot].info.not_hooked))
		return false;
	memset(statistics, 0, sizeof(*statistics));
	statistics->exact = true;
	if (collector->slots[slot]) {
		summarise(&collector->groups[collector->slots[slot] - 1]);
		*statistics = collector->groups[collector->slots[slot] - 1].statistics;
	}
	statistics->kind = hooked ? SCOPE_HOOKED : SCOPE_MANUAL;
	statistics->function = hooked ? (uint32_t)slot : UINT32_MAX;
	statistics->name = hooked ? timeline->functions[slot].info.name
				  : (uint32_t)(slot - timeline->function_count);
	statistics->module = hooked ? timeline->functions[slot].info.module : 0;
	return true;
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

int functions_end(struct function_collector *collector, const struct timeline *timeline,
		  struct timeline_summary *summary)
{
	size_t slots = timeline->function_count + timeline->name_count;

	summary->functions = calloc(timeline->function_count + collector->count + 1,
				    sizeof(*summary->functions));
	if (!summary->functions || make_slots(collector, timeline))
		return -ENOMEM;
	for (size_t slot = 0; slot < slots; slot++)
		summary->function_count += take(collector, timeline, slot,
						&summary->functions[summary->function_count]);
	qsort_r(summary->functions, summary->function_count, sizeof(*summary->functions), by_total,
		(void *)timeline);
	return 0;
}

void functions_clear(struct function_collector *collector)
{
	for (size_t i = 0; i < collector->count; i++)
		durations_clear(&collector->groups[i].durations);
	free(collector->groups);
	free(collector->slots);
	memset(collector, 0, sizeof(*collector));
}

/* ---- all of it ---- */

struct summing {
	const struct timeline *timeline;
	struct function_collector functions;
	struct frame_collector frames;
	struct number_collector numbers;
};

static int add_part(void *context, const struct lane_part *part)
{
	struct summing *summing = context;
	int err = functions_add(&summing->functions, summing->timeline, part);

	if (!err)
		err = frames_add(&summing->frames, summing->timeline, part);
	return err ? err : numbers_add(&summing->numbers, part);
}

int timeline_summarise(const struct timeline *timeline, struct timeline_summary *summary)
{
	struct summing summing = {.timeline = timeline};
	int err = timeline_visit(timeline, add_part, &summing);

	memset(summary, 0, sizeof(*summary));
	if (!err)
		err = functions_end(&summing.functions, timeline, summary);
	if (!err)
		err = frames_end(&summing.frames, summary);
	if (!err)
		err = numbers_end(&summing.numbers, summary);
	functions_clear(&summing.functions);
	frames_clear(&summing.frames);
	numbers_clear(&summing.numbers);
	if (err)
		timeline_summary_clear(summary);
	return err;
}

void timeline_summary_clear(struct timeline_summary *summary)
{
	free(summary->functions);
	free(summary->frames);
	free(summary->numbers);
	memset(summary, 0, sizeof(*summary));
}
