// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/first_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "base/search.h"
#include "timeline/order.h"

/* place of a start that is told in an earlier region than its own */
#define CARRIED_START UINT32_MAX

/* ---- regions ---- */

int first_pass_enter_region(struct trace_index *trace, uint64_t offset, uint32_t record)
{
	if (trace->region_left) {
		trace->region_left--;
		return 0;
	}
	trace->region_left = trace->region_records - 1;
	if (trace->region_count >= CARRIED_START ||
	    vec_grow(&trace->regions, &trace->region_capacity, trace->region_count))
		return -ENOMEM;
	trace->regions[trace->region_count++] = (struct region){offset, record};
	return 0;
}

/*
 * Where the thread is now: what both of its kinds have passed, as they come by different ways; but
 * for one that was not seen since the last mark.
 */
static uint64_t bound_of(const struct thread_events *thread)
{
	uint64_t call = thread->reached_ns + 1, manual = thread->latest_manual_ns;

	if (!thread->has_called)
		return manual;
	return thread->has_written && manual < call ? manual : call;
}

/* The thread's mark in this region. NULL when out of memory. */
static struct thread_mark *enter_region(struct trace_index *trace, struct thread_events *thread)
{
	uint32_t region = (uint32_t)trace->region_count - 1;
	struct thread_mark *last =
		thread->mark_count ? &thread->marks[thread->mark_count - 1] : NULL;
	struct thread_mark mark = {.region = region, .bound_ns = last ? bound_of(thread) : 0};

	if (last && last->region == region)
		return last;
	if (last && mark.bound_ns < last->bound_ns)
		mark.bound_ns = last->bound_ns;
	mark.in_doubt = mark.bound_ns > thread->latest_manual_ns;
	thread->in_doubt = mark.in_doubt;
	thread->has_called = thread->has_written = false;
	if (vec_grow(&thread->marks, &thread->mark_capacity, thread->mark_count))
		return NULL;
	thread->marks[thread->mark_count] = mark;
	return &thread->marks[thread->mark_count++];
}

/* The region in whose time of the thread `ns` is. */
static uint32_t region_at(const struct thread_events *thread, uint64_t ns)
{
	size_t behind;

	SEARCH_FIRST(behind, thread->mark_count, thread->marks[behind].bound_ns <= ns);
	return thread->marks[behind ? behind - 1 : 0].region;
}

static struct carried *carry(struct trace_index *trace, const struct thread_events *thread,
			     uint64_t ns)
{
	struct carried *carried;

	if (vec_grow(&trace->carried, &trace->carried_capacity, trace->carried_count))
		return NULL;
	carried = &trace->carried[trace->carried_count++];
	memset(carried, 0, sizeof(*carried));
	carried->region = region_at(thread, ns);
	carried->thread = (uint32_t)(thread - trace->threads);
	return carried;
}

/* ---- hooked scopes ---- */

static void note_call(struct thread_events *thread, const struct raw_call *call)
{
	bool first = !thread->call_count++;
	/* Where an unfinished call was still open is not an end. */
	uint64_t last = call->flags & SCOPE_FLAG_UNFINISHED ? call->start_ns : call->end_ns;

	if (first || call->start_ns < thread->first_call_ns)
		thread->first_call_ns = call->start_ns;
	if (call->start_ns > thread->last_call_ns)
		thread->last_call_ns = call->start_ns;
	if (last > thread->latest_call_ns)
		thread->latest_call_ns = last;
	/* Nor is what an unwound one has for its end. */
	if (call->flags & SCOPE_FLAG_UNWOUND)
		last = call->start_ns;
	if (last > thread->reached_ns)
		thread->reached_ns = last;
	thread->any_unwound |= (call->flags & SCOPE_FLAG_UNWOUND) != 0;
	thread->has_called = true;
}

int first_pass_add_hooked(struct trace_index *trace, const struct hooked_scope *scope,
			  const char **wrong)
{
	struct thread_events *thread;
	struct thread_mark *mark;
	struct raw_call call;

	*wrong = hooked_wrong(trace->timeline, scope);
	if (*wrong)
		return -EBADMSG;
	thread = trace_index_thread(trace, scope->pid, scope->tid);
	mark = thread ? enter_region(trace, thread) : NULL;
	if (!mark)
		return -ENOMEM;
	call = raw_call_of(scope, thread->call_count);
	if (call.start_ns < mark->bound_ns) {
		struct carried *carried = carry(trace, thread, call.start_ns);

		if (!carried)
			return -ENOMEM;
		carried->is_call = true;
		carried->call = call;
	}
	note_call(thread, &call);
	scopes_in_file_add(&trace->timeline->functions[scope->function].in_file, scope->flags);
	return 0;
}

/* ---- manual events ---- */

/* What is never stopped ends where its name begins anew. */
static int end_run(struct thread_events *thread)
{
	int err = 0;

	for (size_t i = 0; i < thread->starts.count && !err; i++) {
		const struct start *start = &thread->starts.items[i];

		if (start->stopped || !start->cut_order)
			continue;
		err = vec_grow(&thread->stops, &thread->stop_capacity, thread->stop_count);
		if (!err)
			thread->stops[thread->stop_count++] = (struct late_stop){
				start->order, start->cut_order, true, start->cut_ns};
	}
	starts_clear(&thread->starts);
	return err ? -ENOMEM : 0;
}

static int begin_run(struct trace_index *trace, struct thread_events *thread,
		     const struct manual_event *event)
{
	struct manual_run *run, *before;
	uint32_t process;

	if (vec_grow(&thread->runs, &thread->run_capacity, thread->run_count))
		return -ENOMEM;
	run = &thread->runs[thread->run_count++];
	before = thread->run_count > 1 ? run - 1 : NULL;
	memset(run, 0, sizeof(*run));
	run->first = thread->manual_count;
	run->headless = event->kind != MANUAL_THREAD_START;
	run->ring = event->ring;
	run->source = SIZE_MAX;
	if (hash_map_get(&trace->process_index, thread->pid, &process))
		run->clock = trace->timeline->processes[process].clock;
	run->usable = clock_line_usable(trace_index_clock(trace, run->clock, thread->pid));
	if (!before || before->clock != run->clock)
		thread->cursor = (struct clock_cursor){0};
	thread->in_doubt = true;
	return end_run(thread);
}

static int add_half(struct trace_index *trace, uint32_t pid, const struct raw_manual *event)
{
	if (vec_grow(&trace->halves, &trace->half_capacity, trace->half_count))
		return -ENOMEM;
	trace->halves[trace->half_count] =
		(struct async_half){event->time, event->value, trace->half_count,
				    pid,	 event->name,  event->kind == MANUAL_ASYNC_START};
	trace->half_count++;
	return 0;
}

static int add_name(struct thread_events *thread, const struct raw_manual *event)
{
	if (vec_grow(&thread->names, &thread->name_capacity, thread->name_count))
		return -ENOMEM;
	thread->names[thread->name_count++] =
		(struct own_name){event->time, event->name, event->order};
	return 0;
}

/* Pairs over the borders of regions: the region of a start must know of its stop. */
static int take_stop(struct trace_index *trace, struct thread_events *thread,
		     const struct raw_manual *event)
{
	struct accounting_total *total = &trace->timeline->accounting;
	struct start start;

	if (!starts_stop(&thread->starts, event->value, &start)) {
		total->manual_orphans++;
		return 0;
	}
	total->manual_unstopped--;
	if (start.place == trace->region_count - 1)
		return 0;
	if (vec_grow(&thread->stops, &thread->stop_capacity, thread->stop_count))
		return -ENOMEM;
	thread->stops[thread->stop_count++] =
		(struct late_stop){start.order, event->order, false,
				   order_settled(event->time, thread->latest_manual_ns)};
	return 0;
}

static int push_start(struct thread_events *thread, const struct raw_manual *event, uint32_t place)
{
	const struct start start = {
		.id = event->value,
		.start_ns = order_settled(event->time, thread->latest_manual_ns),
		.order = event->order,
		.place = place,
		.name = event->name,
	};

	return starts_push_named(&thread->starts, &start);
}

static int take_event(struct trace_index *trace, struct thread_events *thread,
		      const struct raw_manual *event, bool late)
{
	struct manual_run *run = &thread->runs[thread->run_count - 1];
	uint32_t place = late ? CARRIED_START : (uint32_t)trace->region_count - 1;

	switch (event->kind) {
	case MANUAL_START:
		run->scopes++;
		trace->timeline->accounting.manual_unstopped++;
		return push_start(thread, event, place);
	case MANUAL_STOP:
		return take_stop(trace, thread, event);
	case MANUAL_COMPLETE:
		run->scopes++;
		return 0;
	case MANUAL_THREAD_START:
		return 0;
	case MANUAL_THREAD_NAME:
		return add_name(thread, event);
	case MANUAL_ASYNC_START:
	case MANUAL_ASYNC_STOP:
		run->marks++;
		return add_half(trace, thread->pid, event);
	default:
		run->marks++;
		return 0;
	}
}

static void note_manual(struct thread_events *thread, const struct raw_manual *event)
{
	struct manual_run *run = &thread->runs[thread->run_count - 1];
	uint64_t now = raw_manual_time(event);

	if (event->order == run->first)
		run->first_ns = run->earliest_ns = event->time;
	if (event->time < run->earliest_ns)
		run->earliest_ns = event->time;
	if (now > run->last_ns)
		run->last_ns = now;
	if (now > thread->latest_manual_ns)
		thread->latest_manual_ns = now;
	thread->has_written = true;
}

static int carry_manual(struct trace_index *trace, const struct thread_events *thread,
			const struct raw_manual *event, uint64_t ns, uint32_t order)
{
	struct carried *carried = carry(trace, thread, ns);

	if (!carried)
		return -ENOMEM;
	carried->manual = *event;
	carried->manual.order = order;
	return 0;
}

static int take_converted(struct trace_index *trace, struct thread_events *thread,
			  uint64_t bound_ns, const struct raw_manual *event)
{
	bool late = raw_manual_is_late(event, bound_ns, &thread->in_doubt);
	int err = late ? carry_manual(trace, thread, event, event->time, event->order) : 0;

	/* Where it ends tells of unwound calls, in the region of that time. */
	if (!err && late && event->kind == MANUAL_COMPLETE && event->value < bound_ns)
		err = carry_manual(trace, thread, event, event->value, RAW_MANUAL_TOLD);
	if (err || take_event(trace, thread, event, late))
		return -ENOMEM;
	note_manual(thread, event);
	return 0;
}

int first_pass_add_manual(struct trace_index *trace, const struct manual_event *event,
			  uint16_t minor, const char **wrong)
{
	struct thread_events *thread;
	struct thread_mark *mark;
	struct manual_run *run;
	struct raw_manual raw;
	int err = 0;

	*wrong = NULL;
	if (!manual_kind_known(event->kind)) {
		if (minor > SCOPE_FILE_MINOR)
			return 0;
		*wrong = "an unknown kind of manual event";
		return -EBADMSG;
	}
	*wrong = manual_wrong(trace->timeline, event);
	if (*wrong)
		return -EBADMSG;
	thread = trace_index_thread(trace, event->pid, event->tid);
	mark = thread ? enter_region(trace, thread) : NULL;
	if (!mark)
		return -ENOMEM;
	if (!thread->run_count || event->kind == MANUAL_THREAD_START)
		err = begin_run(trace, thread, event);
	if (err)
		return err;
	run = &thread->runs[thread->run_count - 1];
	run->count++;
	if (!run->usable) {
		trace->unplaced++;
		thread->manual_count++;
		return 0;
	}
	raw = raw_manual_of(event, thread->manual_count,
			    trace_index_clock(trace, run->clock, thread->pid), &thread->cursor);
	err = take_converted(trace, thread, mark->bound_ns, &raw);
	thread->manual_count++;
	return err;
}

/* ---- in order ---- */

static int by_region(const void *a, const void *b)
{
	const struct carried *x = a, *y = b;
	uint32_t x_order = x->is_call ? x->call.order : x->manual.order;
	uint32_t y_order = y->is_call ? y->call.order : y->manual.order;

	if (x->region != y->region)
		return x->region < y->region ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->is_call != y->is_call)
		return x->is_call ? -1 : 1;
	return (x_order > y_order) - (x_order < y_order);
}

static int by_start(const void *a, const void *b)
{
	const struct late_stop *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

int first_pass_end(struct trace_index *trace)
{
	if (trace->carried_count)
		qsort(trace->carried, trace->carried_count, sizeof(*trace->carried), by_region);
	for (size_t i = 0; i < trace->thread_count; i++) {
		struct thread_events *thread = &trace->threads[i];

		if (end_run(thread))
			return -ENOMEM;
		if (thread->stop_count)
			qsort(thread->stops, thread->stop_count, sizeof(*thread->stops), by_start);
	}
	return 0;
}
