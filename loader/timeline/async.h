/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Async slices: what begins in one thread and may end in another. Purpose: pairs the marks of all
 * lanes. Owner: the thread that builds the timeline.
 */
#ifndef SCOPETRACE_TIMELINE_ASYNC_H
#define SCOPETRACE_TIMELINE_ASYNC_H

#include "timeline/trace_index.h"

/*
 * Fills asyncs and async_orphans from these halves, which are put in order. Of slices of one
 * process, name and id that overlap, an end belongs to the one begun last. 0 or -ENOMEM.
 */
int async_pair(struct timeline *timeline, struct async_half *halves, size_t count);

#endif
