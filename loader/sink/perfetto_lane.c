// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "sink/words.h"

#define SUB_LANES 256 /* scope.sub_lane has 8 bits */
#define NO_SCOPE  SIZE_MAX

/* Where the export stands in a lane: a stack of open scopes for each sub-lane, linked through `outer`. */
struct position {
	struct perfetto_writer *writer;
	struct perfetto_event *event;
	const struct lane *lane;
	size_t *outer;		    /* of each scope: the one around it on its sub-lane */
	size_t open[SUB_LANES];	    /* the innermost open scope of each */
	uint32_t tracks[SUB_LANES]; /* 0: no track yet */
	size_t next_mark;
	uint32_t *first_of; /* of each scope: its first argument or flow, or PERFETTO_NO_MARK */
	uint32_t *next_of;  /* of each of those: the next of its scope */
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
		err = perfetto_put_mark(at->writer, at->event, lane, mark, at->tracks[0]);
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
	return perfetto_put_end(at->writer, at->event, scope, at->tracks[sub_lane]);
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
	char flags[WORDS_FLAGS_SIZE];
	int err = 0;

	if (!at->tracks[sub_lane])
		err = perfetto_sub_lane_track(at->writer, sub_lane, at->tracks[0], &at->tracks[sub_lane]);
	while (!err && *open != NO_SCOPE && ended_before(&at->lane->scopes[*open], scope))
		err = close_innermost(at, sub_lane);
	if (!err && !sub_lane)
		err = put_marks(at, scope->start_ns, false);
	if (err)
		return err;
	at->outer[index] = *open;
	*open = index;
	perfetto_begin_event(at->writer, at->event, scope, at->tracks[sub_lane], flags);
	err = perfetto_event_marks(at->writer, at->event, at->lane, at->first_of[index], at->next_of);
	return err ? err : perfetto_put_packet(at->writer, &at->event->packet);
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

/* Lists the arguments and flows of each scope. */
static int link_marks(struct position *at)
{
	const struct lane *lane = at->lane;

	at->first_of = malloc((lane->scope_count + 1) * sizeof(*at->first_of));
	at->next_of = malloc((lane->mark_count + 1) * sizeof(*at->next_of));
	if (!at->first_of || !at->next_of)
		return -ENOMEM;
	for (size_t i = 0; i < lane->scope_count; i++)
		at->first_of[i] = PERFETTO_NO_MARK;
	for (size_t i = lane->mark_count; i-- > 0;) {
		const struct mark *mark = &lane->marks[i];

		if ((mark->kind != MANUAL_ARGUMENT && mark->kind != MANUAL_FLOW) ||
		    mark->scope == MARK_NO_SCOPE)
			continue;
		at->next_of[i] = at->first_of[mark->scope];
		at->first_of[mark->scope] = (uint32_t)i;
	}
	return 0;
}

int perfetto_put_lane(struct perfetto_writer *writer, struct perfetto_event *event, const struct lane *lane)
{
	struct position at = {.writer = writer, .event = event, .lane = lane};
	int err = perfetto_lane_track(writer, lane, &at.tracks[0]);

	if (err)
		return err;
	at.outer = calloc(lane->scope_count ? lane->scope_count : 1, sizeof(*at.outer));
	err = at.outer ? link_marks(&at) : -ENOMEM;
	for (unsigned sub_lane = 0; sub_lane < SUB_LANES; sub_lane++)
		at.open[sub_lane] = NO_SCOPE;
	if (!err)
		err = put_lane_events(&at);
	free(at.outer);
	free(at.first_of);
	free(at.next_of);
	return err;
}
