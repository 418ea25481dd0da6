/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hooked and manual events of one thread become one lane of nested scopes. Purpose: depth, self time and
 * sub-lanes over both kinds together. Owner: one thread; lanes are made one after another.
 */
#ifndef SCOPETRACE_TIMELINE_MERGE_H
#define SCOPETRACE_TIMELINE_MERGE_H

#include "timeline/lane.h"

struct merge_input {
	const struct timeline *timeline; /* its functions are named */
	const struct thread_events *thread;
	const struct lane_span *span;
	uint64_t end_ns;		 /* what is still open ends here; no event of the span is later */
	const struct loss_event *losses; /* of segments, as merge_losses() makes them; the whole capture's */
	size_t loss_count;
};

/* Fills the lane's scopes, marks, max_depth, and its name if the thread named itself. 0 or -ENOMEM. */
int merge_lane(struct lane *lane, const struct merge_input *input, uint64_t *orphans);

/* Sorts losses by pid, ring and time, and joins those of one ring that overlap: of what is left, none lasts
 * into the next, nor ends before it begins. Returns how many that are. */
size_t merge_losses(struct loss_event *losses, size_t count);

#endif
