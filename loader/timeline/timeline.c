// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/vec.h"
#include "event/accounting.h"
#include "timeline/async.h"
#include "timeline/balance.h"
#include "timeline/lanes.h"
#include "timeline/load.h"
#include "timeline/merge.h"
#include "timeline/visit.h"

#define REGION_RECORDS (128 * 1024) /* some 150 bytes each while a region is read: 20 MiB */

/* ---- names ---- */

/* Demangled names are appended, since a manual scope may have the same string for its name and keeps it as it
 * is. */
static int demangle_functions(struct trace_index *trace)
{
	struct timeline *timeline = trace->timeline;

	for (size_t i = 0; i < timeline->function_count; i++) {
		uint32_t *name = &timeline->functions[i].info.name;
		char *shown = demangle(timeline->names[*name]);

		if (!shown)
			continue;
		if (timeline->name_count >= UINT32_MAX ||
		    vec_grow(&timeline->names, &trace->name_capacity, timeline->name_count)) {
			free(shown);
			return -ENOMEM;
		}
		*name = (uint32_t)timeline->name_count;
		timeline->names[timeline->name_count++] = shown;
	}
	return 0;
}

static int by_change(const void *a, const void *b)
{
	const struct process_change *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void sort_changes(struct timeline *timeline)
{
	if (timeline->process_change_count)
		qsort(timeline->process_changes, timeline->process_change_count,
		      sizeof(*timeline->process_changes), by_change);
}

/* ---- times ---- */

static void settle_thread(struct timeline *timeline, const struct thread_events *thread)
{
	if (thread->call_count && thread->first_call_ns < timeline->start_ns)
		timeline->start_ns = thread->first_call_ns;
	if (thread->latest_call_ns > timeline->end_ns)
		timeline->end_ns = thread->latest_call_ns;
	if (thread->latest_manual_ns > timeline->end_ns)
		timeline->end_ns = thread->latest_manual_ns;
	for (size_t i = 0; i < thread->run_count; i++) {
		const struct manual_run *run = &thread->runs[i];

		if (run->usable && run->earliest_ns < timeline->start_ns)
			timeline->start_ns = run->earliest_ns;
	}
}

/* Lets the capture begin and end no later and no earlier than what it holds. */
static void settle_times(struct trace_index *trace)
{
	struct timeline *timeline = trace->timeline;

	for (size_t i = 0; i < trace->thread_count; i++)
		settle_thread(timeline, &trace->threads[i]);
	if (timeline->end_ns < timeline->start_ns)
		timeline->end_ns = timeline->start_ns;
	if (trace->unplaced)
		log_warning(
			"%" PRIu64
			" manual events cannot be placed in time and are left out: the capture "
			"holds fewer than "
			"two anchors of their clock (it was probably cut short in its first second)",
			trace->unplaced);
}

/* ---- losses ---- */

static int by_first_ns(const void *a, const void *b)
{
	const struct loss_event *x = a, *y = b;

	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

/* The times in which calls were lost, ascending and apart: the losses are sorted. */
static void join_ring_losses(struct trace_index *trace)
{
	const struct timeline *timeline = trace->timeline;
	struct interval *intervals = trace->ring_losses;
	size_t count = 0;

	for (size_t i = 0; i < timeline->loss_count; i++) {
		const struct loss_event *loss = &timeline->losses[i];
		uint64_t last = loss->last_ns > loss->first_ns ? loss->last_ns : loss->first_ns;

		if (loss_is_manual(loss))
			continue;
		if (count && intervals[count - 1].last_ns >= loss->first_ns) {
			if (intervals[count - 1].last_ns < last)
				intervals[count - 1].last_ns = last;
			continue;
		}
		intervals[count++] = (struct interval){loss->first_ns, last};
	}
	trace->ring_loss_count = count;
}

static int sort_losses(struct trace_index *trace)
{
	struct timeline *timeline = trace->timeline;

	if (!timeline->loss_count)
		return 0;
	qsort(timeline->losses, timeline->loss_count, sizeof(*timeline->losses), by_first_ns);
	trace->segment_losses = calloc(timeline->loss_count, sizeof(*trace->segment_losses));
	trace->ring_losses = calloc(timeline->loss_count, sizeof(*trace->ring_losses));
	if (!trace->segment_losses || !trace->ring_losses)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->loss_count; i++) {
		const struct loss_event *loss = &timeline->losses[i];

		if (loss_is_manual(loss))
			trace->segment_losses[trace->segment_loss_count++] = *loss;
	}
	trace->segment_loss_count = merge_losses(trace->segment_losses, trace->segment_loss_count);
	join_ring_losses(trace);
	return 0;
}

/* ---- the timeline ---- */

/* Unwound calls whose end may lie in another region than they began in. */
static int track_unwound(struct trace_index *trace)
{
	bool any = false;

	for (size_t i = 0; i < trace->thread_count; i++)
		any = any || (trace->threads[i].any_unwound && trace->threads[i].mark_count > 1);
	return any ? visit_unwound(trace) : 0;
}

static int build(struct trace_index *trace)
{
	int err = demangle_functions(trace);

	if (!err)
		err = sort_losses(trace);
	if (err)
		return err;
	sort_changes(trace->timeline);
	settle_times(trace);
	err = lanes_plan(trace);
	if (!err)
		err = track_unwound(trace);
	if (!err)
		err = async_pair(trace->timeline, trace->halves, trace->half_count);
	if (!err)
		balance_check(trace);
	return err;
}

struct timeline *timeline_open_with(const char *path, uint64_t region_records)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));
	struct trace_index *trace = calloc(1, sizeof(*trace));
	int err = -ENOMEM;

	if (timeline && trace) {
		timeline->trace = trace;
		trace->timeline = timeline;
		trace->region_records = region_records;
		accounting_begin(&timeline->accounting);
		err = trace_index_load(path, trace);
		if (!err) {
			err = build(trace);
			if (err == -ENOMEM)
				log_error("out of memory while putting the capture %s in order",
					  path);
		}
	} else {
		free(trace);
	}
	if (err) {
		timeline_close(timeline);
		errno = -err;
		return NULL;
	}
	return timeline;
}

struct timeline *timeline_open(const char *path)
{
	return timeline_open_with(path, REGION_RECORDS);
}

/* Lanes that are in memory are a part each. */
static int visit_memory(const struct timeline *timeline, timeline_visitor visit, void *context)
{
	int err = 0;

	for (size_t i = 0; i < timeline->lane_count && !err; i++) {
		struct lane *lane = &timeline->lanes[i];
		struct lane_part part = {.lane = lane,
					 .scopes = lane->scopes,
					 .scope_count = lane->scope_count,
					 .marks = lane->marks,
					 .mark_count = lane->mark_count,
					 .last = true};

		err = visit(context, &part);
	}
	return err;
}

int timeline_visit(const struct timeline *timeline, timeline_visitor visit, void *context)
{
	return timeline->trace ? visit_lanes(timeline->trace, visit, context)
			       : visit_memory(timeline, visit, context);
}

static void lane_clear(struct lane *lane)
{
	free(lane->scopes);
	free(lane->marks);
	free(lane->names);
}

void timeline_close(struct timeline *timeline)
{
	if (!timeline)
		return;
	if (timeline->trace)
		trace_index_clear(timeline->trace);
	free(timeline->trace);
	for (size_t i = 0; i < timeline->lane_count; i++)
		lane_clear(&timeline->lanes[i]);
	for (size_t i = 0; i < timeline->name_count; i++)
		free(timeline->names[i]);
	free(timeline->names);
	free(timeline->lanes);
	free(timeline->asyncs);
	free(timeline->processes);
	free(timeline->process_changes);
	free(timeline->functions);
	free(timeline->losses);
	free(timeline->host);
	free(timeline->kernel);
	free(timeline->command);
	free(timeline);
}
