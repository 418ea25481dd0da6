// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "sink/words.h"

/* A scope that was begun and not yet ended. */
struct open_slice {
	uint64_t end_ns;
	uint16_t depth;
};

struct sub_lane {
	uint32_t track;		   /* 0: none yet */
	struct open_slice *slices; /* the innermost last */
	size_t count, capacity;
};

/* Where the export stands in a lane, from one part of it to the next. */
struct perfetto_position {
	struct sub_lane *sub_lanes; /* the first is the lane itself */
	size_t sub_lane_count, sub_lane_capacity;
	size_t next_name;
};

/* A part being put out. */
struct drawing {
	struct perfetto_writer *writer;
	struct perfetto_event *event;
	struct perfetto_position *at;
	const struct lane_part *part;
	size_t next_mark;
	uint32_t *first_of; /* of each scope: its first argument or flow, or PERFETTO_NO_MARK */
	uint32_t *next_of;  /* of each of those: the next of its scope */
};

void perfetto_position_destroy(struct perfetto_position *at)
{
	if (!at)
		return;
	for (size_t i = 0; i < at->sub_lane_count; i++)
		free(at->sub_lanes[i].slices);
	free(at->sub_lanes);
	free(at);
}

/* ---- names and marks: they lie on the lane itself ---- */

/* A track has one name, its last: where that changed there is an instant. */
static int put_names(struct drawing *drawing, uint64_t time)
{
	const struct lane *lane = drawing->part->lane;
	size_t *next = &drawing->at->next_name;
	int err = 0;

	for (; !err && *next < lane->name_count && lane->names[*next].time_ns <= time; ++*next) {
		const struct name_change *change = &lane->names[*next];

		if (*next)
			err = perfetto_put_name(drawing->writer, drawing->event, change->time_ns,
						change->name, 0, drawing->at->sub_lanes[0].track);
	}
	return err;
}

/* What belongs to a scope of an earlier part cannot go out with it any more. */
static int put_mark(struct drawing *drawing, const struct mark *mark)
{
	const struct lane_part *part = drawing->part;
	struct mark alone = *mark;

	if (mark->scope < part->first_scope)
		alone.scope = MARK_NO_SCOPE;
	return perfetto_put_mark(drawing->writer, drawing->event, part->lane, &alone,
				 drawing->at->sub_lanes[0].track);
}

/* Those before `time`, or up to it with `inclusive`. */
static int put_marks(struct drawing *drawing, uint64_t time, bool inclusive)
{
	const struct lane_part *part = drawing->part;
	int err = 0;

	for (; !err && drawing->next_mark < part->mark_count; drawing->next_mark++) {
		const struct mark *mark = &part->marks[drawing->next_mark];

		if (mark->time_ns > time || (mark->time_ns == time && !inclusive))
			break;
		err = put_names(drawing, mark->time_ns);
		if (!err)
			err = put_mark(drawing, mark);
	}
	return err ? err : put_names(drawing, time);
}

/* ---- scopes ---- */

static int close_innermost(struct drawing *drawing, size_t number)
{
	struct sub_lane *sub_lane = &drawing->at->sub_lanes[number];
	uint64_t end_ns = sub_lane->slices[sub_lane->count - 1].end_ns;
	int err = number ? 0 : put_marks(drawing, end_ns, true);

	if (err)
		return err;
	sub_lane->count--;
	return perfetto_put_plain(drawing->writer, NULL, end_ns, sub_lane->track);
}

/* True when `open` had ended before `scope` began. Where they only touch, a scope of no length may still be
 * inside. */
static bool ended_before(const struct open_slice *open, const struct scope *scope)
{
	if (open->end_ns != scope->start_ns)
		return open->end_ns < scope->start_ns;
	return scope->end_ns > scope->start_ns || scope->depth <= open->depth;
}

static int find_sub_lane(struct drawing *drawing, size_t number, struct sub_lane **sub_lane)
{
	struct perfetto_position *at = drawing->at;

	if (vec_reserve((void **)&at->sub_lanes, &at->sub_lane_capacity, number + 1,
			sizeof(*at->sub_lanes)))
		return -ENOMEM;
	for (; at->sub_lane_count <= number; at->sub_lane_count++)
		memset(&at->sub_lanes[at->sub_lane_count], 0, sizeof(*at->sub_lanes));
	*sub_lane = &at->sub_lanes[number];
	if ((*sub_lane)->track)
		return 0;
	return perfetto_sub_lane_track(drawing->writer, (unsigned)number, at->sub_lanes[0].track,
				       &(*sub_lane)->track);
}

static int put_begin(struct drawing *drawing, size_t index, uint32_t track)
{
	const struct scope *scope = &drawing->part->scopes[index];
	uint32_t first = drawing->first_of ? drawing->first_of[index] : PERFETTO_NO_MARK;
	char flags[WORDS_FLAGS_SIZE];
	int err;

	if (first == PERFETTO_NO_MARK && perfetto_is_plain(drawing->writer, scope))
		return perfetto_put_plain(drawing->writer, scope, scope->start_ns, track);
	perfetto_begin_event(drawing->writer, drawing->event, scope, track, flags);
	if (scope->flags & SCOPE_FLAG_INSTANT)
		drawing->event->track_event.type = PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT;
	err = perfetto_event_marks(drawing->writer, drawing->event, drawing->part, first,
				   drawing->next_of);
	return err ? err : perfetto_put_packet(drawing->writer, &drawing->event->packet);
}

static int begin_slice(struct drawing *drawing, size_t index, struct sub_lane *sub_lane)
{
	const struct scope *scope = &drawing->part->scopes[index];

	if (!(scope->flags & SCOPE_FLAG_INSTANT)) {
		if (vec_grow(&sub_lane->slices, &sub_lane->capacity, sub_lane->count))
			return -ENOMEM;
		sub_lane->slices[sub_lane->count++] =
			(struct open_slice){scope->end_ns, scope->depth};
	}
	return put_begin(drawing, index, sub_lane->track);
}

static int put_scope(struct drawing *drawing, size_t index)
{
	const struct scope *scope = &drawing->part->scopes[index];
	struct sub_lane *sub_lane;
	int err = find_sub_lane(drawing, scope->sub_lane, &sub_lane);

	while (!err && sub_lane->count &&
	       ended_before(&sub_lane->slices[sub_lane->count - 1], scope))
		err = close_innermost(drawing, scope->sub_lane);
	if (!err && !scope->sub_lane)
		err = put_marks(drawing, scope->start_ns, false);
	return err ? err : begin_slice(drawing, index, sub_lane);
}

/* ---- parts ---- */

/* Nothing that comes later lies before the marks of this part. */
static int end_part(struct drawing *drawing)
{
	const struct lane_part *part = drawing->part;
	struct perfetto_position *at = drawing->at;
	uint64_t last = part->mark_count ? part->marks[part->mark_count - 1].time_ns : 0;
	int err = 0;

	for (size_t i = 0; i < at->sub_lane_count && part->last; i++) {
		while (!err && at->sub_lanes[i].count)
			err = close_innermost(drawing, i);
	}
	while (!err && at->sub_lanes[0].count &&
	       at->sub_lanes[0].slices[at->sub_lanes[0].count - 1].end_ns <= last)
		err = close_innermost(drawing, 0);
	return err ? err : put_marks(drawing, part->last ? UINT64_MAX : last, true);
}

/* Lists the arguments and flows of each scope. */
static int link_marks(struct drawing *drawing)
{
	const struct lane_part *part = drawing->part;

	if (!part->mark_count)
		return 0;
	drawing->first_of = malloc((part->scope_count + 1) * sizeof(*drawing->first_of));
	drawing->next_of = malloc((part->mark_count + 1) * sizeof(*drawing->next_of));
	if (!drawing->first_of || !drawing->next_of)
		return -ENOMEM;
	for (size_t i = 0; i < part->scope_count; i++)
		drawing->first_of[i] = PERFETTO_NO_MARK;
	for (size_t i = part->mark_count; i-- > 0;) {
		const struct mark *mark = &part->marks[i];
		uint32_t *first;

		if ((mark->kind != MANUAL_ARGUMENT && mark->kind != MANUAL_FLOW) ||
		    mark->scope == MARK_NO_SCOPE || mark->scope < part->first_scope)
			continue;
		first = &drawing->first_of[mark->scope - part->first_scope];
		drawing->next_of[i] = *first;
		*first = (uint32_t)i;
	}
	return 0;
}

static struct perfetto_position *begin_lane(struct perfetto_writer *writer, const struct lane *lane,
					    int *err)
{
	struct perfetto_position *at = calloc(1, sizeof(*at));

	*err = -ENOMEM;
	if (!at || vec_grow(&at->sub_lanes, &at->sub_lane_capacity, 0))
		return at;
	memset(at->sub_lanes, 0, sizeof(*at->sub_lanes));
	at->sub_lane_count = 1;
	*err = perfetto_lane_track(writer, lane, &at->sub_lanes[0].track);
	return at;
}

int perfetto_put_part(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct lane_part *part, struct perfetto_position **at)
{
	struct drawing drawing = {.writer = writer, .event = event, .part = part};
	int err = 0;

	if (!*at)
		*at = begin_lane(writer, part->lane, &err);
	drawing.at = *at;
	if (!err)
		err = link_marks(&drawing);
	for (size_t i = 0; i < part->scope_count && !err; i++)
		err = put_scope(&drawing, i);
	if (!err)
		err = end_part(&drawing);
	free(drawing.first_of);
	free(drawing.next_of);
	if (part->last) {
		perfetto_position_destroy(*at);
		*at = NULL;
	}
	return err;
}
