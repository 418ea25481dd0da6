/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lanes of a timeline: which threads have one, from when to when, and under what names.
 * Purpose: all that is known of a lane before its scopes are visited. Stateless.
 */
#ifndef SCOPETRACE_TIMELINE_LANES_H
#define SCOPETRACE_TIMELINE_LANES_H

#include "timeline/trace_index.h"

/*
 * Makes the lanes of a loaded index, in its timeline: by process and thread, and of one tid in the
 * order in which its threads lived. 0 or -errno, logged unless it is -ENOMEM.
 */
int lanes_plan(struct trace_index *trace);

#endif
