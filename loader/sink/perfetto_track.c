// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static char *const category_names[] = {"hooked", "manual", "lost", "async", "name"};
static char *const key_names[] = {"module", "flags",   "kind", "value",	    "count",
				  "place",  "last_ns", "id",   "start_tid", "command"};

int perfetto_flush(struct perfetto_writer *writer)
{
	if (writer->used && fwrite(writer->buffer, 1, writer->used, writer->out) != writer->used)
		return errno ? -errno : -EIO;
	writer->used = 0;
	return 0;
}

/* Appends the packet as field 1 of the Trace message, as if that were packed in one piece. */
int perfetto_put_packet(struct perfetto_writer *writer, Perfetto__TracePacket *packet)
{
	size_t size, length;
	uint8_t *end;

	packet->has_trusted_packet_sequence_id = 1;
	packet->trusted_packet_sequence_id = PERFETTO_SEQUENCE;
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
	return writer->used >= PERFETTO_BUFFER_FULL ? perfetto_flush(writer) : 0;
}

/*
 * The first packet: a clean state, the clock of all times that follow, the words that events refer
 * to.
 */
int perfetto_put_start(struct perfetto_writer *writer)
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
	return perfetto_put_packet(writer, &packet);
}

/* One moment on three clocks. MONOTONIC is made the trace's own, so that viewers show the times of the other
 * exports. */
int perfetto_put_clocks(struct perfetto_writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;
	Perfetto__ClockSnapshot snapshot = PERFETTO__CLOCK_SNAPSHOT__INIT;
	Perfetto__ClockSnapshot__Clock clocks[3], *list[3];
	const uint32_t ids[3] = {PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC,
				 PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME,
				 PERFETTO__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME};
	const uint64_t offsets[3] = {0, timeline->realtime_offset_ns,
				     (uint64_t)timeline->boottime_offset_ns};

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
	return perfetto_put_packet(writer, &packet);
}

/* Gives the track its uuid and sends it; `parent` 0: it stands at the top. */
int perfetto_put_track(struct perfetto_writer *writer, Perfetto__TrackDescriptor *track,
		       uint64_t parent, uint32_t *uuid)
{
	Perfetto__TracePacket packet = PERFETTO__TRACE_PACKET__INIT;

	*uuid = ++writer->last_uuid;
	track->has_uuid = 1;
	track->uuid = *uuid;
	track->has_parent_uuid = parent != 0;
	track->parent_uuid = parent;
	packet.track_descriptor = track;
	return perfetto_put_packet(writer, &packet);
}

int perfetto_process_track(struct perfetto_writer *writer, uint32_t pid, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ProcessDescriptor process = PERFETTO__PROCESS_DESCRIPTOR__INIT;
	char parent[32], *labels[] = {parent};
	uint32_t index;
	int err;

	if (hash_map_get(&writer->processes, pid, uuid))
		return 0;
	process.process_labels = labels;
	process.has_pid = 1;
	process.pid = (int32_t)pid;
	if (hash_map_get(&writer->named, pid, &index)) {
		const struct process_info *info = &writer->timeline->processes[index];

		process.process_name = writer->names[info->name];
		process.n_cmdline = info->command != 0;
		process.cmdline = &writer->names[info->command];
		if (info->parent) {
			snprintf(parent, sizeof(parent), "child of %" PRIu32, info->parent);
			process.n_process_labels = 1;
		}
	}
	track.process = &process;
	err = perfetto_put_track(writer, &track, 0, uuid);
	return err ? err : hash_map_put(&writer->processes, pid, *uuid);
}

int perfetto_lane_track(struct perfetto_writer *writer, const struct lane *lane, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__ThreadDescriptor thread = PERFETTO__THREAD_DESCRIPTOR__INIT;
	uint32_t process;
	int err = perfetto_process_track(writer, lane->pid, &process);

	if (err)
		return err;
	thread.has_pid = 1;
	thread.pid = (int32_t)lane->pid;
	thread.has_tid = 1;
	thread.tid = (int32_t)lane->tid;
	thread.thread_name = lane->name ? writer->names[lane->name] : NULL;
	track.thread = &thread;
	return perfetto_put_track(writer, &track, process, uuid);
}

int perfetto_sub_lane_track(struct perfetto_writer *writer, unsigned number, uint32_t lane,
			    uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	char name[32];

	snprintf(name, sizeof(name), "crossing scopes %u", number);
	track.name = name;
	return perfetto_put_track(writer, &track, lane, uuid);
}

/* Below its process, or at the top when nobody knows whose events they were. */
int perfetto_lost_track(struct perfetto_writer *writer, uint32_t pid, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	char name[] = "lost events";
	uint32_t process = 0;
	int err;

	if (hash_map_get(&writer->lost, pid, uuid))
		return 0;
	err = pid ? perfetto_process_track(writer, pid, &process) : 0;
	if (err)
		return err;
	track.name = name;
	err = perfetto_put_track(writer, &track, process, uuid);
	return err ? err : hash_map_put(&writer->lost, pid, *uuid);
}

/* One line for the process and name, whichever thread sets it. */
int perfetto_counter_track(struct perfetto_writer *writer, uint32_t pid, uint32_t name,
			   uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	Perfetto__CounterDescriptor counter = PERFETTO__COUNTER_DESCRIPTOR__INIT;
	uint64_t key = (uint64_t)pid << 32 | name;
	uint32_t process;
	int err;

	if (hash_map_get(&writer->counters, key, uuid))
		return 0;
	err = perfetto_process_track(writer, pid, &process);
	if (err)
		return err;
	track.name = writer->names[name];
	track.counter = &counter;
	err = perfetto_put_track(writer, &track, process, uuid);
	return err ? err : hash_map_put(&writer->counters, key, *uuid);
}
