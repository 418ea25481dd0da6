/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A libscope segment as a source. Purpose: the manual scopes of one process. One thread. Takes
 * libscope's reader, interns names, joins continuations, translates thread ids into our pid
 * namespace, takes clock anchors while it drains.
 */
#ifndef SCOPETRACE_SOURCE_SHM_SOURCE_H
#define SCOPETRACE_SOURCE_SHM_SOURCE_H

#include "source/source.h"

/* How thread ids of the process's own pid namespace become ours. */
struct tid_translator {
	/* Asked for each record, so it remembers. The id in our namespace, or 0 if no such thread is known.
	 * `fresh`: a thread that has just begun. */
	uint32_t (*translate)(void *context, uint32_t namespace_tid, bool fresh);
	void *context;
};

/*
 * Opens the segment of process `pid` and turns its capture on. `translator` may be NULL where the
 * process shares our pid namespace. NULL with errno, nothing logged for ENOENT (no segment: the
 * program does not use libscope), EAGAIN (it is being set up: try again) and ESRCH (the process is
 * gone); else said: EBUSY another reader has it, EPROTO another major version, EBADMSG damaged,
 * EACCES.
 */
struct source *shm_source_open(pid_t pid, const struct tid_translator *translator);

/* The same, and nothing is logged; what shm_source_open would say of the errno. */
struct source *shm_source_try(pid_t pid, const struct tid_translator *translator);

/*
 * The same for one of several readers of a capture (any number but 0), one after another. What is
 * drained counts as taken only with shm_source_commit, which is for when it is safe: a later reader
 * of the capture goes on, and counts on, from there, also if this one turned the segment's capture
 * off: what was open then ends for the next.
 */
struct source *shm_source_try_again(pid_t pid, const struct tid_translator *translator,
				    uint64_t capture);
void shm_source_say(pid_t pid, int error);

/*
 * Turns the capture off before finish() does: what is written until then is taken, and nothing
 * after.
 */
void shm_source_stop(struct source *source);

void shm_source_commit(struct source *source);

/* In place of destroy: leaves the capture on for the next reader. */
void shm_source_leave(struct source *source);

/* Keeps the capture on without draining: call it at least each second. */
void shm_source_renew(struct source *source);

/* The clock of its records (enum clock_id). */
uint32_t shm_source_clock(const struct source *source);

/* What tells it from other segments of the process: never 0. */
uint32_t shm_source_segment(const struct source *source);

/* How many events each of its rings holds. */
uint32_t shm_source_slots(const struct source *source);

/*
 * How many of the lost events had been written before it was opened, by when nobody had read them.
 */
uint64_t shm_source_overwritten(const struct source *source);

/*
 * What its reader counted so far; after shm_source_try_again, what all readers of the capture did.
 */
struct segment_accounting shm_source_accounting(const struct source *source);

#endif
