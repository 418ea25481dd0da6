/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The order of one thread's manual records. Purpose: what the segment's reader delivered late goes
 * back to its place, and no time runs backwards. Owner: one thread. Invariant: afterwards times
 * ascend, and no STOP stands before its START that did not before.
 *
 * A thread's records stand in the order in which it wrote them, but for one that a signal handler
 * interrupted between its claim and its publish: that one may come behind the handler's.
 */
#ifndef SCOPETRACE_TIMELINE_ORDER_H
#define SCOPETRACE_TIMELINE_ORDER_H

#include "timeline/trace_index.h"

/* The time that a record will have there, whose clock says `ns`, behind one at `latest`. */
uint64_t order_settled(uint64_t ns, uint64_t latest);

/* The records' times are ns. Returns the latest time, at least `now`, before which none is. */
uint64_t order_records(struct raw_manual *events, size_t count, uint64_t now);

#endif
