// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"
#include "perfetto.pb-c.h"
#include "sink/escape.h"
#include "sink/output.h"
#include "sink/words.h"

#define SEQUENCE    1
#define BUFFER_FULL (256 * 1024) /* written out when so much is in it */
#define SUB_LANES   256		 /* scope.sub_lane has 8 bits */
#define NO_SCOPE    SIZE_MAX
#define ANNOTATIONS 4

/* Interned ids, given to these words in the first packet. */
enum category { CATEGORY_HOOKED = 1, CATEGORY_MANUAL, CATEGORY_LOST, CATEGORIES = CATEGORY_LOST };
enum key {
	KEY_MODULE = 1,
	KEY_FLAGS,
	KEY_KIND,
	KEY_VALUE,
	KEY_COUNT,
	KEY_PLACE,
	KEY_LAST_NS,
	KEYS = KEY_LAST_NS
};

static char *const category_names[] = {"hooked", "manual", "lost"};
static char *const key_names[] = {"module", "flags", "kind", "value", "count", "place", "last_ns"};

/* The state of one export. */
struct writer {
	const struct timeline *timeline;
	FILE *out;
	uint8_t *buffer;
	size_t used;
	size_t capacity;
	char **names;		   /* in UTF-8: the timeline's own, or copies */
	bool *interned;		   /* names that were sent; their iid is index + 1 */
	struct hash_map named;	   /* pid -> index into timeline.processes */
	struct hash_map processes; /* pid -> uuid of its track, which stays below 2^32 */
	struct hash_map lost;	   /* pid -> uuid of its "lost events" track */
	uint32_t last_uuid;
};

/* An event being put together: the message and what it points to. */
struct event {
	Perfetto__TracePacket packet;
	Perfetto__TrackEvent track_event;
	Perfetto__DebugAnnotation annotations[ANNOTATIONS];
	Perfetto__DebugAnnotation *annotation_list[ANNOTATIONS];
	uint64_t category;
	Perfetto__InternedData interned;
	Perfetto__EventName name;
	Perfetto__EventName *name_list[1];
};

/* ---- packets
 * ---------------------------------------------------------------------------------------------------- */

static int write_out(struct writer *writer)
{
	if (writer->used && fwrite(writer->buffer, 1, writer->used, writer->out) != writer->used)
		return errno ? -errno : -EIO;
	writer->used = 0;
	return 0;
}

/* Appends the packet as field 1 of the Trace message, as if that were packed in one piece. */
static int put_packet(struct writer *writer, Perfetto__TracePacket *packet)
{
	size_t size, length;
	uint8_t *end;

	packet->has_trusted_packet_sequence_id = 1;
	packet->trusted_packet_sequence_id = SEQUENCE;
	size = perfetto__trace_packet__get_packed_size(packet);
	if (vec_reserve((void **)&writer->buffer, &writer->capacity, writer->used + size + 16, 1))
		return -ENOMEM;
	end = writer->buffer + writer->used;
	*end++ = 1 << 3 | 2; /* field 1, with a length */
	for (length = size; length >= 0x80; length >>= 7)
		*end++ = (uint8_t)(length | 0x80);
	*end++ = (uint8_t)length;
	end += perfetto__trace_packet__pack(packet, end);
	writer->used = (size_t)(end - writer->buffer);
	return writer->used >= BUFFER_FULL ? write_out(writer) : 0;
}

/* The first packet: a clean state, the clock of all times that follow, the words that events refer to. */
static int put_start(struct writer *writer)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__TracePacketDefaults defaults = PERFETTO__TRACE_PACKET_DEFAULTS__INIT;
	Perfetto__InternedData interned = PERFETTO__INTERNED_DATA__INIT;
	Perfetto__EventCategory categories[CATEGORIES], *category_list[CATEGORIES];
	Perfetto__DebugAnnotationName keys[KEYS], *key_list[KEYS];

	for (size_t i = 0; i < CATEGORIES; i++) {
		perfetto__event_category__init(&categories[i]);
		categories[i].has_iid = 1;
		categories[i].iid = i + 1;
		categories[i].name = category_names[i];
		category_list[i] = &categories[i];
	}
	for (size_t i = 0; i < KEYS; i++) {
		perfetto__debug_annotation_name__init(&keys[i]);
		keys[i].has_iid = 1;
		keys[i].iid = i + 1;
		keys[i].name = key_names[i];
		key_list[i] = &keys[i];
	}
	interned.n_event_categories = CATEGORIES;
	interned.event_categories = category_list;
	interned.n_debug_annotation_names = KEYS;
	interned.debug_annotation_names = key_list;
	defaults.has_timestamp_clock_id = 1;
	defaults.timestamp_clock_id = PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	packet.has_first_packet_on_sequence = 1;
	packet.first_packet_on_sequence = 1;
	packet.has_sequence_flags = 1;
	packet.sequence_flags = PERFETTO__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
	packet.trace_packet_defaults = &defaults;
	packet.interned_data = &interned;
	return put_packet(writer, &packet);
}

/* One moment on three clocks. MONOTONIC is made the trace's own, so that viewers show the times of the other
 * exports. */
static int put_clocks(struct writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__ClockSnapshot snapshot = PERFETTO__CLOCK_SNAPSHOT__INIT;
	Perfetto__ClockSnapshot__Clock clocks[3], *list[3];
	const uint32_t ids[3] = {PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC,
				 PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME,
				 PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME};
	const uint64_t offsets[3] = {0, timeline->realtime_offset_ns, (uint64_t)timeline->boottime_offset_ns};

	for (size_t i = 0; i < 3; i++) {
		perfetto__clock_snapshot__clock__init(&clocks[i]);
		clocks[i].has_clock_id = 1;
		clocks[i].clock_id = ids[i];
		clocks[i].has_timestamp = 1;
		clocks[i].timestamp = timeline->start_ns + offsets[i];
		list[i] = &clocks[i];
	}
	snapshot.n_clocks = 3;
	snapshot.clocks = list;
	snapshot.has_primary_trace_clock = 1;
	snapshot.primary_trace_clock = PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	packet.has_timestamp = 1;
	packet.timestamp = timeline->start_ns;
	packet.has_timestamp_clock_id = 1;
	packet.timestamp_clock_id = PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC;
	packet.clock_snapshot = &snapshot;
	return put_packet(writer, &packet);
}

/* ---- tracks
 * ----------------------------------------------------------------------------------------------------- */

/* Gives the track its uuid and sends it; `parent` 0: it stands at the top. */
static int put_track(struct writer *writer, Perfetto__TrackDescriptor *track, uint64_t parent, uint32_t *uuid)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

	*uuid = ++writer->last_uuid;
	track->has_uuid = 1;
	track->uuid = *uuid;
	track->has_parent_uuid = parent != 0;
	track->parent_uuid = parent;
	packet.track_descriptor = track;
	return put_packet(writer, &packet);
}

static int process_track(struct writer *writer, uint32_t pid, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
	uint32_t index;
	int err;

	if (hash_map_get(&writer->processes, pid, uuid))
		return 0;
	process.has_pid = 1;
	process.pid = (int32_t)pid;
	if (hash_map_get(&writer->named, pid, &index)) {
		const struct process_info *info = &writer->timeline->processes[index];

		process.process_name = writer->names[info->name];
		process.n_cmdline = info->command != 0;
		process.cmdline = &writer->names[info->command];
	}
	track.process = &process;
	err = put_track(writer, &track, 0, uuid);
	return err ? err : hash_map_put(&writer->processes, pid, *uuid);
}

static int lane_track(struct writer *writer, const struct lane *lane, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ThreadDescriptor thread = PERFETTO__THREAD_DESCRIPTOR__INIT;
	uint32_t process;
	int err = process_track(writer, lane->pid, &process);

	if (err)
		return err;
	thread.has_pid = 1;
	thread.pid = (int32_t)lane->pid;
	thread.has_tid = 1;
	thread.tid = (int32_t)lane->tid;
	thread.thread_name = lane->name ? writer->names[lane->name] : NULL;
	track.thread = &thread;
	return put_track(writer, &track, process, uuid);
}

static int sub_lane_track(struct writer *writer, unsigned number, uint32_t lane, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	char name[32];

	snprintf(name, sizeof(name), "crossing scopes %u", number);
	track.name = name;
	return put_track(writer, &track, lane, uuid);
}

/* Below its process, or at the top when nobody knows whose events they were. */
static int lost_track(struct writer *writer, uint32_t pid, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	char name[] = "lost events";
	uint32_t process = 0;
	int err;

	if (hash_map_get(&writer->lost, pid, uuid))
		return 0;
	err = pid ? process_track(writer, pid, &process) : 0;
	if (err)
		return err;
	track.name = name;
	err = put_track(writer, &track, process, uuid);
	return err ? err : hash_map_put(&writer->lost, pid, *uuid);
}

/* ---- events
 * ----------------------------------------------------------------------------------------------------- */

static void event_init(struct event *event)
{
	perfetto__trace_packet__init(&event->packet);
	perfetto__track_event__init(&event->track_event);
	perfetto__interned_data__init(&event->interned);
	perfetto__event_name__init(&event->name);
	for (size_t i = 0; i < ANNOTATIONS; i++)
		event->annotation_list[i] = &event->annotations[i];
	event->name_list[0] = &event->name;
	event->interned.n_event_names = 1;
	event->interned.event_names = event->name_list;
	event->name.has_iid = 1;
	event->packet.has_timestamp = 1;
	event->packet.has_sequence_flags = 1;
	event->packet.sequence_flags = PERFETTO__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	event->packet.track_event = &event->track_event;
	event->track_event.category_iids = &event->category;
	event->track_event.debug_annotations = event->annotation_list;
	event->track_event.has_type = 1;
	event->track_event.has_track_uuid = 1;
}

/* Makes `event` a bare one: no name, category or annotation yet. */
static void event_start(struct event *event, Perfetto__TrackEvent__Type type, uint64_t time, uint32_t track)
{
	event->packet.timestamp = time;
	event->packet.interned_data = NULL;
	event->track_event.type = type;
	event->track_event.track_uuid = track;
	event->track_event.has_name_iid = 0;
	event->track_event.name = NULL;
	event->track_event.n_category_iids = 0;
	event->track_event.n_debug_annotations = 0;
}

static void event_category(struct event *event, enum category category)
{
	event->category = category;
	event->track_event.n_category_iids = 1;
}

/* Names the event by reference; the name itself goes with the first event that has it. */
static void event_name(struct writer *writer, struct event *event, uint32_t name)
{
	event->track_event.has_name_iid = 1;
	event->track_event.name_iid = (uint64_t)name + 1;
	if (writer->interned[name])
		return;
	writer->interned[name] = true;
	event->name.iid = (uint64_t)name + 1;
	event->name.name = writer->names[name];
	event->packet.interned_data = &event->interned;
}

static Perfetto__DebugAnnotation *event_annotation(struct event *event, enum key key)
{
	Perfetto__DebugAnnotation *annotation = &event->annotations[event->track_event.n_debug_annotations++];

	perfetto__debug_annotation__init(annotation);
	annotation->has_name_iid = 1;
	annotation->name_iid = key;
	return annotation;
}

static void event_annotation_uint(struct event *event, enum key key, uint64_t value)
{
	Perfetto__DebugAnnotation *annotation = event_annotation(event, key);

	annotation->has_uint_value = 1;
	annotation->uint_value = value;
}

static int put_begin(struct writer *writer, struct event *event, const struct scope *scope, uint32_t track)
{
	char flags[WORDS_FLAGS_SIZE];

	event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, scope->start_ns, track);
	event_category(event, scope->kind == SCOPE_HOOKED ? CATEGORY_HOOKED : CATEGORY_MANUAL);
	event_name(writer, event, scope->name);
	if (scope->module)
		event_annotation(event, KEY_MODULE)->string_value = writer->names[scope->module];
	if (scope->flags)
		event_annotation(event, KEY_FLAGS)->string_value = (char *)words_flags(scope->flags, flags);
	return put_packet(writer, &event->packet);
}

static int put_end(struct writer *writer, struct event *event, const struct scope *scope, uint32_t track)
{
	event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END, scope->end_ns, track);
	return put_packet(writer, &event->packet);
}

static void annotate_value(struct event *event, const struct mark *mark)
{
	Perfetto__DebugAnnotation *annotation;

	switch (mark->kind) {
	case MANUAL_COUNTER_INT:
	case MANUAL_ARGUMENT:
		annotation = event_annotation(event, KEY_VALUE);
		annotation->has_int_value = 1;
		annotation->int_value = (int64_t)mark->value;
		break;
	case MANUAL_COUNTER_DOUBLE:
		annotation = event_annotation(event, KEY_VALUE);
		annotation->has_double_value = 1;
		memcpy(&annotation->double_value, &mark->value, sizeof(mark->value));
		break;
	case MANUAL_ASYNC_START:
	case MANUAL_ASYNC_STOP:
	case MANUAL_FLOW:
		event_annotation_uint(event, KEY_VALUE, mark->value);
		break;
	}
}

static int put_mark(struct writer *writer, struct event *event, const struct mark *mark, uint32_t track)
{
	char *kind = (char *)words_mark(mark->kind);

	event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, mark->time_ns, track);
	event_category(event, CATEGORY_MANUAL);
	if (mark->name)
		event_name(writer, event, mark->name);
	else
		event->track_event.name = kind;
	event_annotation(event, KEY_KIND)->string_value = kind;
	annotate_value(event, mark);
	return put_packet(writer, &event->packet);
}

static int put_loss(struct writer *writer, struct event *event, const struct loss_event *loss)
{
	char name[64], place[64];
	uint32_t track;
	int err = lost_track(writer, loss->pid, &track);

	if (err)
		return err;
	words_loss(loss, place, sizeof(place));
	snprintf(name, sizeof(name), "%" PRIu64 " lost", loss->count);
	event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, loss->first_ns, track);
	event_category(event, CATEGORY_LOST);
	event->track_event.name = name;
	event_annotation_uint(event, KEY_COUNT, loss->count);
	event_annotation(event, KEY_PLACE)->string_value = place;
	event_annotation_uint(event, KEY_LAST_NS, loss->last_ns);
	return put_packet(writer, &event->packet);
}

/* ---- lanes
 * ------------------------------------------------------------------------------------------------------ */

/* Where the export stands in a lane: a stack of open scopes for each sub-lane, linked through `outer`. */
struct position {
	struct writer *writer;
	struct event *event;
	const struct lane *lane;
	size_t *outer;		    /* of each scope: the one around it on its sub-lane */
	size_t open[SUB_LANES];	    /* the innermost open scope of each */
	uint32_t tracks[SUB_LANES]; /* 0: no track yet */
	size_t next_mark;
};

/* Marks lie on the lane itself: those before `time`, or up to it with `inclusive`. */
static int put_marks(struct position *at, uint64_t time, bool inclusive)
{
	const struct lane *lane = at->lane;

	while (at->next_mark < lane->mark_count) {
		const struct mark *mark = &lane->marks[at->next_mark];
		int err;

		if (mark->time_ns > time || (mark->time_ns == time && !inclusive))
			return 0;
		err = put_mark(at->writer, at->event, mark, at->tracks[0]);
		if (err)
			return err;
		at->next_mark++;
	}
	return 0;
}

static int close_innermost(struct position *at, unsigned sub_lane)
{
	const struct scope *scope = &at->lane->scopes[at->open[sub_lane]];
	int err = sub_lane ? 0 : put_marks(at, scope->end_ns, true);

	if (err)
		return err;
	at->open[sub_lane] = at->outer[at->open[sub_lane]];
	return put_end(at->writer, at->event, scope, at->tracks[sub_lane]);
}

/* True when `open` had ended before `scope` began. Where they only touch, a scope of no length may still be
 * inside. */
static bool ended_before(const struct scope *open, const struct scope *scope)
{
	if (open->end_ns != scope->start_ns)
		return open->end_ns < scope->start_ns;
	return scope->end_ns > scope->start_ns || scope->depth <= open->depth;
}

static int put_scope(struct position *at, size_t index)
{
	const struct scope *scope = &at->lane->scopes[index];
	unsigned sub_lane = scope->sub_lane;
	size_t *open = &at->open[sub_lane];
	int err = 0;

	if (!at->tracks[sub_lane])
		err = sub_lane_track(at->writer, sub_lane, at->tracks[0], &at->tracks[sub_lane]);
	while (!err && *open != NO_SCOPE && ended_before(&at->lane->scopes[*open], scope))
		err = close_innermost(at, sub_lane);
	if (!err && !sub_lane)
		err = put_marks(at, scope->start_ns, false);
	if (err)
		return err;
	at->outer[index] = *open;
	*open = index;
	return put_begin(at->writer, at->event, scope, at->tracks[sub_lane]);
}

static int put_lane_events(struct position *at)
{
	int err = 0;

	for (size_t i = 0; i < at->lane->scope_count && !err; i++)
		err = put_scope(at, i);
	for (unsigned sub_lane = 0; sub_lane < SUB_LANES; sub_lane++) {
		while (!err && at->open[sub_lane] != NO_SCOPE)
			err = close_innermost(at, sub_lane);
	}
	return err ? err : put_marks(at, UINT64_MAX, true);
}

static int put_lane(struct writer *writer, struct event *event, const struct lane *lane)
{
	struct position at = {.writer = writer, .event = event, .lane = lane};
	int err = lane_track(writer, lane, &at.tracks[0]);

	if (err)
		return err;
	at.outer = calloc(lane->scope_count ? lane->scope_count : 1, sizeof(*at.outer));
	if (!at.outer)
		return -ENOMEM;
	for (unsigned sub_lane = 0; sub_lane < SUB_LANES; sub_lane++)
		at.open[sub_lane] = NO_SCOPE;
	err = put_lane_events(&at);
	free(at.outer);
	return err;
}

/* ---- the whole
 * -------------------------------------------------------------------------------------------------- */

static bool is_utf8(const char *text)
{
	uint32_t code = 0;

	while (*text && code != ESCAPE_INVALID)
		text += escape_decode(text, &code);
	return code != ESCAPE_INVALID;
}

/* Protobuf strings are UTF-8: a reader may refuse the whole packet otherwise. */
static int writer_names(struct writer *writer)
{
	const struct timeline *timeline = writer->timeline;

	writer->names = calloc(timeline->name_count, sizeof(*writer->names));
	writer->interned = calloc(timeline->name_count, sizeof(*writer->interned));
	if (!writer->names || !writer->interned)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->name_count; i++) {
		writer->names[i] = timeline->names[i];
		if (!is_utf8(timeline->names[i]))
			writer->names[i] = escape_utf8(timeline->names[i]);
		if (!writer->names[i])
			return -ENOMEM;
	}
	return 0;
}

static void writer_free(struct writer *writer)
{
	for (size_t i = 0; writer->names && i < writer->timeline->name_count; i++) {
		if (writer->names[i] != writer->timeline->names[i])
			free(writer->names[i]);
	}
	free(writer->names);
	free(writer->interned);
	free(writer->buffer);
	hash_map_clear(&writer->named);
	hash_map_clear(&writer->processes);
	hash_map_clear(&writer->lost);
}

/* A process that was renamed (exec) has several entries: its last name counts. */
static int put_processes(struct writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	uint32_t uuid;
	int err = 0;

	for (size_t i = 0; i < timeline->process_count && !err; i++) {
		if (timeline->processes[i].name)
			err = hash_map_put(&writer->named, timeline->processes[i].pid, (uint32_t)i);
	}
	for (size_t i = 0; i < timeline->process_count && !err; i++)
		err = process_track(writer, timeline->processes[i].pid, &uuid);
	return err;
}

static int put_timeline(struct writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	struct event event;
	int err = put_start(writer);

	if (!err)
		err = put_clocks(writer);
	if (!err)
		err = put_processes(writer);
	event_init(&event);
	for (size_t i = 0; i < timeline->lane_count && !err; i++)
		err = put_lane(writer, &event, &timeline->lanes[i]);
	for (size_t i = 0; i < timeline->loss_count && !err; i++)
		err = put_loss(writer, &event, &timeline->losses[i]);
	return err ? err : write_out(writer);
}

int perfetto_write(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct writer writer = {.timeline = timeline, .out = out};
	int err;

	(void)options;
	errno = 0;
	err = writer_names(&writer);
	if (!err)
		err = put_timeline(&writer);
	writer_free(&writer);
	return err ? err : output_result(out);
}
