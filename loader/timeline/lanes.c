// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/lanes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"
#include "timeline/lane.h"
#include "timeline/visit.h"

/* The last change of the process that was no later than `ns`; its first, if all were. */
static const struct process_change *change_at(const struct timeline *timeline, uint32_t process,
					      uint64_t ns)
{
	const struct process_change *changes = timeline->process_changes;
	size_t low;

	SEARCH_FIRST(low, timeline->process_change_count,
		     changes[low].process < process ||
			     (changes[low].process == process && changes[low].time_ns <= ns));
	return low && changes[low - 1].process == process ? &changes[low - 1] : &changes[low];
}

/* The name that the process had at the time; 0 for the last one. */
static uint32_t process_name_at(const struct trace_index *trace, uint32_t pid, uint64_t ns)
{
	const struct timeline *timeline = trace->timeline;
	uint32_t process;

	if (!hash_map_get(&trace->process_index, pid, &process))
		return 0;
	return ns ? change_at(timeline, process, ns)->name : timeline->processes[process].name;
}

static int by_name_time(const void *a, const void *b)
{
	const struct name_change *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

/* The first of the names that the thread gave itself in this run, or behind it. */
static size_t first_own_name(const struct thread_events *thread, const struct manual_run *run)
{
	size_t low;

	SEARCH_FIRST(low, thread->name_count, thread->names[low].order < run->first);
	return low;
}

/* The names that a thread gave itself; the last of them is shown. */
static int add_own_names(const struct thread_events *thread, struct lane *lane,
			 struct lane_span *span)
{
	const struct manual_run *run = &thread->runs[span->run];
	int err = 0;

	for (size_t i = first_own_name(thread, run); i < thread->name_count && !err; i++) {
		const struct own_name *own = &thread->names[i];

		if (own->order - run->first >= run->count)
			break;
		lane->name = own->name;
		err = name_changes_add(&span->names, &span->name_count, &span->name_capacity,
				       own->time_ns, own->name);
	}
	return err;
}

/* Moves the span's names to the lane: by time, those alike beside each other as one. */
static int name_lane(const struct trace_index *trace, const struct thread_events *thread,
		     struct lane *lane, struct lane_span *span)
{
	int err = span->has_manual ? add_own_names(thread, lane, span) : 0;
	size_t kept = 0;

	if (span->name_count)
		qsort(span->names, span->name_count, sizeof(*span->names), by_name_time);
	for (size_t i = 0; i < span->name_count; i++) {
		if (!kept || span->names[kept - 1].name != span->names[i].name)
			span->names[kept++] = span->names[i];
	}
	lane->names = span->names;
	lane->name_count = kept;
	span->names = NULL;
	span->name_count = span->name_capacity = 0;
	if (!lane->name && kept)
		lane->name = lane->names[kept - 1].name;
	/* As the kernel does it: a thread has its process's name until it gets one of its own. */
	if (!lane->name)
		lane->name = process_name_at(trace, lane->pid,
					     lane->pid == lane->tid ? 0 : lane->start_ns);
	return err;
}

static int make_lane(struct trace_index *trace, const struct thread_events *thread,
		     struct lane_span *span, struct lane_source *source, size_t *capacity)
{
	struct timeline *timeline = trace->timeline;
	const struct manual_run *run = span->has_manual ? &thread->runs[span->run] : NULL;
	struct lane *lane;

	if (vec_grow(&timeline->lanes, capacity, timeline->lane_count))
		return -ENOMEM;
	source->lane = timeline->lane_count++;
	lane = &timeline->lanes[source->lane];
	memset(lane, 0, sizeof(*lane));
	lane->pid = thread->pid;
	lane->tid = thread->tid;
	lane->start_ns = span->start_ns;
	lane->end_ns = span->exit_ns ? source->last_ns : 0;
	lane->scope_count = (size_t)(span->call_end - span->call_first) + (run ? run->scopes : 0);
	lane->mark_count = run ? run->marks : 0;
	return name_lane(trace, thread, lane, span);
}

/* What is shown of a span is a lane; if nothing is, there is none. */
static int add_lane(struct trace_index *trace, struct thread_events *thread, struct lane_plan *plan,
		    size_t index, size_t *capacity)
{
	struct lane_source *source = &trace->lanes[trace->lane_count];
	struct lane_span *span = &plan->spans[index];
	struct manual_run *run = span->has_manual ? &thread->runs[span->run] : NULL;

	if (run)
		run->source = trace->lane_count;
	trace->lane_count++;
	*source = (struct lane_source){
		.begin_ns = span->begin_ns,
		.end_ns = index + 1 < plan->count ? plan->spans[index + 1].begin_ns : UINT64_MAX,
		.last_ns = lane_span_last(plan, index, thread, trace->timeline->end_ns),
		.run = run ? (uint32_t)span->run : UINT32_MAX,
		.lane = SIZE_MAX,
	};
	if (span->call_end == span->call_first && !(run && (run->scopes || run->marks)))
		return 0;
	return make_lane(trace, thread, span, source, capacity);
}

static int add_lanes(struct trace_index *trace, struct thread_events *thread, size_t *capacity)
{
	struct lane_plan plan;
	int err = lane_plan_make(&plan, thread);

	if (!err && vec_reserve((void **)&trace->lanes, &trace->lane_capacity,
				trace->lane_count + plan.count, sizeof(*trace->lanes)))
		err = -ENOMEM;
	thread->first_lane = trace->lane_count;
	for (size_t i = 0; i < plan.count && !err; i++)
		err = add_lane(trace, thread, &plan, i, capacity);
	thread->lane_end = trace->lane_count;
	lane_plan_clear(&plan);
	return err;
}

static int by_thread(const void *a, const void *b, void *context)
{
	const struct trace_index *trace = context;
	const struct thread_events *x = &trace->threads[*(const uint32_t *)a];
	const struct thread_events *y = &trace->threads[*(const uint32_t *)b];

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

static int sort_threads(struct trace_index *trace)
{
	trace->by_name = calloc(trace->thread_count + 1, sizeof(*trace->by_name));
	if (!trace->by_name)
		return -ENOMEM;
	for (size_t i = 0; i < trace->thread_count; i++)
		trace->by_name[i] = (uint32_t)i;
	qsort_r(trace->by_name, trace->thread_count, sizeof(*trace->by_name), by_thread, trace);
	return 0;
}

/* Where a tid was used by several threads with calls of their own, these must be counted. */
static int count_turns(struct trace_index *trace)
{
	bool *wanted = calloc(trace->thread_count + 1, sizeof(*wanted)), any = false;
	int err = wanted ? 0 : -ENOMEM;

	for (size_t i = 0; i < trace->thread_count && !err; i++) {
		err = lane_turns_note(&trace->threads[i], &wanted[i]);
		any = any || wanted[i];
	}
	if (!err && any)
		err = visit_turns(trace, wanted);
	free(wanted);
	return err;
}

int lanes_plan(struct trace_index *trace)
{
	size_t capacity = 0;
	int err = sort_threads(trace);

	if (!err)
		err = count_turns(trace);
	for (size_t i = 0; i < trace->thread_count && !err; i++)
		err = add_lanes(trace, &trace->threads[trace->by_name[i]], &capacity);
	return err;
}
