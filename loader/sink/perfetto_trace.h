/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parts of the Perfetto export: packets and tracks (perfetto_track.c), events
 * (perfetto_event.c), lanes, async slices. Purpose: shared by those files and nobody else. Owner:
 * one export. What returns an int: 0 or -errno.
 */
#ifndef SCOPETRACE_SINK_PERFETTO_TRACE_H
#define SCOPETRACE_SINK_PERFETTO_TRACE_H

#include <stdio.h>

#include "base/hash.h"
#include "perfetto.pb-c.h"
#include "timeline/timeline.h"

#define PERFETTO_NO_MARK     UINT32_MAX
#define PERFETTO_SEQUENCE    1
#define PERFETTO_BUFFER_FULL (256 * 1024) /* written out when so much is in it */

/* Interned ids, given to these words in the first packet. */
enum perfetto_category {
	CATEGORY_HOOKED = 1,
	CATEGORY_MANUAL,
	CATEGORY_LOST,
	CATEGORY_ASYNC,
	CATEGORY_NAME,
	CATEGORIES = CATEGORY_NAME
};
enum perfetto_key {
	KEY_MODULE = 1,
	KEY_FLAGS,
	KEY_KIND,
	KEY_VALUE,
	KEY_COUNT,
	KEY_PLACE,
	KEY_LAST_NS,
	KEY_ID,
	KEY_START_TID,
	KEY_COMMAND,
	KEYS = KEY_COMMAND
};

/* The state of one export. */
struct perfetto_writer {
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
	struct hash_map counters;  /* pid and name -> uuid of the counter's track */
	uint32_t last_uuid;
};

/* An event being put together: the message and what it points to. */
struct perfetto_event {
	Perfetto__TracePacket packet;
	Perfetto__TrackEvent track_event;
	Perfetto__DebugAnnotation *annotations;
	Perfetto__DebugAnnotation **annotation_list;
	size_t annotation_capacity;
	uint64_t *flows;
	size_t flow_capacity;
	uint64_t category;
	Perfetto__InternedData interned;
	Perfetto__EventName name;
	Perfetto__EventName *name_list[1];
};

/*
 * Appends a packet to the buffer, and writes that out when it is full; and writes out what is left.
 */
int perfetto_put_packet(struct perfetto_writer *writer, Perfetto__TracePacket *packet);
int perfetto_flush(struct perfetto_writer *writer);

/* The first packet: a clean state, the clock of all times that follow, the words that events refer to. Then
 * one moment on three clocks. */
int perfetto_put_start(struct perfetto_writer *writer);
int perfetto_put_clocks(struct perfetto_writer *writer);

/* Gives the track its uuid and sends it; `parent` 0: it stands at the top. */
int perfetto_put_track(struct perfetto_writer *writer, Perfetto__TrackDescriptor *track,
		       uint64_t parent, uint32_t *uuid);

/* The uuid of a track; those of processes, losses and counters are sent once. */
int perfetto_process_track(struct perfetto_writer *writer, uint32_t pid, uint32_t *uuid);
int perfetto_lane_track(struct perfetto_writer *writer, const struct lane *lane, uint32_t *uuid);
int perfetto_sub_lane_track(struct perfetto_writer *writer, unsigned number, uint32_t lane,
			    uint32_t *uuid);
int perfetto_lost_track(struct perfetto_writer *writer, uint32_t pid, uint32_t *uuid);
int perfetto_counter_track(struct perfetto_writer *writer, uint32_t pid, uint32_t name,
			   uint32_t *uuid);

/* One event is put together after another in the same place. */
int perfetto_event_init(struct perfetto_event *event);
void perfetto_event_clear(struct perfetto_event *event);

/* Makes it a bare one; then what it has. */
void perfetto_event_start(struct perfetto_event *event, Perfetto__TrackEvent__Type type,
			  uint64_t time, uint32_t track);
void perfetto_event_category(struct perfetto_event *event, enum perfetto_category category);
void perfetto_event_name(struct perfetto_writer *writer, struct perfetto_event *event,
			 uint32_t name);
Perfetto__DebugAnnotation *perfetto_event_annotation(struct perfetto_event *event,
						     enum perfetto_key key);
void perfetto_event_uint(struct perfetto_event *event, enum perfetto_key key, uint64_t value);

/* A scope: ready to be put once its arguments and flows are there, the first of which and each one's next are
 * known. `flags` has room for words_flags(). */
void perfetto_begin_event(struct perfetto_writer *writer, struct perfetto_event *event,
			  const struct scope *scope, uint32_t track, char *flags);
int perfetto_event_marks(struct perfetto_writer *writer, struct perfetto_event *event,
			 const struct lane_part *part, uint32_t first, const uint32_t *next);

/*
 * The begin of a slice that is its scope alone, and whose name was sent; and, without a scope, any
 * end.
 */
bool perfetto_is_plain(const struct perfetto_writer *writer, const struct scope *scope);
int perfetto_put_plain(struct perfetto_writer *writer, const struct scope *scope, uint64_t time_ns,
		       uint32_t track);

/* A mark on the lane's track, if it is not drawn elsewhere; and a loss. */
int perfetto_put_mark(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct lane *lane, const struct mark *mark, uint32_t track);
int perfetto_put_loss(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct loss_event *loss);

/* From here on the thread or process of the track had this name (command 0: not told). */
int perfetto_put_name(struct perfetto_writer *writer, struct perfetto_event *event,
		      uint64_t time_ns, uint32_t name, uint32_t command, uint32_t track);

/*
 * A part of a lane, *at being where the export stands in it (NULL before the first part); all async
 * slices.
 */
struct perfetto_position;
int perfetto_put_part(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct lane_part *part, struct perfetto_position **at);
void perfetto_position_destroy(struct perfetto_position *at); /* takes NULL */
int perfetto_put_asyncs(struct perfetto_writer *writer, struct perfetto_event *event);

#endif
