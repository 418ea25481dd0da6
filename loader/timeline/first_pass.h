/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scopes and manual events of a capture as they are first read: counted, checked, paired across
 * regions, and carried where they belong to an earlier region. Purpose: all that must be known
 * before lanes can be read region by region. Owner: load.c. What returns an int: 0,
 * -ENOMEM, or -EBADMSG with *wrong saying why.
 */
#ifndef SCOPETRACE_TIMELINE_FIRST_PASS_H
#define SCOPETRACE_TIMELINE_FIRST_PASS_H

#include "timeline/trace_index.h"

/* The record at hand begins a region, if the one before is full. */
int first_pass_enter_region(struct trace_index *trace, uint64_t offset, uint32_t record);

int first_pass_add_hooked(struct trace_index *trace, const struct hooked_scope *scope,
			  const char **wrong);

/* `minor` of the file: a newer one may have kinds of its own, which are passed over. */
int first_pass_add_manual(struct trace_index *trace, const struct manual_event *event,
			  uint16_t minor, const char **wrong);

/* When all are taken: puts what was carried and the late stops in order. */
int first_pass_end(struct trace_index *trace);

#endif
