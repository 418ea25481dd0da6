// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/* What happened to a tid, in this order at equal times. */
enum turn_kind {
	TURN_EXIT = 0,
	TURN_KERNEL_START = 1,
	TURN_HEADLESS = 2, /* manual events whose THREAD_START is not in the file */
	TURN_MANUAL_START = 3,
};

struct turn {
	uint64_t time_ns;
	enum turn_kind kind;
	size_t manual_first, manual_end; /* of the two manual kinds: up to the next THREAD_START */
};

struct turns {
	struct turn *items;
	size_t count;
	size_t capacity;
};

/* By start; the outer before the inner: it ends later or, ending at the same time, was completed later. */
static int outer_first(const void *a, const void *b)
{
	const struct raw_call *x = a, *y = b;
	uint64_t x_end = x->flags & SCOPE_FLAG_UNFINISHED ? UINT64_MAX : x->end_ns;
	uint64_t y_end = y->flags & SCOPE_FLAG_UNFINISHED ? UINT64_MAX : y->end_ns;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x_end != y_end)
		return x_end > y_end ? -1 : 1;
	return x->order > y->order ? -1 : 1;
}

static void sort_calls(struct thread_events *thread)
{
	size_t i = 1;

	while (i < thread->call_count && outer_first(&thread->calls[i - 1], &thread->calls[i]) < 0)
		i++;
	if (i < thread->call_count)
		qsort(thread->calls, thread->call_count, sizeof(*thread->calls), outer_first);
}

static int by_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->manual_first > y->manual_first) - (x->manual_first < y->manual_first);
}

static uint64_t info_time(const struct thread_info *info)
{
	return info->time_ns > info->start_ns ? info->time_ns : info->start_ns;
}

static int by_info_time(const void *a, const void *b)
{
	uint64_t x = info_time(a), y = info_time(b);

	if (x != y)
		return x < y ? -1 : 1;
	return (int)((const struct thread_info *)a)->change - (int)((const struct thread_info *)b)->change;
}

static int add_turn(struct turns *turns, uint64_t time_ns, enum turn_kind kind)
{
	if (vec_grow(&turns->items, &turns->capacity, turns->count))
		return -ENOMEM;
	turns->items[turns->count++] = (struct turn){time_ns, kind, 0, 0};
	return 0;
}

static int collect_manual(struct turns *turns, const struct thread_events *thread)
{
	size_t first = 0;

	while (first < thread->manual_count) {
		const struct raw_manual *event = &thread->manual[first];
		size_t end = first + 1;

		while (end < thread->manual_count && thread->manual[end].kind != MANUAL_THREAD_START)
			end++;
		if (add_turn(turns, event->time,
			     event->kind == MANUAL_THREAD_START ? TURN_MANUAL_START : TURN_HEADLESS))
			return -ENOMEM;
		turns->items[turns->count - 1].manual_first = first;
		turns->items[turns->count - 1].manual_end = end;
		first = end;
	}
	return 0;
}

static int collect_turns(struct turns *turns, const struct thread_events *thread)
{
	int err = collect_manual(turns, thread);

	for (size_t i = 0; i < thread->info_count && !err; i++) {
		const struct thread_info *info = &thread->infos[i];

		if (info->start_ns)
			err = add_turn(turns, info->start_ns, TURN_KERNEL_START);
		if (!err && info->change == THREAD_EXITED && info->time_ns)
			err = add_turn(turns, info->time_ns, TURN_EXIT);
	}
	if (!err && turns->count)
		qsort(turns->items, turns->count, sizeof(*turns->items), by_turn);
	return err;
}

/* Index of the first call that starts at `ns` or later. */
static size_t first_call(const struct thread_events *thread, uint64_t ns)
{
	size_t low = 0, high = thread->call_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (thread->calls[middle].start_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Opens a span whose calls begin at `ns`, where those of the span before it end. NULL when out of memory. */
static struct lane_span *open_span(struct lane_plan *plan, const struct thread_events *thread, uint64_t ns)
{
	struct lane_span *span;

	if (vec_grow(&plan->spans, &plan->capacity, plan->count))
		return NULL;
	span = &plan->spans[plan->count++];
	memset(span, 0, sizeof(*span));
	span->begin_ns = ns;
	span->call_first = first_call(thread, ns);
	span->call_end = thread->call_count;
	if (plan->count > 1)
		span[-1].call_end = span->call_first;
	return span;
}

static int kernel_start(struct lane_plan *plan, struct lane_span *span, const struct thread_events *thread,
			const struct turn *turn)
{
	bool empty = span->call_first == first_call(thread, turn->time_ns) && !span->has_manual;

	if (span->start_ns == turn->time_ns && !span->exit_ns)
		return 0; /* told again */
	if (!empty || span->start_ns || span->exit_ns)
		span = open_span(plan, thread, turn->time_ns);
	if (!span)
		return -ENOMEM;
	span->begin_ns = turn->time_ns;
	span->start_ns = turn->time_ns;
	return 0;
}

static int manual_start(struct lane_plan *plan, struct lane_span *span, const struct thread_events *thread,
			const struct turn *turn)
{
	/* Calls between an exit and this record can only be of the thread that wrote this. */
	if (span->has_manual || span->exit_ns)
		span = open_span(plan, thread, span->exit_ns ? span->exit_ns : turn->time_ns);
	if (!span)
		return -ENOMEM;
	span->has_manual = true;
	span->manual_first = turn->manual_first;
	span->manual_end = turn->manual_end;
	if (turn->kind == TURN_MANUAL_START && !span->start_ns &&
	    span->call_first == first_call(thread, turn->time_ns))
		span->start_ns = turn->time_ns;
	return 0;
}

static int thread_exit(struct lane_plan *plan, struct lane_span *span, const struct thread_events *thread,
		       const struct turn *turn)
{
	/* After another exit: a thread came and went of which only the end was told. */
	if (span->exit_ns && span->exit_ns < turn->time_ns)
		span = open_span(plan, thread, span->exit_ns);
	if (!span)
		return -ENOMEM;
	span->exit_ns = turn->time_ns;
	return 0;
}

static int take_turn(struct lane_plan *plan, const struct thread_events *thread, const struct turn *turn)
{
	struct lane_span *last = &plan->spans[plan->count - 1];

	switch (turn->kind) {
	case TURN_EXIT:
		return thread_exit(plan, last, thread, turn);
	case TURN_KERNEL_START:
		return kernel_start(plan, last, thread, turn);
	default:
		return manual_start(plan, last, thread, turn);
	}
}

/* Names in order of time, so that the last one stays. */
static void place_names(struct lane_plan *plan, struct thread_events *thread)
{
	size_t at = 0;

	if (thread->info_count)
		qsort(thread->infos, thread->info_count, sizeof(*thread->infos), by_info_time);
	for (size_t i = 0; i < thread->info_count; i++) {
		const struct thread_info *info = &thread->infos[i];
		uint64_t time = info_time(info);

		while (at + 1 < plan->count && time && plan->spans[at + 1].begin_ns <= time &&
		       !(info->change == THREAD_EXITED && plan->spans[at].exit_ns == time))
			at++;
		if (info->name)
			plan->spans[at].name = info->name;
	}
}

int lane_plan_make(struct lane_plan *plan, struct thread_events *thread)
{
	struct turns turns = {0};
	struct lane_span *last;
	int err;

	memset(plan, 0, sizeof(*plan));
	sort_calls(thread);
	err = collect_turns(&turns, thread);
	if (!err && !open_span(plan, thread, 0))
		err = -ENOMEM;
	for (size_t i = 0; i < turns.count && !err; i++)
		err = take_turn(plan, thread, &turns.items[i]);
	free(turns.items);
	if (err)
		return err;
	last = &plan->spans[plan->count - 1];
	if (last->exit_ns && first_call(thread, last->exit_ns) < thread->call_count &&
	    !open_span(plan, thread, last->exit_ns))
		return -ENOMEM;
	place_names(plan, thread);
	return 0;
}

void lane_plan_clear(struct lane_plan *plan)
{
	free(plan->spans);
	memset(plan, 0, sizeof(*plan));
}
