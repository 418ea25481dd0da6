// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/demangle.h"
#include "base/log.h"
#include "base/search.h"
#include "base/vec.h"
#include "event/accounting.h"
#include "timeline/async.h"
#include "timeline/lane.h"
#include "timeline/merge.h"
#include "base/utf8.h"
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

/* ---- lanes ---- */

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

static void lane_clear(struct lane *lane)
{
	free(lane->scopes);
	free(lane->marks);
	free(lane->names);
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

/* Lanes come out by process and thread, and of one tid in the order in which its threads lived. */
static int plan_lanes(struct trace_index *trace)
{
	size_t capacity = 0;
	int err = sort_threads(trace);

	if (!err)
		err = count_turns(trace);
	for (size_t i = 0; i < trace->thread_count && !err; i++)
		err = add_lanes(trace, &trace->threads[trace->by_name[i]], &capacity);
	return err;
}

/* Unwound calls whose end may lie in another region than they began in. */
static int note_unwound(struct trace_index *trace)
{
	bool any = false;

	for (size_t i = 0; i < trace->thread_count; i++)
		any = any || (trace->threads[i].any_unwound && trace->threads[i].mark_count > 1);
	return any ? visit_unwound(trace) : 0;
}

/* ---- accounting ---- */

/* True if the file has the accounting of some function. */
static bool accounted(const struct timeline *timeline)
{
	size_t i = 0;

	while (i < timeline->function_count && !timeline->functions[i].accounted)
		i++;
	return i < timeline->function_count;
}

/* True if the file has no account at all of what is in it, of functions or else of segments. */
static bool lacks_accounts(const struct trace_index *trace)
{
	if (trace->timeline->function_count)
		return !accounted(trace->timeline);
	return trace->records[CHUNK_MANUAL] && !trace->segment_count;
}

/* All that is known of it: what of it was drained. */
static void count_function(struct accounting_total *total, const struct function_entry *entry)
{
	total->functions++;
	total->in_file += entry->in_file.completed;
	total->sum.unwound += entry->in_file.unwound;
	total->sum.instants += entry->in_file.instants;
}

static const struct segment_tally *find_tally(const struct trace_index *trace,
					      const struct segment_accounting *counts)
{
	static const struct segment_tally none;

	uint32_t i;

	if (hash_map_get(&trace->tally_by_segment, (uint64_t)counts->pid << 32 | counts->segment,
			 &i))
		return &trace->tallies[i];
	return &none;
}

/*
 * True if there is nothing to judge of all together: no segments, or such as several readers have
 * read, one of which may have no account, as nobody drained when its process ended. Of a capture
 * that goes on one file does not hold what the accounts of the others' segments tell.
 */
static bool add_segments(const struct trace_index *trace, struct accounting_total *total)
{
	bool shared = !trace->segment_count;

	for (size_t i = 0; i < trace->segment_count; i++) {
		const struct segment_accounting *counts = &trace->segments[i];
		const struct segment_tally *tally;

		shared |= counts->segment != 0;
		if (!counts->segment) {
			accounting_add_segment(total, counts);
		} else if (!total->open) {
			tally = find_tally(trace, counts);
			accounting_add_shared_segment(total, counts, tally->events, tally->lost);
		}
	}
	return shared;
}

/* What holds for each function holds for their sum, as the identities are sums themselves. */
static void judge(struct trace_index *trace)
{
	const struct timeline *timeline = trace->timeline;
	struct accounting_total *total = &trace->timeline->accounting;

	if (timeline->truncated)
		accounting_fail(
			total,
			"the file was cut short after %" PRIu64
			" bytes, %.6f s after its start: what came later is missing, and its accounting",
			timeline->truncated_at,
			(double)(timeline->end_ns - timeline->start_ns) / 1e9);
	total->open = !timeline->truncated && lacks_accounts(trace);
	for (size_t i = 0; i < timeline->function_count; i++) {
		const struct function_entry *entry = &timeline->functions[i];
		const char *name = timeline->names[entry->info.name];

		if (total->open) {
			count_function(total, entry);
			continue;
		}
		if (!entry->accounted)
			accounting_fail(total, "%.*s: the file has no accounting of it",
					(int)name_cut(name, 80), name);
		accounting_add_function(total, &entry->accounting, entry->in_file, name);
	}
	if (total->open && !trace->segment_count)
		total->segment_delivered = trace->records[CHUNK_MANUAL];
	if (!add_segments(trace, total))
		accounting_judge_events(total, trace->records[CHUNK_MANUAL]);
}

/* ---- the timeline ---- */

static int build(struct trace_index *trace)
{
	int err = demangle_functions(trace);

	if (!err)
		err = sort_losses(trace);
	if (err)
		return err;
	sort_changes(trace->timeline);
	settle_times(trace);
	err = plan_lanes(trace);
	if (!err)
		err = note_unwound(trace);
	if (!err)
		err = async_pair(trace->timeline, trace->halves, trace->half_count);
	if (!err)
		judge(trace);
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
