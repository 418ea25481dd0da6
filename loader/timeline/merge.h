/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hooked and manual events of one thread become one lane of nested scopes, part by part. Purpose:
 * depth, self time and sub-lanes over both kinds together. Owner: one visit of the timeline.
 * Invariants: manual events are taken in their order; all scopes that begin before the end of a
 * part are known when it is made, also those that end long after it.
 */
#ifndef SCOPETRACE_TIMELINE_MERGE_H
#define SCOPETRACE_TIMELINE_MERGE_H

#include "timeline/trace_index.h"

struct merge;

struct merge_input {
	const struct trace_index *trace;
	const struct thread_events *thread;
	const struct lane_source *source;
};

/* NULL when out of memory; the input must stay. */
struct merge *merge_create(struct lane *lane, const struct merge_input *input);
void merge_destroy(struct merge *merge); /* takes NULL */

/* Takes the next manual event. 0 or -ENOMEM. */
int merge_event(struct merge *merge, const struct raw_manual *event);

/* Room for parts, shared by all lanes that are made one after another. */
struct merge_room {
	struct scope *scopes;
	size_t scope_capacity;
	struct mark *marks;
	size_t mark_capacity;
	struct late_child *late;
	size_t late_capacity;
};
void merge_room_clear(struct merge_room *room);

/*
 * Makes the part of all that begins before `bound_ns`: the manual events that were taken, and these
 * calls, which stand in order (outer first). *part is valid until the next one is made in this
 * room. 0 or -ENOMEM.
 */
int merge_part(struct merge *merge, const struct raw_call *calls, size_t count, uint64_t bound_ns,
	       struct merge_room *room, struct lane_part *part);

/* Sorts losses by pid, ring and time, and joins those of one ring that overlap: of what is left, none lasts
 * into the next, nor ends before it begins. Returns how many that are. */
size_t merge_losses(struct loss_event *losses, size_t count);

#endif
