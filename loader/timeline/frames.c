// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "timeline/durations.h"

struct frame_mark {
	uint64_t time_ns;
	size_t order;
	uint32_t lane;
	uint32_t name;
};

struct marks {
	struct frame_mark *items;
	size_t count;
};

static int by_lane_and_name(const void *a, const void *b)
{
	const struct frame_mark *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int collect(const struct timeline *timeline, struct marks *marks)
{
	size_t count = 0;

	for (size_t i = 0; i < timeline->lane_count; i++)
		for (size_t j = 0; j < timeline->lanes[i].mark_count; j++)
			count += timeline->lanes[i].marks[j].kind == MANUAL_FRAME;
	marks->items = malloc((count + 1) * sizeof(*marks->items));
	if (!marks->items)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->lane_count; i++) {
		const struct lane *lane = &timeline->lanes[i];

		for (size_t j = 0; j < lane->mark_count; j++) {
			if (lane->marks[j].kind == MANUAL_FRAME)
				marks->items[marks->count++] = (struct frame_mark){
					lane->marks[j].time_ns, j, (uint32_t)i, lane->marks[j].name};
		}
	}
	qsort(marks->items, marks->count, sizeof(*marks->items), by_lane_and_name);
	return 0;
}

/* Walks through the losses of a process's segment beside frames in order of time. */
struct loss_cursor {
	size_t next;
	uint64_t last_ns; /* of all losses that began before */
	bool any;
};

static bool lost_during(const struct timeline *timeline, struct loss_cursor *cursor, uint32_t pid,
			const struct frame *frame)
{
	for (; cursor->next < timeline->loss_count; cursor->next++) {
		const struct loss_event *loss = &timeline->losses[cursor->next];

		if (loss->first_ns > frame->end_ns)
			break;
		if (loss->pid != pid || (loss->place != LOSS_SEGMENT_LAP && loss->place != LOSS_WRITTEN_OFF))
			continue;
		if (!cursor->any || loss->last_ns > cursor->last_ns)
			cursor->last_ns = loss->last_ns > loss->first_ns ? loss->last_ns : loss->first_ns;
		cursor->any = true;
	}
	return cursor->any && cursor->last_ns >= frame->start_ns;
}

static uint64_t length_of(const struct frame *frame)
{
	return frame->end_ns - frame->start_ns;
}

/* Among the worst, if it is; the earlier of two that are equally long comes first. */
static void keep_worst(struct frame_statistics *statistics, const struct frame *frame)
{
	size_t at = statistics->worst_count;

	while (at && length_of(&statistics->worst[at - 1]) < length_of(frame))
		at--;
	if (at == FRAMES_WORST)
		return;
	if (statistics->worst_count < FRAMES_WORST)
		statistics->worst_count++;
	memmove(&statistics->worst[at + 1], &statistics->worst[at],
		(statistics->worst_count - at - 1) * sizeof(*frame));
	statistics->worst[at] = *frame;
}

static void summarise(const struct timeline *timeline, const struct frame_mark *marks, size_t count,
		      uint64_t *durations, struct frame_statistics *statistics)
{
	struct loss_cursor cursor = {0};
	uint32_t pid = timeline->lanes[marks->lane].pid;
	size_t whole = 0;

	statistics->lane = marks->lane;
	statistics->name = marks->name;
	statistics->marks = count;
	for (size_t i = 0; i + 1 < count; i++) {
		struct frame frame = {marks[i].time_ns, marks[i + 1].time_ns, i};

		if (lost_during(timeline, &cursor, pid, &frame)) {
			statistics->lost++;
			continue;
		}
		durations[whole++] = length_of(&frame);
		keep_worst(statistics, &frame);
	}
	statistics_of_durations(durations, whole, &statistics->frames);
}

int timeline_frames(const struct timeline *timeline, struct frame_statistics **statistics, size_t *count)
{
	struct marks marks = {0};
	int err = collect(timeline, &marks);
	uint64_t *durations = err ? NULL : malloc((marks.count + 1) * sizeof(*durations));

	*count = 0;
	*statistics = err ? NULL : calloc(marks.count + 1, sizeof(**statistics));
	if (!durations || !*statistics) {
		free(*statistics);
		*statistics = NULL;
		err = -ENOMEM;
	}
	for (size_t first = 0, end; !err && first < marks.count; first = end) {
		const struct frame_mark *mark = &marks.items[first];

		end = first + 1;
		while (end < marks.count && marks.items[end].lane == mark->lane &&
		       marks.items[end].name == mark->name)
			end++;
		summarise(timeline, mark, end - first, durations, &(*statistics)[(*count)++]);
	}
	free(durations);
	free(marks.items);
	return err;
}
