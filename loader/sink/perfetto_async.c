// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "sink/words.h"

/* The tracks of one name, a heap by when the last slice on each ends. */
struct tracks {
	struct async_track {
		uint64_t end_ns;
		uint32_t uuid;
	} * items;
	size_t count;
	size_t capacity;
};

static void sift_down(struct tracks *tracks)
{
	size_t at = 0;

	for (;;) {
		size_t least = at;

		for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < tracks->count;
		     child++)
			if (tracks->items[child].end_ns < tracks->items[least].end_ns)
				least = child;
		if (least == at)
			return;
		struct async_track other = tracks->items[least];

		tracks->items[least] = tracks->items[at];
		tracks->items[at] = other;
		at = least;
	}
}

static void sift_up(struct tracks *tracks)
{
	for (size_t at = tracks->count - 1; at;) {
		size_t parent = (at - 1) / 2;
		struct async_track other = tracks->items[parent];

		if (other.end_ns <= tracks->items[at].end_ns)
			return;
		tracks->items[parent] = tracks->items[at];
		tracks->items[at] = other;
		at = parent;
	}
}

/*
 * A track on which nothing is open when the slice begins; viewers draw those of one name below each
 * other.
 */
static int async_track(struct perfetto_writer *writer, struct tracks *tracks,
		       const struct async_slice *slice, uint32_t *uuid)
{
	Perfetto__TrackDescriptor track = PERFETTO__TRACK_DESCRIPTOR__INIT;
	uint32_t process;
	int err;

	if (tracks->count && tracks->items[0].end_ns <= slice->start_ns) {
		*uuid = tracks->items[0].uuid;
		tracks->items[0].end_ns = slice->end_ns;
		sift_down(tracks);
		return 0;
	}
	err = perfetto_process_track(writer, slice->pid, &process);
	track.name = writer->names[slice->name];
	if (!err)
		err = perfetto_put_track(writer, &track, process, uuid);
	if (!err && vec_grow(&tracks->items, &tracks->capacity, tracks->count))
		err = -ENOMEM;
	if (err)
		return err;
	tracks->items[tracks->count++] = (struct async_track){slice->end_ns, *uuid};
	sift_up(tracks);
	return 0;
}

static int put_async(struct perfetto_writer *writer, struct perfetto_event *event,
		     struct tracks *tracks, const struct async_slice *slice)
{
	char flags[WORDS_FLAGS_SIZE];
	uint32_t track;
	int err = async_track(writer, tracks, slice, &track);

	if (err)
		return err;
	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, slice->start_ns,
			     track);
	perfetto_event_category(event, CATEGORY_ASYNC);
	perfetto_event_name(writer, event, slice->name);
	perfetto_event_uint(event, KEY_ID, slice->id);
	if (slice->flags)
		perfetto_event_annotation(event, KEY_FLAGS)->string_value =
			(char *)words_flags(slice->flags, flags);
	err = perfetto_put_packet(writer, &event->packet);
	if (err)
		return err;
	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END, slice->end_ns,
			     track);
	return perfetto_put_packet(writer, &event->packet);
}

int perfetto_put_asyncs(struct perfetto_writer *writer, struct perfetto_event *event)
{
	const struct timeline *timeline = writer->timeline;
	struct tracks tracks = {0};
	int err = 0;

	for (size_t i = 0; i < timeline->async_count && !err; i++) {
		const struct async_slice *slice = &timeline->asyncs[i];

		if (!i || slice->pid != slice[-1].pid || slice->name != slice[-1].name)
			tracks.count = 0;
		err = put_async(writer, event, &tracks, slice);
	}
	free(tracks.items);
	return err;
}
