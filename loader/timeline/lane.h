/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which events of one (pid, tid) belong to which thread. Purpose: a recycled tid is another lane. Owner: one
 * thread. Invariants: spans are in order of time, and split the calls and the manual events of the tid
 * without a gap.
 *
 * A thread begins where the kernel says it did, or at a THREAD_START of its segment; of these two, next to
 * each other in this order, the second is only the first manual record of the same thread. It ends at its
 * exit.
 */
#ifndef SCOPETRACE_TIMELINE_LANE_H
#define SCOPETRACE_TIMELINE_LANE_H

#include "timeline/capture_read.h"

struct lane_span {
	uint64_t begin_ns; /* calls that start from here on belong to it */
	uint64_t start_ns; /* of the thread; 0: unknown */
	uint64_t exit_ns;  /* 0: was not seen to exit */
	uint32_t name;	   /* 0: has none */
	size_t call_first, call_end;
	size_t manual_first, manual_end;
	bool has_manual;
};

struct lane_plan {
	struct lane_span *spans;
	size_t count;
	size_t capacity;
};

/*
 * Splits the events of the thread, whose manual times are ns already; its calls and infos are put in order of
 * time. 0 or -ENOMEM.
 */
int lane_plan_make(struct lane_plan *plan, struct thread_events *thread);
void lane_plan_clear(struct lane_plan *plan);

#endif
