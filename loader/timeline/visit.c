// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/visit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/search.h"
#include "base/vec.h"
#include "timeline/call_order.h"
#include "timeline/lane.h"
#include "timeline/merge.h"
#include "timeline/order.h"
#include "timeline/unwound.h"

/* Where a thread's records have got to. */
struct stream {
	struct raw_call *calls; /* not in a part yet */
	size_t call_count, call_capacity;
	/* of this region; with unwound calls, also those not in a part yet */
	struct raw_manual *manual;
	size_t manual_count, manual_capacity;
	size_t taken; /* so many of them were taken */
	uint32_t call_order, manual_order;
	size_t run;
	struct clock_cursor cursor;
	uint64_t now; /* time of the latest manual event */
	size_t mark;  /* the region's, once the thread was met in it */
	bool begun, in_doubt;
	struct unwound *unwound;
	struct merge **merges; /* of each of its lanes; NULL before the first part */
};

enum purpose { TO_LANES, TO_UNWOUND };

struct visit {
	struct trace_index *trace;
	enum purpose purpose;
	timeline_visitor visitor;
	void *context;
	struct stream *streams; /* by thread */
	/* threads that were met in this region, as positions in capture.by_name */
	uint32_t *touched;
	size_t touched_count, touched_capacity;
	uint32_t *rank; /* of each thread: its position in by_name */
	size_t carried; /* the next one */
	struct call_room call_room;
	struct merge_room merge_room;
};

/* ---- records of a region ---- */

/* The thread was met in this region: its mark is the next. */
static int enter(struct visit *visit, uint32_t thread, uint32_t region)
{
	const struct thread_events *events = &visit->trace->threads[thread];
	struct stream *stream = &visit->streams[thread];

	if (stream->begun && events->marks[stream->mark].region == region)
		return 0;
	if (stream->begun)
		stream->mark++;
	if (stream->mark >= events->mark_count || events->marks[stream->mark].region != region)
		return -EBADMSG;
	stream->begun = true;
	stream->in_doubt = events->marks[stream->mark].in_doubt;
	if (vec_grow(&visit->touched, &visit->touched_capacity, visit->touched_count))
		return -ENOMEM;
	visit->touched[visit->touched_count++] = visit->rank[thread];
	return 0;
}

static bool wants(const struct visit *visit, const struct thread_events *thread)
{
	return visit->purpose == TO_LANES || thread->any_unwound;
}

static int keep_call(struct stream *stream, const struct raw_call *call)
{
	if (vec_grow(&stream->calls, &stream->call_capacity, stream->call_count))
		return -ENOMEM;
	stream->calls[stream->call_count++] = *call;
	return 0;
}

static int keep_manual(struct stream *stream, const struct raw_manual *event)
{
	if (vec_grow(&stream->manual, &stream->manual_capacity, stream->manual_count))
		return -ENOMEM;
	stream->manual[stream->manual_count++] = *event;
	return 0;
}

static int take_hooked(struct visit *visit, uint32_t region, const struct hooked_scope *scope)
{
	struct trace_index *trace = visit->trace;
	struct thread_events *thread = trace_index_find_thread(trace, scope->pid, scope->tid);
	struct stream *stream;
	struct raw_call call;
	int err;

	if (!thread || hooked_wrong(trace->timeline, scope))
		return -EBADMSG;
	if (!wants(visit, thread))
		return 0;
	stream = &visit->streams[thread - trace->threads];
	err = enter(visit, (uint32_t)(thread - trace->threads), region);
	call = raw_call_of(scope, stream->call_order++);
	if (err || call.start_ns < thread->marks[stream->mark].bound_ns)
		return err;
	return keep_call(stream, &call);
}

static int take_manual(struct visit *visit, uint32_t region, const struct manual_event *event)
{
	struct trace_index *trace = visit->trace;
	struct thread_events *thread = trace_index_find_thread(trace, event->pid, event->tid);
	const struct manual_run *run;
	struct stream *stream;
	struct raw_manual raw;
	uint32_t order;
	int err;

	if (!manual_kind_known(event->kind))
		return 0;
	if (!thread || manual_wrong(trace->timeline, event))
		return -EBADMSG;
	if (!wants(visit, thread))
		return 0;
	stream = &visit->streams[thread - trace->threads];
	err = enter(visit, (uint32_t)(thread - trace->threads), region);
	if (err)
		return err;
	order = stream->manual_order++;
	while (stream->run + 1 < thread->run_count && order >= thread->runs[stream->run + 1].first)
		stream->run++;
	if (stream->run >= thread->run_count)
		return -EBADMSG;
	run = &thread->runs[stream->run];
	if (order == run->first) {
		stream->in_doubt = true;
		if (stream->run && run->clock != run[-1].clock)
			stream->cursor = (struct clock_cursor){0};
	}
	if (!run->usable)
		return 0;
	raw = raw_manual_of(event, order, trace_index_clock(trace, run->clock, thread->pid),
			    &stream->cursor);
	if (raw_manual_is_late(&raw, thread->marks[stream->mark].bound_ns, &stream->in_doubt)) {
		/* Told before; but where it ends still tells of unwound calls. */
		if (raw.kind != MANUAL_COMPLETE || !thread->any_unwound ||
		    raw.value < thread->marks[stream->mark].bound_ns)
			return 0;
		raw.order = RAW_MANUAL_TOLD;
	}
	return keep_manual(stream, &raw);
}

/* ---- lanes of a thread ---- */

static bool is_of(const struct manual_run *run, uint32_t order)
{
	return order >= run->first && order - run->first < run->count;
}

/* The lane to which the manual event of this order belongs; NULL: nothing of it is shown. */
static const struct lane_source *source_of(const struct trace_index *trace,
					   const struct thread_events *thread, uint32_t order)
{
	const struct manual_run *run;
	size_t behind;

	SEARCH_FIRST(behind, thread->run_count, thread->runs[behind].first <= order);
	run = &thread->runs[behind ? behind - 1 : 0];
	if (!thread->run_count || !is_of(run, order) || run->source == SIZE_MAX)
		return NULL;
	return trace->lanes[run->source].lane == SIZE_MAX ? NULL : &trace->lanes[run->source];
}

static struct merge *merge_of(struct visit *visit, struct thread_events *thread,
			      const struct lane_source *source)
{
	struct trace_index *trace = visit->trace;
	struct stream *stream = &visit->streams[thread - trace->threads];
	struct merge_input input = {trace, thread, source};
	size_t index = (size_t)(source - trace->lanes) - thread->first_lane;

	if (!stream->merges)
		stream->merges =
			calloc(thread->lane_end - thread->first_lane, sizeof(*stream->merges));
	if (!stream->merges)
		return NULL;
	if (!stream->merges[index])
		stream->merges[index] = merge_create(&trace->timeline->lanes[source->lane], &input);
	return stream->merges[index];
}

/* A scope that is told as a whole, at its end, which lies in a later region. */
static int give_complete(struct visit *visit, struct thread_events *thread,
			 const struct raw_manual *event)
{
	const struct lane_source *source = source_of(visit->trace, thread, event->order);
	struct merge *merge = source ? merge_of(visit, thread, source) : NULL;

	if (source && !merge)
		return -ENOMEM;
	return merge ? merge_event(merge, event) : 0;
}

/* ---- what is carried ---- */

static int keep_carried(struct visit *visit, const struct carried *carried)
{
	struct stream *stream = &visit->streams[carried->thread];

	if (carried->is_call)
		return keep_call(stream, &carried->call);
	if (carried->manual.order == RAW_MANUAL_TOLD &&
	    !visit->trace->threads[carried->thread].any_unwound)
		return 0;
	if (carried->manual.kind != MANUAL_COMPLETE || carried->manual.order == RAW_MANUAL_TOLD)
		return keep_manual(stream, &carried->manual);
	if (visit->purpose != TO_LANES)
		return 0;
	return give_complete(visit, &visit->trace->threads[carried->thread], &carried->manual);
}

/* Records that lie in later regions and belong to this one. */
static int take_carried(struct visit *visit, uint32_t region)
{
	const struct trace_index *trace = visit->trace;
	int err = 0;

	for (; !err && visit->carried < trace->carried_count; visit->carried++) {
		const struct carried *carried = &trace->carried[visit->carried];

		if (carried->region > region)
			break;
		if (wants(visit, &trace->threads[carried->thread]))
			err = keep_carried(visit, carried);
	}
	return err;
}

/* ---- reading ---- */

/* A record of the region; at a record behind it: 1. */
typedef int (*take_record)(void *context, uint32_t type, const unsigned char *record);

static int take_chunk(const struct chunk *chunk, uint32_t first, uint32_t end, take_record take,
		      void *context)
{
	int err = 0;

	for (uint32_t i = first; i < end && !err; i++)
		err = take(context, chunk->type, chunk->payload + (size_t)i * chunk->size);
	return err;
}

/* The records from `from` up to `to` (NULL: the end of the file). */
static int read_region(struct chunk_reader *reader, const struct region *from,
		       const struct region *to, take_record take, void *context)
{
	struct chunk chunk;
	int more = 1, err = 0;

	chunk_reader_seek(reader, from->offset);
	while (!err && (more = chunk_reader_next(reader, &chunk)) > 0) {
		uint32_t first = chunk.offset == from->offset ? from->record : 0, end = chunk.count;

		if (to && chunk.offset > to->offset)
			break;
		if (to && chunk.offset == to->offset)
			end = to->record;
		if (chunk.type == CHUNK_HOOKED || chunk.type == CHUNK_MANUAL)
			err = take_chunk(&chunk, first, end < chunk.count ? end : chunk.count, take,
					 context);
		if (to && chunk.offset == to->offset)
			break;
	}
	return err ? err : more < 0 ? more : 0;
}

static int changed(const struct trace_index *trace)
{
	log_error(
		"the capture %s was changed while it was read; read it again when nobody writes to it",
		trace->file->path);
	return -EBADMSG;
}

/* ---- parts of lanes ---- */

/* Gives the manual events that are new to their lanes. */
static int give_manual(struct visit *visit, struct thread_events *thread, struct stream *stream)
{
	const struct lane_source *source = NULL;
	struct merge *merge = NULL;
	int err = 0;

	for (; stream->taken < stream->manual_count && !err; stream->taken++) {
		const struct raw_manual *event = &stream->manual[stream->taken];
		const struct manual_run *run = source ? &thread->runs[source->run] : NULL;

		if (!run || !is_of(run, event->order)) {
			source = source_of(visit->trace, thread, event->order);
			merge = source ? merge_of(visit, thread, source) : NULL;
			if (source && !merge)
				return -ENOMEM;
		}
		if (merge)
			err = merge_event(merge, event);
	}
	return err;
}

/* How many of the calls, which are in order, start before `ns`. */
static size_t calls_before(const struct raw_call *calls, size_t count, uint64_t ns)
{
	size_t low;

	SEARCH_FIRST(low, count, calls[low].start_ns < ns);
	return low;
}

static int make_part(struct visit *visit, struct thread_events *thread,
		     const struct lane_source *source, const struct raw_call *calls, size_t count,
		     uint64_t bound_ns)
{
	struct stream *stream = &visit->streams[thread - visit->trace->threads];
	size_t index = (size_t)(source - visit->trace->lanes) - thread->first_lane;
	bool last = bound_ns == UINT64_MAX;
	struct lane_part part;
	struct merge *merge;
	int err;

	if (source->lane == SIZE_MAX)
		return 0;
	/* Nothing of it yet: its turn has not come. */
	if (!count && !last && !(stream->merges && stream->merges[index]))
		return 0;
	merge = merge_of(visit, thread, source);
	if (!merge)
		return -ENOMEM;
	err = merge_part(merge, calls, count, bound_ns, &visit->merge_room, &part);
	part.last = last;
	if (!err && (part.scope_count || part.mark_count || part.late_count || last))
		err = visit->visitor(visit->context, &part);
	if (last) {
		merge_destroy(merge);
		stream->merges[index] = NULL;
	}
	return err;
}

static int make_parts(struct visit *visit, struct thread_events *thread, size_t count,
		      uint64_t bound_ns)
{
	struct trace_index *trace = visit->trace;
	struct stream *stream = &visit->streams[thread - trace->threads];
	size_t first = 0;
	int err = 0;

	for (size_t i = thread->first_lane; i < thread->lane_end && !err; i++) {
		size_t end = calls_before(stream->calls, count, trace->lanes[i].end_ns);

		if (trace->lanes[i].end_ns == UINT64_MAX)
			end = count;
		err = make_part(visit, thread, &trace->lanes[i], stream->calls + first, end - first,
				bound_ns);
		first = end;
	}
	return err;
}

/* ---- threads ---- */

/* With unwound calls: their ends, and then the order of all, as an end tells the outer of two. */
static int settle_unwound(struct visit *visit, struct thread_events *thread, struct stream *stream,
			  size_t count, uint64_t bound_ns)
{
	struct unwound_step step = {.calls = stream->calls,
				    .call_count = count,
				    .manual = stream->manual,
				    .bound_ns = bound_ns,
				    .thread = thread,
				    .noting = visit->purpose == TO_UNWOUND};
	int err;

	if (!stream->unwound)
		stream->unwound = unwound_create();
	if (!stream->unwound)
		return -ENOMEM;
	while (step.manual_count < stream->manual_count &&
	       raw_manual_time(&stream->manual[step.manual_count]) < bound_ns)
		step.manual_count++;
	err = unwound_settle(stream->unwound, &step);
	if (!err)
		err = call_order(stream->calls, count, &visit->call_room);
	stream->manual_count -= step.manual_count;
	stream->taken -= step.manual_count;
	if (stream->manual_count)
		memmove(stream->manual, stream->manual + step.manual_count,
			stream->manual_count * sizeof(*stream->manual));
	return err;
}

/* The thread's new manual events are put in order, and given to its lanes. */
static int take_new_manual(struct visit *visit, struct thread_events *thread, struct stream *stream)
{
	uint64_t bound_ns = thread->marks[stream->mark].bound_ns;
	uint64_t floor = stream->now > bound_ns ? stream->now : bound_ns;
	int err = 0;

	if (stream->manual_count > stream->taken)
		stream->now = order_records(stream->manual + stream->taken,
					    stream->manual_count - stream->taken, floor);
	if (visit->purpose == TO_LANES)
		err = give_manual(visit, thread, stream);
	stream->taken = stream->manual_count;
	if (!thread->any_unwound)
		stream->manual_count = stream->taken = 0;
	return err;
}

static void stream_clear(struct stream *stream, const struct thread_events *thread)
{
	for (size_t i = 0; stream->merges && i < thread->lane_end - thread->first_lane; i++)
		merge_destroy(stream->merges[i]);
	free(stream->merges);
	free(stream->calls);
	free(stream->manual);
	unwound_destroy(stream->unwound);
	stream->merges = NULL;
	stream->calls = NULL;
	stream->manual = NULL;
	stream->unwound = NULL;
	stream->call_count = stream->call_capacity = stream->manual_count =
		stream->manual_capacity = 0;
}

/* All that the thread did before it was next met. */
static int finish_thread(struct visit *visit, uint32_t index)
{
	struct thread_events *thread = &visit->trace->threads[index];
	struct stream *stream = &visit->streams[index];
	bool last = stream->mark + 1 == thread->mark_count;
	uint64_t bound_ns = last ? UINT64_MAX : thread->marks[stream->mark + 1].bound_ns;
	int err = take_new_manual(visit, thread, stream);
	size_t count;

	if (!err)
		err = call_order(stream->calls, stream->call_count, &visit->call_room);
	count = last ? stream->call_count
		     : calls_before(stream->calls, stream->call_count, bound_ns);
	if (!err && thread->any_unwound)
		err = settle_unwound(visit, thread, stream, count, bound_ns);
	if (!err && visit->purpose == TO_LANES)
		err = make_parts(visit, thread, count, bound_ns);
	stream->call_count -= count;
	if (stream->call_count)
		memmove(stream->calls, stream->calls + count,
			stream->call_count * sizeof(*stream->calls));
	if (last)
		stream_clear(stream, thread);
	return err;
}

static int by_value(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static int finish_region(struct visit *visit)
{
	int err = 0;

	if (visit->touched_count)
		qsort(visit->touched, visit->touched_count, sizeof(*visit->touched), by_value);
	for (size_t i = 0; i < visit->touched_count && !err; i++)
		err = finish_thread(visit, visit->trace->by_name[visit->touched[i]]);
	visit->touched_count = 0;
	return err;
}

/* ---- visits ---- */

struct in_region {
	struct visit *visit;
	uint32_t region;
};

static int take_any(void *context, uint32_t type, const unsigned char *record)
{
	struct in_region *in = context;

	if (type == CHUNK_HOOKED)
		return take_hooked(in->visit, in->region, (const struct hooked_scope *)record);
	return take_manual(in->visit, in->region, (const struct manual_event *)record);
}

static int visit_regions(struct visit *visit, struct chunk_reader *reader)
{
	struct trace_index *trace = visit->trace;
	int err = 0;

	for (uint32_t i = 0; i < trace->region_count && !err; i++) {
		const struct region *to =
			i + 1 < trace->region_count ? &trace->regions[i + 1] : NULL;
		struct in_region in = {visit, i};

		err = read_region(reader, &trace->regions[i], to, take_any, &in);
		if (err == -EBADMSG)
			return changed(trace);
		if (!err)
			err = take_carried(visit, i);
		if (!err)
			err = finish_region(visit);
	}
	return err;
}

static int run(struct visit *visit)
{
	struct trace_index *trace = visit->trace;
	struct chunk_reader *reader = chunk_reader_create(trace->file);
	int err = -ENOMEM;

	visit->streams = calloc(trace->thread_count + 1, sizeof(*visit->streams));
	visit->rank = calloc(trace->thread_count + 1, sizeof(*visit->rank));
	if (reader && visit->streams && visit->rank) {
		chunk_reader_trust(reader);
		for (size_t i = 0; i < trace->thread_count; i++)
			visit->rank[trace->by_name[i]] = (uint32_t)i;
		err = visit_regions(visit, reader);
	}
	for (size_t i = 0; visit->streams && i < trace->thread_count; i++)
		stream_clear(&visit->streams[i], &trace->threads[i]);
	free(visit->streams);
	free(visit->rank);
	free(visit->touched);
	call_room_clear(&visit->call_room);
	merge_room_clear(&visit->merge_room);
	chunk_reader_destroy(reader);
	return err;
}

int visit_lanes(struct trace_index *trace, timeline_visitor visitor, void *context)
{
	struct visit visit = {
		.trace = trace, .purpose = TO_LANES, .visitor = visitor, .context = context};

	return run(&visit);
}

static int by_order(const void *a, const void *b)
{
	const struct late_end *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

int visit_unwound(struct trace_index *trace)
{
	struct visit visit = {.trace = trace, .purpose = TO_UNWOUND};
	int err = run(&visit);

	for (size_t i = 0; i < trace->thread_count; i++) {
		struct thread_events *thread = &trace->threads[i];

		if (thread->end_count)
			qsort(thread->ends, thread->end_count, sizeof(*thread->ends), by_order);
	}
	return err;
}

/* ---- counting ---- */

struct counting {
	struct trace_index *trace;
	const bool *wanted;
};

static int count_call(void *context, uint32_t type, const unsigned char *record)
{
	struct counting *counting = context;
	struct trace_index *trace = counting->trace;
	const struct hooked_scope *scope = (const struct hooked_scope *)record;
	struct thread_events *thread;
	struct raw_call call;

	if (type != CHUNK_HOOKED)
		return 0;
	thread = trace_index_find_thread(trace, scope->pid, scope->tid);
	if (!thread || hooked_wrong(trace->timeline, scope))
		return -EBADMSG;
	if (!counting->wanted[thread - trace->threads])
		return 0;
	call = raw_call_of(scope, 0);
	lane_turns_count(thread, &call);
	return 0;
}

int visit_turns(struct trace_index *trace, const bool *wanted)
{
	struct chunk_reader *reader = chunk_reader_create(trace->file);
	struct counting counting = {trace, wanted};
	int err = reader ? 0 : -ENOMEM;

	if (reader)
		chunk_reader_trust(reader);
	if (!err && trace->region_count)
		err = read_region(reader, &trace->regions[0], NULL, count_call, &counting);
	chunk_reader_destroy(reader);
	for (size_t i = 0; i < trace->thread_count && !err; i++) {
		if (wanted[i])
			lane_turns_sum(&trace->threads[i]);
	}
	return err == -EBADMSG ? changed(trace) : err;
}
