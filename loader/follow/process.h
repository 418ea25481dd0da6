/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process of a pinned capture, as its drainer sees it. Purpose: its name for the file, and its
 * manual scopes. Owner: the drainer; one thread. Processes that have ended, or that we may not look
 * at, are drained all the same: what they called comes from the kernel.
 */
#ifndef SCOPETRACE_FOLLOW_PROCESS_H
#define SCOPETRACE_FOLLOW_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/hash.h"
#include "source/source.h"
#include "program/process.h"
#include "file/writer.h"

struct pinned_process {
	pid_t pid;
	uint64_t capture; /* a number that its segments' accounts go by */
	int pidfd;	  /* -1: it had ended */
	bool opened;	  /* `process` is */
	struct process process;
	struct source *segment; /* its manual scopes; NULL: none (yet) */
	/* the segment's capture is off, and it is read to its end */
	bool over;
	struct segment_accounting done; /* of the segment that was let go of; pid 0: none was */
	bool adds_done;			/* the segment is that one, and its account begins anew */
	/* why they cannot be read: errno, 0: they can, or there are none */
	int said;
	uint64_t look_ns; /* not before then for a segment */
	uint64_t watched_until_ns;
	bool waits;	      /* for the watcher to let go of it */
	uint64_t renewed_ns;  /* when it was last asked whether another process has the id now */
	struct hash_map tids; /* own-namespace tid -> ours */
	uint64_t list_ns;
};

/*
 * Looks at the process and declares it in the file. Its address must stay. 0 or -errno of the file.
 */
int pinned_process_open(struct pinned_process *process, pid_t pid, uint64_t capture,
			struct scope_file_writer *writer);

bool pinned_process_ended(const struct pinned_process *process);

/* It runs another program, of this name, since then. 0 or -errno of the file. */
int pinned_process_execed(struct pinned_process *process, const char *comm, uint64_t time_ns,
			  struct scope_file_writer *writer);

/*
 * Looks for a segment from time to time, and whether the one it has is still written to: after an
 * exec, or the end of the process, it is taken to its end, and another one is looked for.
 * `watched`: there is a watcher, which has the segment while nobody drains. 0 or -errno of the file
 * or the output.
 */
int pinned_process_follow(struct pinned_process *process, bool watched, struct event_output *output,
			  struct scope_file_writer *writer);

/* It is out of the capture, or off: its segment is taken to its end, and free for others, until it is
 * followed again. 0 or -errno of the file or the output. */
int pinned_process_let_go(struct pinned_process *process, struct event_output *output,
			  struct scope_file_writer *writer);

/*
 * Takes the segment to its end, or with `leave` leaves its capture on. 0 or -errno of the output.
 */
int pinned_process_end(struct pinned_process *process, struct event_output *output, bool leave);

/* After that, if the capture is over, or of a segment that was let go of: what became of the segment's events
 * since the capture began. 0 or -errno. */
int pinned_process_account(const struct pinned_process *process, struct scope_file_writer *writer);

/* Frees; a segment that is still open is left as if we had died. */
void pinned_process_close(struct pinned_process *process);

#endif
