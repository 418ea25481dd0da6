/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What goes from a source to the capture file through a hand-off buffer. Purpose: the thread that
 * drains never waits for a disk, and nothing is lost unseen. Two sides, each one thread at a time:
 * the drain side writes to relay_output, the write side takes and puts into the sink. A relay that
 * is not started, or is settled, has one side: what is written to its output is put into the sink
 * at once.
 *
 * Invariants: scopes and events are handed off in batches, each a record; a batch that finds no
 * room is discarded, counted by function or in all, and told as a loss. Everything else (strings,
 * threads, anchors, processes, losses) is kept until there is room, and goes before the next batch,
 * and what a batch names stands before it. Of these only records of threads are discarded, where 64
 * MiB of them wait, and counted. Names that nobody bears any more do not take ever more memory: the
 * ids that a source gets are valid until twice RELAY_NAMES_MOST others have come, and are not given
 * again before 2^31 have.
 */
#ifndef SCOPETRACE_RECORD_RELAY_H
#define SCOPETRACE_RECORD_RELAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/event.h"
#include "base/intern.h"

#define RELAY_BYTES_DEFAULT (16u << 20)
#define RELAY_BYTES_LEAST   (256u << 10) /* the longest string fits in half of it */
#define RELAY_BYTES_MOST    (1u << 30)
#define RELAY_NAMES_MOST \
	(1u << 15) /* and 8 MiB of them: then all are forgotten, and told anew when they come */

struct relay;

/*
 * A relay of this many bytes (a power of two between the two above) into `sink`, which outlives it;
 * for hooked functions of ids below `function_count`. Not started. NULL with errno (logged).
 */
struct relay *relay_create(struct event_output *sink, size_t bytes, size_t function_count);
void relay_destroy(struct relay *relay); /* takes NULL; no side may be at work */

/* From now on there are two sides. */
void relay_start(struct relay *relay);

/*
 * The drain side is at work no more: puts all that is left into the sink, and whatever else is
 * written to the output at once. 0, -errno of the sink, or -EBADMSG if what was discarded does not
 * add up (logged).
 */
int relay_settle(struct relay *relay);

/* ---- the drain side ---- */

/* Where the source puts its events: returns 0, or -ENOMEM. Its span and process are there, too. */
struct event_output *relay_output(struct relay *relay);

/* Around each drain: its time, for the times of losses; and what is kept is tried once more. Names may be
 * forgotten at its begin. */
void relay_begin(struct relay *relay, uint64_t now_ns);
void relay_end(struct relay *relay);

/* Discarded so far, once all of a source is put out: scopes of a function that are in its account as
 * completed, unwound or instant; manual events in all. */
uint64_t relay_lost_calls(const struct relay *relay, uint32_t function);
uint64_t relay_lost_events(const struct relay *relay);
/* records of them: a name or an end is missing */
uint64_t relay_lost_threads(const struct relay *relay);

/* ---- the write side ---- */

/* Takes some of what is there. 1, 0 if there is nothing, or -errno of the sink. */
int relay_take(struct relay *relay);

/* After a 0: true, and relay_fd becomes readable when there is something. False: there is. */
bool relay_sleep(struct relay *relay);
int relay_fd(const struct relay *relay);

/*
 * Visits the sink's ids that names have here. They may be changed, if the sink changes them alike.
 */
void relay_visit_names(struct relay *relay, intern_visitor visit, void *context);

#endif
