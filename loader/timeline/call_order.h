/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of hooked calls: by start, the outer before the inner. Purpose: millions of calls that
 * come in the order of their ends are put in that of their starts. Owner: one visit of the
 * timeline.
 */
#ifndef SCOPETRACE_TIMELINE_CALL_ORDER_H
#define SCOPETRACE_TIMELINE_CALL_ORDER_H

#include "timeline/trace_index.h"

/* Room that is used again. Begins as zero. */
struct call_room {
	struct raw_call *calls;
	size_t call_capacity;
	struct call_key {
		uint64_t start;
		uint32_t index;
	} * keys[2];
	size_t key_capacity[2];
};
void call_room_clear(struct call_room *room);

/* 0 or -ENOMEM. */
int call_order(struct raw_call *calls, size_t count, struct call_room *room);

#endif
