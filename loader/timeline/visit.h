/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reading a capture's scopes and manual events again, region by region. Purpose: lanes of any
 * length in bounded memory: what a region holds, what is open where regions meet, and no more.
 * Owner: one visit at a time.
 */
#ifndef SCOPETRACE_TIMELINE_VISIT_H
#define SCOPETRACE_TIMELINE_VISIT_H

#include "timeline/trace_index.h"

/* All lanes, to the visitor of timeline_visit(). */
int visit_lanes(struct trace_index *trace, timeline_visitor visitor, void *context);

/* Notes the ends of unwound calls that are met in a later region than they began. 0 or -errno, logged unless it
 * is -ENOMEM. */
int visit_unwound(struct trace_index *trace);

/* Counts the calls of threads (`wanted`, by index) between their turns. The same. */
int visit_turns(struct trace_index *trace, const bool *wanted);

#endif
