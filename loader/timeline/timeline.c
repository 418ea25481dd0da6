// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/vec.h"
#include "timeline/accounting.h"
#include "timeline/async.h"
#include "timeline/clock.h"
#include "timeline/merge.h"
#include "timeline/names.h"
#include "timeline/order.h"

#define CLOCKS (CLOCK_ID_CNTVCT + 1)

struct building {
	struct capture capture;
	struct timeline *timeline;
	struct clock_line clocks[CLOCKS];
	struct loss_event *segment_losses; /* as merge_losses() makes them */
	size_t segment_loss_count;
	size_t lane_capacity;
	size_t unplaced; /* manual events that no clock can place */
};

/* ---- names ---- */

/* Demangled names are appended, since a manual scope may have the same string for its name and keeps it as it
 * is. */
static int demangle_functions(struct building *building)
{
	struct timeline *timeline = building->timeline;

	for (size_t i = 0; i < timeline->function_count; i++) {
		uint32_t *name = &timeline->functions[i].info.name;
		char *shown = demangle(timeline->names[*name]);

		if (!shown)
			continue;
		if (timeline->name_count >= UINT32_MAX ||
		    vec_grow(&timeline->names, &building->capture.name_capacity, timeline->name_count)) {
			free(shown);
			return -ENOMEM;
		}
		*name = (uint32_t)timeline->name_count;
		timeline->names[timeline->name_count++] = shown;
	}
	return 0;
}

static const struct process_info *process_of(const struct building *building, uint32_t pid)
{
	uint32_t index;

	return hash_map_get(&building->capture.process_index, pid, &index)
		       ? &building->timeline->processes[index]
		       : NULL;
}

/* ---- times ---- */

static int build_clocks(struct building *building)
{
	int err = 0;

	for (uint32_t clock = CLOCK_ID_MONOTONIC; clock < CLOCKS && !err; clock++)
		err = clock_line_build(&building->clocks[clock], clock, building->capture.anchors,
				       building->capture.anchor_count);
	return err;
}

/*
 * The clock of a run of events: as it was declared before them, else later, else the only counter that has
 * anchors, or CLOCK_MONOTONIC.
 */
static const struct clock_line *clock_of(const struct building *building, uint32_t clock, uint32_t pid)
{
	const struct process_info *process = process_of(building, pid);

	if (!clock && process)
		clock = process->clock;
	if (clock)
		return &building->clocks[clock];
	for (clock = CLOCK_ID_TSC; clock < CLOCKS; clock++) {
		if (clock_line_usable(&building->clocks[clock]))
			return &building->clocks[clock];
	}
	return &building->clocks[CLOCK_ID_MONOTONIC];
}

/* Manual events from ticks to ns. */
static void convert_run(const struct clock_line *line, struct raw_manual *events, size_t count)
{
	struct clock_cursor cursor = {0};

	for (size_t i = 0; i < count; i++) {
		struct raw_manual *event = &events[i];
		struct clock_cursor start = cursor;

		/* The record of a COMPLETE stands at its end. */
		if (event->kind == MANUAL_COMPLETE) {
			event->value = clock_line_convert(line, &cursor, event->value);
			event->time = clock_line_convert(line, &start, event->time);
		} else {
			event->time = clock_line_convert(line, &cursor, event->time);
		}
	}
}

/* Events of a clock that cannot be converted are taken out. Returns the time of the thread's latest manual
 * event. */
static uint64_t convert_thread(struct building *building, struct thread_events *thread)
{
	size_t kept = 0;
	uint64_t now = 0;

	for (size_t i = 0; i < thread->run_count; i++) {
		const struct clock_line *line = clock_of(building, thread->runs[i].clock, thread->pid);
		size_t first = thread->runs[i].first;
		size_t count =
			(i + 1 < thread->run_count ? thread->runs[i + 1].first : thread->manual_count) -
			first;

		if (!clock_line_usable(line)) {
			building->unplaced += count;
			continue;
		}
		memmove(&thread->manual[kept], &thread->manual[first], count * sizeof(*thread->manual));
		convert_run(line, &thread->manual[kept], count);
		now = order_records(&thread->manual[kept], count, now);
		kept += count;
	}
	thread->manual_count = kept;
	return now;
}

/* Converts all manual times, and lets the capture begin and end no later and no earlier than what it holds.
 */
static void settle_times(struct building *building)
{
	struct timeline *timeline = building->timeline;

	for (size_t i = 0; i < building->capture.thread_count; i++) {
		struct thread_events *thread = &building->capture.threads[i];
		uint64_t latest = convert_thread(building, thread);

		for (size_t j = 0; j < thread->manual_count; j++) {
			if (thread->manual[j].time < timeline->start_ns)
				timeline->start_ns = thread->manual[j].time;
		}
		for (size_t j = 0; j < thread->call_count; j++) {
			const struct raw_call *call = &thread->calls[j];

			if (call->start_ns < timeline->start_ns)
				timeline->start_ns = call->start_ns;
			latest = call->start_ns > latest ? call->start_ns : latest;
			latest = call->end_ns > latest ? call->end_ns : latest;
		}
		if (latest > timeline->end_ns)
			timeline->end_ns = latest;
	}
	if (timeline->end_ns < timeline->start_ns)
		timeline->end_ns = timeline->start_ns;
	if (building->unplaced)
		log_warning("%zu manual events cannot be placed in time and are left out: the capture holds "
			    "fewer than "
			    "two anchors of their clock (it was probably cut short in its first second)",
			    building->unplaced);
}

/* ---- losses ---- */

static int by_first_ns(const void *a, const void *b)
{
	const struct loss_event *x = a, *y = b;

	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

static int sort_losses(struct building *building)
{
	struct timeline *timeline = building->timeline;

	if (!timeline->loss_count)
		return 0;
	qsort(timeline->losses, timeline->loss_count, sizeof(*timeline->losses), by_first_ns);
	building->segment_losses = calloc(timeline->loss_count, sizeof(*building->segment_losses));
	if (!building->segment_losses)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->loss_count; i++) {
		const struct loss_event *loss = &timeline->losses[i];

		if (loss->place == LOSS_SEGMENT_LAP || loss->place == LOSS_WRITTEN_OFF)
			building->segment_losses[building->segment_loss_count++] = *loss;
	}
	building->segment_loss_count = merge_losses(building->segment_losses, building->segment_loss_count);
	return 0;
}

/* ---- lanes ---- */

/* The end of the thread, or of the capture, and no earlier than the span's last event. */
static uint64_t end_of_span(const struct building *building, const struct thread_events *thread,
			    const struct lane_span *span)
{
	uint64_t end = span->exit_ns ? span->exit_ns : building->timeline->end_ns;

	for (size_t i = span->call_first; i < span->call_end; i++) {
		const struct raw_call *call = &thread->calls[i];
		/* Where an unfinished call was still open is not an end. */
		uint64_t last = call->flags & SCOPE_FLAG_UNFINISHED ? call->start_ns : call->end_ns;

		end = last > end ? last : end;
	}
	for (size_t i = span->manual_first; i < span->manual_end; i++) {
		const struct raw_manual *event = &thread->manual[i];
		uint64_t last = event->kind == MANUAL_COMPLETE ? event->value : event->time;

		end = last > end ? last : end;
	}
	return end;
}

static void lane_clear(struct lane *lane)
{
	free(lane->scopes);
	free(lane->marks);
}

static uint64_t count_unstopped(const struct lane *lane)
{
	uint64_t count = 0;

	for (size_t i = 0; i < lane->scope_count; i++)
		count += lane->scopes[i].kind == SCOPE_MANUAL &&
			 lane->scopes[i].flags & (SCOPE_FLAG_CUT | SCOPE_FLAG_UNFINISHED);
	return count;
}

static int add_lane(struct building *building, const struct thread_events *thread,
		    const struct lane_span *span)
{
	struct timeline *timeline = building->timeline;
	const struct process_info *process;
	struct merge_input input = {timeline,
				    thread,
				    span,
				    end_of_span(building, thread, span),
				    building->segment_losses,
				    building->segment_loss_count};
	struct lane *lane;
	int err;

	if (vec_grow(&timeline->lanes, &building->lane_capacity, timeline->lane_count))
		return -ENOMEM;
	lane = &timeline->lanes[timeline->lane_count];
	memset(lane, 0, sizeof(*lane));
	lane->pid = thread->pid;
	lane->tid = thread->tid;
	lane->start_ns = span->start_ns;
	lane->end_ns = span->exit_ns ? input.end_ns : 0;
	lane->name = span->name;
	process = process_of(building, thread->pid);
	/* As the kernel does it: a thread has its process's name until it gets one of its own. */
	if (!lane->name && process)
		lane->name = process->name;
	err = merge_lane(lane, &input, &timeline->accounting.manual_orphans);
	if (!err)
		timeline->accounting.manual_unstopped += count_unstopped(lane);
	if (err || !(lane->scope_count || lane->mark_count))
		lane_clear(lane);
	else
		timeline->lane_count++;
	return err;
}

/* Makes the lanes of one tid, and frees its events. */
static int add_lanes(struct building *building, struct thread_events *thread)
{
	struct lane_plan plan;
	int err = lane_plan_make(&plan, thread);

	for (size_t i = 0; i < plan.count && !err; i++)
		err = add_lane(building, thread, &plan.spans[i]);
	lane_plan_clear(&plan);
	thread_events_clear(thread);
	return err;
}

static int by_thread(const void *a, const void *b)
{
	const struct thread_events *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/* Lanes come out by process and thread, and of one tid in the order in which its threads lived. */
static int make_lanes(struct building *building)
{
	struct capture *capture = &building->capture;
	int err = 0;

	if (capture->thread_count)
		qsort(capture->threads, capture->thread_count, sizeof(*capture->threads), by_thread);
	for (size_t i = 0; i < capture->thread_count && !err; i++)
		err = add_lanes(building, &capture->threads[i]);
	return err;
}

/* ---- accounting ---- */

/* What holds for each function holds for their sum, as the identities are sums themselves. */
static void judge(struct building *building)
{
	const struct timeline *timeline = building->timeline;
	struct accounting_total *total = &building->timeline->accounting;

	if (timeline->truncated)
		accounting_fail(total,
				"the file was cut short after %" PRIu64 " bytes: its accounting is missing",
				timeline->truncated_at);
	for (size_t i = 0; i < timeline->function_count; i++) {
		const struct function_entry *entry = &timeline->functions[i];
		const char *name = timeline->names[entry->info.name];

		if (!entry->accounted)
			accounting_fail(total, "%.*s: the file has no accounting of it",
					(int)name_cut(name, 80), name);
		accounting_add_function(total, &entry->accounting, entry->in_file, name);
	}
	for (size_t i = 0; i < building->capture.segment_count; i++)
		accounting_add_segment(total, &building->capture.segments[i]);
	if (building->capture.segment_count)
		accounting_judge_events(total, building->capture.records[CHUNK_MANUAL]);
}

/* ---- losses of hooked calls ---- */

struct interval {
	uint64_t first_ns;
	uint64_t last_ns;
};

/* The times in which calls were lost, ascending and apart: the losses are sorted. Returns their number. */
static size_t ring_loss_intervals(const struct timeline *timeline, struct interval *intervals)
{
	size_t count = 0;

	for (size_t i = 0; i < timeline->loss_count; i++) {
		const struct loss_event *loss = &timeline->losses[i];
		uint64_t last = loss->last_ns > loss->first_ns ? loss->last_ns : loss->first_ns;

		if (loss->place != LOSS_KERNEL_RING && loss->place != LOSS_HANDOFF)
			continue;
		if (count && intervals[count - 1].last_ns >= loss->first_ns) {
			if (intervals[count - 1].last_ns < last)
				intervals[count - 1].last_ns = last;
			continue;
		}
		intervals[count++] = (struct interval){loss->first_ns, last};
	}
	return count;
}

/* The first interval that has not ended before `ns`; `count` if all have. */
static size_t first_not_over(const struct interval *intervals, size_t count, uint64_t ns)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (intervals[middle].last_ns < ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* A ring is full for whole processors, not threads: any hooked scope open at the time may lack something
 * inside. */
static int flag_ring_losses(struct timeline *timeline)
{
	struct interval *intervals = calloc(timeline->loss_count + 1, sizeof(*intervals));
	size_t count;

	if (!intervals)
		return -ENOMEM;
	count = ring_loss_intervals(timeline, intervals);
	for (size_t i = 0; count && i < timeline->lane_count; i++) {
		for (size_t j = 0; j < timeline->lanes[i].scope_count; j++) {
			struct scope *scope = &timeline->lanes[i].scopes[j];
			size_t at = first_not_over(intervals, count, scope->start_ns);

			if (scope->kind == SCOPE_HOOKED && at < count &&
			    intervals[at].first_ns <= scope->end_ns)
				scope->flags |= SCOPE_FLAG_LOST;
		}
	}
	free(intervals);
	return 0;
}

/* ---- the timeline ---- */

static int build(struct building *building)
{
	int err = demangle_functions(building);

	if (!err)
		err = build_clocks(building);
	if (!err)
		err = sort_losses(building);
	if (err)
		return err;
	settle_times(building);
	err = make_lanes(building);
	if (!err)
		err = flag_ring_losses(building->timeline);
	if (!err)
		err = async_pair(building->timeline);
	if (!err)
		judge(building);
	return err;
}

struct timeline *timeline_open(const char *path)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));
	struct building building = {.capture = {.timeline = timeline}, .timeline = timeline};
	int err = -ENOMEM;

	if (timeline) {
		accounting_begin(&timeline->accounting);
		err = capture_load(path, &building.capture);
		if (!err) {
			err = build(&building);
			if (err)
				log_error("out of memory while putting the capture %s in order", path);
		}
	}
	for (uint32_t clock = 0; clock < CLOCKS; clock++)
		clock_line_clear(&building.clocks[clock]);
	free(building.segment_losses);
	capture_clear(&building.capture);
	if (err) {
		timeline_close(timeline);
		errno = -err;
		return NULL;
	}
	return timeline;
}

void timeline_close(struct timeline *timeline)
{
	if (!timeline)
		return;
	for (size_t i = 0; i < timeline->lane_count; i++)
		lane_clear(&timeline->lanes[i]);
	for (size_t i = 0; i < timeline->name_count; i++)
		free(timeline->names[i]);
	free(timeline->names);
	free(timeline->lanes);
	free(timeline->asyncs);
	free(timeline->processes);
	free(timeline->functions);
	free(timeline->losses);
	free(timeline->host);
	free(timeline->kernel);
	free(timeline->command);
	free(timeline);
}
