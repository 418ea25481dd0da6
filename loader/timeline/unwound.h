/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where calls that an exception left truly ended. Purpose: the kernel only finds out later that a
 * frame is gone; its end is the thread's next hit (start or end of any call) at or above its stack
 * pointer, as nothing above a frame runs while it is alive. Owner: one visit of the timeline, for
 * one traced thread. Invariants: a range of addresses is one stack, as far as is known; `live` and
 * `left` of a range have falling stack pointers.
 *
 * A thread may have several stacks (fibers, signal stacks), and a hit on one says nothing of the
 * frames on another. Two are told apart when they must be: a call that is known to return later,
 * and so is alive, lies below the address of a hit. Then there is a border between the two, for
 * good; it is put where the widest gap is between the addresses known there. Until such a proof the
 * thread is taken to have one stack.
 *
 * While it has one stack, manual scopes tell, too: what began inside one was left when that was
 * stopped, and one that was begun inside and is still open at the hit was begun outside, after the
 * frame was left.
 */
#ifndef SCOPETRACE_TIMELINE_UNWOUND_H
#define SCOPETRACE_TIMELINE_UNWOUND_H

#include "timeline/trace_index.h"

struct unwound;

/* NULL when out of memory. */
struct unwound *unwound_create(void);
void unwound_destroy(struct unwound *unwound); /* takes NULL */

/*
 * Settles the ends of the unwound calls among these: all calls of the thread that start before
 * `bound_ns` and after the step before, in the order of their starts, and the manual events of that
 * time. An end that is met in a later step is noted in thread->ends with `noting`, and else looked
 * up there. 0 or -ENOMEM.
 */
struct unwound_step {
	struct raw_call *calls;
	size_t call_count;
	const struct raw_manual *manual;
	size_t manual_count;
	uint64_t bound_ns;
	struct thread_events *thread;
	bool noting;
};
int unwound_settle(struct unwound *unwound, const struct unwound_step *step);

#endif
