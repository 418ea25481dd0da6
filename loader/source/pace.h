/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long the drain loop sleeps between two drains. Purpose: no ring laps while we sleep, and an
 * idle loader costs nothing. Owner: the thread that drains. Never zero: a reader that polls the
 * cursor busily slows the writers down five to ten times.
 */
#ifndef SCOPETRACE_SOURCE_PACE_H
#define SCOPETRACE_SOURCE_PACE_H

#include <stdint.h>

#define PACE_USUAL_NS	 1000000ull
#define PACE_SHORTEST_NS 100000ull

struct pace {
	uint64_t pause_ns;
	uint64_t drained_ns; /* when the last drain was */
};

/*
 * Asks the scheduler to let this thread run soon after it wakes: a short slice (Linux 6.12; it
 * needs no privilege and takes nothing from others' share). On a machine whose processors are all
 * busy it is not the length of the pause that loses events but the wait for a processor after it.
 * Children do not inherit it. Best effort: an older kernel goes without.
 */
void pace_begin(struct pace *pace, uint64_t now_ns);

/*
 * The pause after a drain at `now_ns` that took `drained` events out of rings of `slots` each (0:
 * there are none). 1 ms; less where a quarter of a ring would fill in that time at the rate of the
 * last drain, but no less than 0.1 ms; when nothing came, twice the last one, up to `longest_ns`
 * and to half the time in which a ring fills at 1 M events/s.
 */
uint64_t pace_next(struct pace *pace, uint64_t now_ns, uint64_t drained, uint64_t slots,
		   uint64_t longest_ns);

/*
 * The pause before the first drain of a ring that was just found: 0.1 ms, and from there as above.
 */
uint64_t pace_hurry(struct pace *pace);

#endif
