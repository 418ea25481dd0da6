/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One capture from arming to the last line. Purpose: what `record` does once its options are parsed. One
 * thread. Invariant: whatever way it ends, capture_close leaves no probe, no open segment and no child that
 * never ran.
 *
 * capture.c opens and closes, capture_hooks.c chooses and arms, capture_segment.c follows the process's
 * segments, capture_run.c is the loop, capture_finish.c the end and its account.
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

/* The segments of the process, one after another where it runs other programs by exec. */
struct capture_segments {
	struct source *source;		 /* of the present one; NULL: there is none (yet) */
	bool refused;			 /* there is one that cannot be read */
	uint64_t young_until_ns;	 /* a program that has just begun will make its segment any moment */
	uint64_t look_ns;		 /* not before then, so that looking stays cheap */
	struct segment_accounting *done; /* of those that are over */
	size_t done_count, done_capacity;
	struct hash_map tids; /* own-namespace tid -> ours, where the process has a pid namespace */
	uint64_t list_ns;     /* when its threads may be listed again */
};

struct capture {
	const struct capture_options *options;
	struct process process; /* the target */
	bool opened;		/* process is */
	struct launch launch;
	bool time_is_up; /* --duration has passed */
	struct symbol_table symbols;
	bool has_symbols;
	const struct function **functions; /* chosen; index = function id */
	size_t function_count;
	struct probe_session *session;
	struct source *hooked; /* NULL without -f */
	struct capture_segments segments;
	struct capture_writer *writer;
	bool replaced; /* an older file of this name is now FILE.old */
	sigset_t old_mask;
	bool blocked; /* signals are, and come through `signals` */
	int signals;  /* signalfd */
	uint64_t start_ns;
	uint64_t tended_ns; /* when the work of each second was last done */
};

/*
 * Opens the target, checks that hooking it is safe and possible, loads and arms the probes, opens its segment
 * and the file, says `armed N of N functions in pid P`, and starts the command. 0 or -errno, said; call
 * capture_close in any case.
 */
int capture_open(struct capture *capture, const struct capture_options *options);

/* Runs until the target's end, the duration, or a signal. 0, or -errno of a source or of the file, said. */
int capture_run(struct capture *capture);

/*
 * Closes the probes, takes what remains, writes accounts and footer, prints the closing line. 0, -errno of
 * the file, or -EBADMSG when the numbers do not add up (said). Does nothing when no file was opened.
 */
int capture_finish(struct capture *capture);

/* Frees and closes everything, in whatever state; waits for the command's end (having ended it if its time is
 * up). */
void capture_close(struct capture *capture);

/* ---- between these files ---- */

/* Chooses the functions, refuses what hooking could kill. 0 or -errno, said. */
int capture_choose(struct capture *capture);

/* Loads the probes and arms them. 0 or -errno, said. */
int capture_arm(struct capture *capture);

/*
 * Opens the process's segment when there is one, and lets go of it when exec has replaced it. With hooks a
 * segment that cannot be read is no failure (said, once). 0 or -errno, said.
 */
int capture_follow_segment(struct capture *capture);

/* Takes the open segment to its end and keeps its account. 0 or -errno of the output. */
int capture_close_segment(struct capture *capture);

/* Tells the file the process as it is now: name, command line, clock of its segment. 0 or -errno. */
int capture_declare_process(struct capture *capture);

/* From here on a signal comes through signalfd, or again as it came to the loader before. */
int capture_block_signals(struct capture *capture);
void capture_unblock_signals(struct capture *capture);

#endif
