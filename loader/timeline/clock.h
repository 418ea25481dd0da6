/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From the ticks of a counter to CLOCK_MONOTONIC. Purpose: manual and hooked scopes on one time
 * axis. Owner: one thread; const once built. Invariant: along one stretch the conversion never runs
 * backwards.
 *
 * Anchors are joined by straight lines. Where two neighbours cannot be joined, because the slope is
 * off by more than 500 ppm or the counter went back (suspend, migration to another host), the line
 * is broken: each stretch is converted apart, and no time is carried beyond the next stretch's
 * first anchor, or before the last one's end.
 */
#ifndef SCOPETRACE_TIMELINE_CLOCK_H
#define SCOPETRACE_TIMELINE_CLOCK_H

#include <stdbool.h>

#include "event/event.h"

#define CLOCK_STRETCHES 64 /* anchors that would need more are left out */

struct clock_stretch {
	size_t first; /* anchors[first] ... anchors[last], both in it */
	size_t last;
};

struct clock_line {
	uint32_t clock;		      /* enum clock_id */
	struct clock_anchor *anchors; /* of this clock, by time; ticks ascend within a stretch */
	size_t anchor_count;
	struct clock_stretch stretches[CLOCK_STRETCHES];
	size_t stretch_count;
	double slope; /* ns per tick; 0: unknown, no conversion is possible */
};

/* Where one thread's events have got to, in their own order; begins as zero. */
struct clock_cursor {
	size_t stretch;
	size_t anchor;
};

/* Builds the line of `clock` from those of the anchors that are its. 0 or -ENOMEM. */
int clock_line_build(struct clock_line *line, uint32_t clock, const struct clock_anchor *anchors,
		     size_t count);

/* CLOCK_ID_MONOTONIC always is; a counter needs two anchors. */
bool clock_line_usable(const struct clock_line *line);

/* Ns of CLOCK_MONOTONIC, below 2^63, of a usable line. */
uint64_t clock_line_convert(const struct clock_line *line, struct clock_cursor *cursor,
			    uint64_t ticks);

void clock_line_clear(struct clock_line *line);

#endif
