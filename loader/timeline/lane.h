/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which events of one (pid, tid) belong to which thread. Purpose: a recycled tid is another lane.
 * Owner: one thread. Invariants: spans are in order of time, and split the calls and the manual
 * events of the tid without a gap.
 *
 * A thread begins where the kernel says it did, or at a THREAD_START of its segment; of these two,
 * next to each other in this order, the second is only the first manual record of the same thread.
 * It ends at its exit.
 */
#ifndef SCOPETRACE_TIMELINE_LANE_H
#define SCOPETRACE_TIMELINE_LANE_H

#include "timeline/trace_index.h"

struct lane_span {
	uint64_t begin_ns;	   /* calls that start from here on belong to it */
	uint64_t start_ns;	   /* of the thread; 0: unknown */
	uint64_t exit_ns;	   /* 0: was not seen to exit */
	struct name_change *names; /* in the order in which they were told */
	size_t name_count, name_capacity;
	uint64_t call_first, call_end; /* so many calls start before it, and before its end */
	size_t run;		       /* of its manual events */
	bool has_manual;
};

struct lane_plan {
	struct lane_span *spans;
	size_t count;
	size_t capacity;
};

/*
 * Notes the moments at which the tid may have gone from one thread to the next. *uncertain: how
 * many calls lie between them is not known, and all its calls must be counted. 0 or -ENOMEM.
 */
int lane_turns_note(struct thread_events *thread, bool *uncertain);
void lane_turns_count(struct thread_events *thread, const struct raw_call *call);
void lane_turns_sum(struct thread_events *thread);

/* Splits the events of the thread, whose infos are put in order of time. 0 or -ENOMEM. */
int lane_plan_make(struct lane_plan *plan, struct thread_events *thread);
void lane_plan_clear(struct lane_plan *plan);

/*
 * What is still open when the span ends: the end of the thread, or `end_ns`, and no event of it is
 * later.
 */
uint64_t lane_span_last(const struct lane_plan *plan, size_t index,
			const struct thread_events *thread, uint64_t end_ns);

/* Adds a name to the list. 0 or -ENOMEM. */
int name_changes_add(struct name_change **names, size_t *count, size_t *capacity, uint64_t time_ns,
		     uint32_t name);

#endif
