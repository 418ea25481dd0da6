// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
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
	size_t run; /* of the two manual kinds */
};

struct turns {
	struct turn *items;
	size_t count;
	size_t capacity;
};

static int by_turn(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return (x->run > y->run) - (x->run < y->run);
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
	return (int)((const struct thread_info *)a)->change -
	       (int)((const struct thread_info *)b)->change;
}

static int add_turn(struct turns *turns, uint64_t time_ns, enum turn_kind kind)
{
	if (vec_grow(&turns->items, &turns->capacity, turns->count))
		return -ENOMEM;
	turns->items[turns->count++] = (struct turn){time_ns, kind, 0};
	return 0;
}

static int collect_manual(struct turns *turns, const struct thread_events *thread)
{
	int err = 0;

	for (size_t i = 0; i < thread->run_count && !err; i++) {
		const struct manual_run *run = &thread->runs[i];

		if (!run->usable)
			continue;
		err = add_turn(turns, run->first_ns,
			       run->headless ? TURN_HEADLESS : TURN_MANUAL_START);
		if (!err)
			turns->items[turns->count - 1].run = i;
	}
	return err;
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

/* ---- how many calls there are between turns ---- */

/* The first moment behind `ns`. */
static struct turn_count *turn_behind(const struct thread_events *thread, uint64_t ns)
{
	size_t low;

	SEARCH_FIRST(low, thread->turn_count, thread->turns[low].time_ns <= ns);
	return &thread->turns[low];
}

void lane_turns_count(struct thread_events *thread, const struct raw_call *call)
{
	struct turn_count *turn = turn_behind(thread, call->start_ns);
	uint64_t last = call->flags & SCOPE_FLAG_UNFINISHED ? call->start_ns : call->end_ns;

	turn->before++;
	if (last > turn->latest)
		turn->latest = last;
}

void lane_turns_sum(struct thread_events *thread)
{
	for (size_t i = 1; i <= thread->turn_count; i++)
		thread->turns[i].before += thread->turns[i - 1].before;
}

/* All calls lie between the same two moments, as those of most threads do. */
static bool count_at_once(struct thread_events *thread)
{
	struct turn_count *turn = turn_behind(thread, thread->first_call_ns);

	if (turn != turn_behind(thread, thread->last_call_ns))
		return false;
	turn->before = thread->call_count;
	turn->latest = thread->latest_call_ns;
	lane_turns_sum(thread);
	return true;
}

/*
 * Where calls lie on both sides of one moment only, as where a thread writes its first manual event
 * after some calls, their number does not matter as long as the thread is one: whatever it is, it
 * is neither none nor all.
 */
static int count_roughly(struct thread_events *thread, bool *certain)
{
	struct turn_count *turn = turn_behind(thread, thread->first_call_ns);
	struct lane_plan plan;
	int err;

	*certain = false;
	if (turn + 1 != turn_behind(thread, thread->last_call_ns))
		return 0;
	turn->before = 1;
	turn->latest = thread->latest_call_ns;
	turn[1].before = thread->call_count - 1;
	lane_turns_sum(thread);
	err = lane_plan_make(&plan, thread);
	*certain = !err && plan.count == 1;
	lane_plan_clear(&plan);
	for (size_t i = 0; i <= thread->turn_count && !*certain; i++)
		thread->turns[i].before = thread->turns[i].latest = 0;
	return err;
}

int lane_turns_note(struct thread_events *thread, bool *uncertain)
{
	struct turns turns = {0};
	int err = collect_turns(&turns, thread);

	/* One more, behind all, for the calls after the last. */
	if (!err) {
		thread->turns = calloc(turns.count + 1, sizeof(*thread->turns));
		err = thread->turns ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < turns.count && !err; i++) {
		if (!i || turns.items[i].time_ns != turns.items[i - 1].time_ns)
			thread->turns[thread->turn_count++].time_ns = turns.items[i].time_ns;
	}
	free(turns.items);
	*uncertain = false;
	if (err || count_at_once(thread))
		return err;
	err = count_roughly(thread, uncertain);
	*uncertain = !*uncertain;
	return err;
}

/* The index of the moment `ns`, which is not 0. */
static size_t turn_at(const struct thread_events *thread, uint64_t ns)
{
	return (size_t)(turn_behind(thread, ns - 1) - thread->turns);
}

/* How many calls start before `ns`, which is a turn, or 0. */
static uint64_t first_call(const struct thread_events *thread, uint64_t ns)
{
	return ns ? thread->turns[turn_at(thread, ns)].before : 0;
}

uint64_t lane_span_last(const struct lane_plan *plan, size_t index,
			const struct thread_events *thread, uint64_t end_ns)
{
	const struct lane_span *span = &plan->spans[index];
	uint64_t behind = index + 1 < plan->count ? plan->spans[index + 1].begin_ns : UINT64_MAX;
	uint64_t end = span->exit_ns ? span->exit_ns : end_ns;

	/* What starts between one moment and the next is counted with the next. */
	for (size_t i = span->begin_ns ? turn_at(thread, span->begin_ns) + 1 : 0;
	     i <= thread->turn_count && (i ? thread->turns[i - 1].time_ns : 0) < behind; i++) {
		if (thread->turns[i].latest > end)
			end = thread->turns[i].latest;
	}
	if (span->has_manual && thread->runs[span->run].last_ns > end)
		end = thread->runs[span->run].last_ns;
	return end;
}

/* ---- spans ---- */

/*
 * Opens a span whose calls begin at `ns`, where those of the span before it end. NULL when out of
 * memory.
 */
static struct lane_span *open_span(struct lane_plan *plan, const struct thread_events *thread,
				   uint64_t ns)
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

static int kernel_start(struct lane_plan *plan, struct lane_span *span,
			const struct thread_events *thread, const struct turn *turn)
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

static int manual_start(struct lane_plan *plan, struct lane_span *span,
			const struct thread_events *thread, const struct turn *turn)
{
	/* Calls between an exit and this record can only be of the thread that wrote this. */
	if (span->has_manual || span->exit_ns)
		span = open_span(plan, thread, span->exit_ns ? span->exit_ns : turn->time_ns);
	if (!span)
		return -ENOMEM;
	span->has_manual = true;
	span->run = turn->run;
	if (turn->kind == TURN_MANUAL_START && !span->start_ns &&
	    span->call_first == first_call(thread, turn->time_ns))
		span->start_ns = turn->time_ns;
	return 0;
}

static int thread_exit(struct lane_plan *plan, struct lane_span *span,
		       const struct thread_events *thread, const struct turn *turn)
{
	/* After another exit: a thread came and went of which only the end was told. */
	if (span->exit_ns && span->exit_ns < turn->time_ns)
		span = open_span(plan, thread, span->exit_ns);
	if (!span)
		return -ENOMEM;
	span->exit_ns = turn->time_ns;
	return 0;
}

static int take_turn(struct lane_plan *plan, const struct thread_events *thread,
		     const struct turn *turn)
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

int name_changes_add(struct name_change **names, size_t *count, size_t *capacity, uint64_t time_ns,
		     uint32_t name)
{
	if (vec_grow(names, capacity, *count))
		return -ENOMEM;
	(*names)[*count] = (struct name_change){time_ns, name, (uint32_t)*count};
	++*count;
	return 0;
}

/* Gives each span its names. */
static int place_names(struct lane_plan *plan, struct thread_events *thread)
{
	size_t at = 0;
	int err = 0;

	if (thread->info_count)
		qsort(thread->infos, thread->info_count, sizeof(*thread->infos), by_info_time);
	for (size_t i = 0; i < thread->info_count && !err; i++) {
		const struct thread_info *info = &thread->infos[i];
		uint64_t time = info_time(info);
		struct lane_span *span;

		while (at + 1 < plan->count && time && plan->spans[at + 1].begin_ns <= time &&
		       !(info->change == THREAD_EXITED && plan->spans[at].exit_ns == time))
			at++;
		span = &plan->spans[at];
		if (info->name)
			err = name_changes_add(&span->names, &span->name_count,
					       &span->name_capacity, time, info->name);
	}
	return err;
}

int lane_plan_make(struct lane_plan *plan, struct thread_events *thread)
{
	struct turns turns = {0};
	struct lane_span *last;
	int err;

	memset(plan, 0, sizeof(*plan));
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
	return place_names(plan, thread);
}

void lane_plan_clear(struct lane_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		free(plan->spans[i].names);
	free(plan->spans);
	memset(plan, 0, sizeof(*plan));
}
