/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Scopes and manual events of a capture as they are first read: counted, checked, paired across
 * regions, and carried where they belong to an earlier region. Purpose: all that must be known
 * before lanes can be read region by region. Owner: capture_load(). What returns an int: 0,
 * -ENOMEM, or -EBADMSG with *wrong saying why.
 */
#ifndef SCOPETRACE_TIMELINE_FIRST_PASS_H
#define SCOPETRACE_TIMELINE_FIRST_PASS_H

#include "timeline/load.h"

/* The record at hand begins a region, if the one before is full. */
int capture_enter(struct capture *capture, uint64_t offset, uint32_t record);

int capture_take_hooked(struct capture *capture, const struct hooked_scope *scope,
			const char **wrong);

/* `minor` of the file: a newer one may have kinds of its own, which are passed over. */
int capture_take_manual(struct capture *capture, const struct manual_event *event, uint16_t minor,
			const char **wrong);

/* When all are taken: puts what was carried and the late stops in order. */
void capture_settle_events(struct capture *capture);

/* Checks that hold each time a record is read. NULL, or what is wrong with it. */
const char *hooked_wrong(const struct timeline *timeline, const struct hooked_scope *scope);
const char *manual_wrong(const struct timeline *timeline, const struct manual_event *event);
bool manual_kind_known(uint8_t kind);

#endif
