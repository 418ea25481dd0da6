// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "timeline/summary.h"

/* A lane's frames come in order of time, and so do the losses of its process's segment. */
static bool lost_during(const struct timeline *timeline, struct frame_group *group, uint32_t pid,
			const struct frame *frame)
{
	for (; group->next_loss < timeline->loss_count; group->next_loss++) {
		const struct loss_event *loss = &timeline->losses[group->next_loss];

		if (loss->first_ns > frame->end_ns)
			break;
		if (loss->pid != pid || !loss_is_manual(loss))
			continue;
		if (!group->any_lost || loss->last_ns > group->lost_until)
			group->lost_until =
				loss->last_ns > loss->first_ns ? loss->last_ns : loss->first_ns;
		group->any_lost = true;
	}
	return group->any_lost && group->lost_until >= frame->start_ns;
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

static struct frame_group *group_of(struct frame_collector *collector, uint32_t lane, uint32_t name)
{
	uint64_t key = (uint64_t)lane << 32 | name;
	struct frame_group *group;
	uint32_t index;

	if (hash_map_get(&collector->index, key, &index))
		return &collector->groups[index];
	if (vec_grow(&collector->groups, &collector->capacity, collector->count) ||
	    hash_map_put(&collector->index, key, (uint32_t)collector->count))
		return NULL;
	group = &collector->groups[collector->count++];
	memset(group, 0, sizeof(*group));
	group->statistics.lane = lane;
	group->statistics.name = name;
	return group;
}

/* A frame lasts from its mark to the next. */
static int add_mark(struct frame_collector *collector, const struct timeline *timeline,
		    const struct lane *lane, const struct mark *mark)
{
	struct frame_group *group =
		group_of(collector, (uint32_t)(lane - timeline->lanes), mark->name);
	struct frame frame;

	if (!group)
		return -ENOMEM;
	frame = (struct frame){group->last_ns, mark->time_ns, group->statistics.marks - 1};
	group->last_ns = mark->time_ns;
	if (!group->statistics.marks++)
		return 0;
	if (lost_during(timeline, group, lane->pid, &frame)) {
		group->statistics.lost++;
		return 0;
	}
	keep_worst(&group->statistics, &frame);
	return durations_add(&group->durations, length_of(&frame));
}

int frames_add(struct frame_collector *collector, const struct timeline *timeline,
	       const struct lane_part *part)
{
	int err = 0;

	for (size_t i = 0; i < part->mark_count && !err; i++) {
		if (part->marks[i].kind == MANUAL_FRAME)
			err = add_mark(collector, timeline, part->lane, &part->marks[i]);
	}
	return err;
}

static int by_lane_and_name(const void *a, const void *b)
{
	const struct frame_statistics *x = a, *y = b;

	if (x->lane != y->lane)
		return x->lane < y->lane ? -1 : 1;
	return (x->name > y->name) - (x->name < y->name);
}

int frames_end(struct frame_collector *collector, struct timeline_summary *summary)
{
	summary->frames = calloc(collector->count + 1, sizeof(*summary->frames));
	if (!summary->frames)
		return -ENOMEM;
	for (size_t i = 0; i < collector->count; i++) {
		summary->frames[i] = collector->groups[i].statistics;
		durations_summary(&collector->groups[i].durations, &summary->frames[i].frames);
	}
	summary->frame_count = collector->count;
	qsort(summary->frames, summary->frame_count, sizeof(*summary->frames), by_lane_and_name);
	return 0;
}

void frames_clear(struct frame_collector *collector)
{
	for (size_t i = 0; i < collector->count; i++)
		durations_clear(&collector->groups[i].durations);
	free(collector->groups);
	hash_map_clear(&collector->index);
	memset(collector, 0, sizeof(*collector));
}
