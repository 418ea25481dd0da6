/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Events whose names are not whole yet, and what their threads wrote after them. Purpose: a long
 * name comes in several records, between which a signal handler may write its own; each thread's
 * events still leave in the order in which it wrote them. Owner: one source. Bounded: in a forged
 * segment the oldest names are cut instead of waited for.
 */
#ifndef SCOPETRACE_SOURCE_HELD_H
#define SCOPETRACE_SOURCE_HELD_H

#include <stdbool.h>

#include "event/event.h"

/* Where they leave to: each returns 0 or -errno. */
struct held_output {
	int (*name)(void *context, const char *bytes, size_t length, uint32_t *id);
	int (*event)(void *context, const struct manual_event *event);
	void *context;
};

struct held_queue;

/* Zero but for `output` to begin with. */
struct held {
	struct held_output output;
	struct held_queue **queues; /* of the threads that wait for a name */
	size_t count, capacity;
};

/* An event whose name begins with these bytes and goes on in later records. 0 or -errno. */
int held_begin(struct held *held, const struct manual_event *event, const char *name,
	       size_t length);

/* More of the name of the event with this scope id, `last`: its end. Nothing if that is not held. 0 or
 * -errno. */
int held_continue(struct held *held, uint32_t tid, uint64_t scope_id, const char *name,
		  size_t length, bool last);

/* An event that is whole: leaves at once, or behind those of its thread that wait. 0 or -errno. */
int held_put(struct held *held, const struct manual_event *event);

/* Lets everything go as it is: no more records come. 0 or -errno. */
int held_finish(struct held *held);

/* Frees what is still held. */
void held_clear(struct held *held);

#endif
