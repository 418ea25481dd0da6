/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A process of a pinned capture, as its drainer sees it. Purpose: its name for the file, and its manual
 * scopes. Owner: the drainer; one thread. Processes that have ended, or that we may not look at, are drained
 * all the same: what they called comes from the kernel.
 */
#ifndef SCOPETRACE_COMMAND_PINNED_PROCESS_H
#define SCOPETRACE_COMMAND_PINNED_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/hash.h"
#include "source/source.h"
#include "target/process.h"
#include "timeline/capture_write.h"

struct pinned_process {
	pid_t pid;
	bool opened; /* `process` is */
	struct process process;
	struct source *segment; /* its manual scopes; NULL: none (yet) */
	bool over;		/* the segment's capture is off, and it is read to its end */
	bool refused;		/* there are some, and they cannot be read */
	uint64_t look_ns;	/* not before then for a segment */
	bool watched;		/* there is a watcher, which has the segment while nobody drains */
	uint64_t watched_until_ns;
	bool waits;	      /* for the watcher to let go of it */
	struct hash_map tids; /* own-namespace tid -> ours */
	uint64_t list_ns;
};

/* Looks at the process and declares it in the file. Its address must stay. 0 or -errno of the file. */
int pinned_process_open(struct pinned_process *process, pid_t pid, bool watched,
			struct capture_writer *writer);

/* Looks for a segment from time to time. 0 or -errno of the file. */
int pinned_process_follow(struct pinned_process *process, struct capture_writer *writer);

/* Takes the segment to its end, or with `leave` leaves its capture on. 0 or -errno of the output. */
int pinned_process_end(struct pinned_process *process, struct event_output *output, bool leave);

/* Frees; a segment that is still open is left as if we had died. */
void pinned_process_close(struct pinned_process *process);

#endif
