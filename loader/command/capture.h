/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One capture from arming to the last line. Purpose: what `record` does once its options are parsed. One
 * thread. Invariant: whatever way it ends, capture_close leaves no probe, no open segment and no child that
 * never ran.
 */
#ifndef SCOPETRACE_COMMAND_CAPTURE_H
#define SCOPETRACE_COMMAND_CAPTURE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "command/launch.h"
#include "probe/attach.h"
#include "source/source.h"
#include "target/process.h"
#include "target/selector.h"
#include "target/symbol.h"
#include "timeline/capture_write.h"

/* const once parsed */
struct capture_options {
	pid_t pid;	      /* of -p; 0 with a command */
	char *const *command; /* of --; NULL with a pid */
	char *const *include; /* of -f */
	size_t include_count;
	char *const *exclude; /* of -N */
	size_t exclude_count;
	const char *output;
	uint64_t duration_ns; /* 0: until it ends or Ctrl-C */
	uint64_t minimum_ns;
	uint64_t ring_bytes; /* 0: the default */
	int ready_fd;	     /* -1: none */
	bool all;
	bool force;
	bool optimized;
	bool json;
	int argc; /* of the whole program, for the file's header */
	char *const *argv;
};

struct capture {
	const struct capture_options *options;
	struct process process; /* the target */
	bool opened;		/* process is */
	struct launch launch;
	struct symbol_table symbols;
	bool has_symbols;
	const struct function **functions; /* chosen; index = function id */
	size_t function_count;
	struct probe_session *session;
	struct source *hooked; /* NULL without -f */
	struct source *manual; /* NULL until the process has a segment */
	struct capture_writer *writer;
	sigset_t old_mask;
	int signals; /* signalfd */
	uint64_t start_ns;
	uint64_t looked_ns;		     /* when we last looked for a segment */
	uint64_t tended_ns;		     /* when the work of each second was last done */
	struct hash_map thread_names;	     /* tid -> string id of the name last told */
	struct segment_accounting *segments; /* of segments that are done with */
	size_t segment_count, segment_capacity;
	uint32_t clock;	 /* of the process's segment (enum clock_id), 0 without one */
	bool namespaced; /* the process has a pid namespace of its own */
};

/*
 * Opens the target, checks that hooking it is safe and possible, loads and arms the probes, opens its segment
 * and the file; says `armed N of N functions in pid P`. 0 or -errno, said; call capture_close in any case.
 */
int capture_open(struct capture *capture, const struct capture_options *options);

/* Runs until the target's end, the duration, or a signal. 0, or -errno of a source or of the file, said. */
int capture_run(struct capture *capture);

/*
 * Closes the probes, takes what remains, writes accounts and footer, prints the closing line. 0, -errno of
 * the file, or -EBADMSG when the numbers do not add up (said).
 */
int capture_finish(struct capture *capture);

/*
 * Between these files: opens the process's segment if there is one by now (0 also when there is none); takes
 * the open segment to its end and keeps its account. 0 or -errno, said.
 */
int capture_open_manual(struct capture *capture);
int capture_close_manual(struct capture *capture);

/* Frees and closes everything, in whatever state; waits for the command's end. */
void capture_close(struct capture *capture);

#endif
