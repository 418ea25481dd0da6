/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Watches for slow calls in a stream of events. Purpose: `--trigger 'NAME>16ms'`. Owner: the thread
 * that puts the events. Invariant: every event goes on to the next output first, so that what is
 * told is already there.
 *
 * A call is a hooked scope, or a manual one from its start to its stop on one thread. One that
 * began before anybody watched, or whose start was lost, is not told.
 */
#ifndef SCOPETRACE_RECORD_TRIGGER_H
#define SCOPETRACE_RECORD_TRIGGER_H

#include <stdbool.h>

#include "event/event.h"
#include "base/intern.h"

struct trigger;

/* Told of a call that took longer than it should. */
struct trigger_call {
	size_t watched; /* by the order of trigger_watch */
	uint64_t ns;	/* how long it took */
	uint32_t pid, tid;
};

/* In front of `next`, which outlives it. NULL with errno ENOMEM. */
struct trigger *trigger_create(struct event_output *next);
void trigger_destroy(struct trigger *trigger); /* takes NULL */

/*
 * Manual scopes of this name are watched, before any of them comes; further names are numbered from
 * 0. 0 or -ENOMEM.
 */
int trigger_watch(struct trigger *trigger, const char *name, size_t length,
		  uint64_t longer_than_ns);

/* So are hooked calls of this function. 0 or -ENOMEM. */
int trigger_watch_function(struct trigger *trigger, uint32_t function, size_t watched);

struct event_output *trigger_output(struct trigger *trigger);

/* True with the first slow call since the last time it was asked; *count: how many there were. */
bool trigger_take(struct trigger *trigger, struct trigger_call *first, uint64_t *count);

/* Slow or not: how many calls of it were seen. */
uint64_t trigger_seen(const struct trigger *trigger, size_t watched);

/*
 * Visits the next output's ids that names have here. They may be changed, if that changes them
 * alike.
 */
void trigger_visit_names(struct trigger *trigger, intern_visitor visit, void *context);

#endif
