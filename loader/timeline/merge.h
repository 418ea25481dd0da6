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
	const struct loss_event *losses; /* of segments, by pid, ring and time; the whole capture's */
	size_t loss_count;
};

/* Fills the lane's scopes, marks, max_depth, and its name if the thread named itself. 0 or -ENOMEM. */
int merge_lane(struct lane *lane, const struct merge_input *input, uint64_t *orphans);

/* Order of merge_input.losses. */
int merge_loss_order(const void *a, const void *b);

#endif
