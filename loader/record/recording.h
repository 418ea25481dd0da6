/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One capture from arming to the last line. Purpose: what `record` does once its options are
 * parsed. Owner: the thread that runs it, which writes the file; while it runs two more drain the
 * sources, and one looks at the files that the process maps (capture_run.c); what belongs to those
 * is said below. Invariant: whatever way it ends, capture_close leaves no probe, no open segment
 * and no child that never ran.
 *
 * capture.c opens and closes, capture_hooks.c chooses and arms (plan/plan.h), capture_segment.c
 * follows the process's segments, capture_lifecycle.c its forks and execs, capture_run.c is the
 * loop, capture_flight.c what a flight recorder adds to it, capture_finish.c the end and its
 * account.
 */
#ifndef SCOPETRACE_RECORD_RECORDING_H
#define SCOPETRACE_RECORD_RECORDING_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "record/drain_thread.h"
#include "record/launch.h"
#include "record/relay.h"
#include "probe/attach.h"
#include "source/source.h"
#include "plan/plan.h"
#include "program/lease.h"
#include "program/process.h"
#include "file/output.h"
#include "file/writer.h"
#include "record/trigger.h"

/* Of --trigger: the name and the time are parts of its text. */
struct capture_trigger {
	const char *text, *name;
	size_t length; /* of the name */
	uint64_t longer_than_ns;
};

/* const once parsed */
struct capture_options {
	pid_t pid;		  /* of -p; 0 with a command */
	char *const *command;	  /* of --; NULL with a pid */
	struct plan_options plan; /* what is hooked: of -f, -N, --returns ... */
	const char *output;
	uint64_t duration_ns; /* 0: until it ends or Ctrl-C */
	uint64_t minimum_ns;
	uint64_t ring_bytes;   /* 0: the default */
	uint64_t buffer_bytes; /* of each hand-off; 0: the default */
	uint64_t flight_ns;    /* the window of the flight recorder; 0: all is kept */
	uint64_t flight_bytes; /* its memory; 0: the default */
	const struct capture_trigger *triggers;
	size_t trigger_count;
	int ready_fd; /* -1: none */
	int compress; /* level of zlib for the file, 1 to 9; 0: none */
	bool json;
	int argc; /* of the whole program, for the file's header */
	char *const *argv;
};

/* The segments of the process, one after another where it runs other programs by exec. */
struct capture_segments {
	struct source *source; /* of the present one; NULL: there is none (yet) */
	bool refused;	       /* there is one that cannot be read */
	/* a program that has just begun will make its segment any moment */
	uint64_t young_until_ns;
	uint64_t look_ns;     /* not before then, so that looking stays cheap */
	uint64_t lost_before; /* events discarded before the present one was opened */
	/* of the events that are lost: before we came, as nobody read them */
	uint64_t overwritten;
	struct segment_accounting *done; /* of those that are over */
	size_t done_count, done_capacity;
	struct hash_map tids; /* own-namespace tid -> ours, where the process has a pid namespace */
	uint64_t list_ns;     /* when its threads may be listed again */
};

/* The process runs another program. */
struct capture_exec {
	pid_t pid;
	pid_t former; /* tid, until then, of the thread that asked for it */
	uint64_t time_ns;
	char comm[17];
};

/* What is told while draining, until it is followed. */
struct capture_lifecycle {
	pthread_mutex_t lock; /* for execs; drain and write need not be one thread */
	/* while the session's links are made anew; who drains does not wait for it */
	pthread_mutex_t hooking;
	struct capture_exec *execs;
	size_t count, capacity;
	uint64_t forks;	   /* of the process, as far as they were told */
	bool over;	   /* the probes are being closed: forks are followed no more */
	bool seen;	   /* one before */
	uint64_t named_ns; /* since when the process has its present name; 0: since its start */
	/*
	 * of the program that runs, as far as execs were followed, and at first of that whose
	 * functions were chosen; 0: not known
	 */
	uint64_t stack;
	bool changed; /* the last look found another one */
};

/* What a thread of its own drains, and how that gets to the file. */
struct capture_stream {
	struct relay *relay;
	struct drainer drainer;
};

struct flight;

/* --flight: what takes the place of the file until that is written. */
struct capture_flight {
	struct flight *recorder;
	struct trigger *trigger; /* in front of it; NULL: none */
	uint64_t asked_ns;	 /* when a snapshot was asked for, */
	uint64_t due_ns;	 /* when it is to be written; 0: none is */
	char why[320];
	struct trigger_call slow; /* the first of the slow calls, */
	uint64_t waiting;	  /* so many, that are in no file yet */
	uint64_t quiet_until_ns;  /* they ask for one then, not before */
	bool slow_asked;	  /* they did */
	uint64_t unheeded;	  /* slow calls that are in a file that others asked for */
	unsigned snapshots;	  /* written, or tried */
};

struct capture {
	const struct capture_options *options;
	struct process process; /* the target */
	bool opened;		/* process is */
	struct launch launch;
	bool time_is_up; /* --duration has passed */
	bool over;	 /* it has, or a signal came, or the process has ended */
	bool stopped;	 /* nothing more is captured, since end_ns */
	int stop_error;	 /* of that: the first, or 0 */
	uint64_t end_ns;
	struct plan plan;	 /* with -f */
	struct lease_set leases; /* on the files of its functions, as long as they are hooked */
	bool rewritten;	      /* one of them was to be written to: the capture has ended for that */
	uint64_t followed_ns; /* when what is done each second to follow it was last done */
	struct probe_session *session;
	struct source *hooked;		    /* NULL without -f */
	struct capture_lifecycle lifecycle; /* with `hooked` */
	struct capture_segments segments;
	struct capture_stream calls; /* of `hooked`, without which it has no relay */
	/*
	 * of `segments`; its thread also follows what becomes of the process: while it runs
	 * `process`, `lifecycle` and `segments` are its own
	 */
	struct capture_stream events;
	/*
	 * with `session`; looks at the files that the process maps: while it runs `plan` is its
	 * own, but for `functions` and `count`, which do not change
	 */
	struct drainer watcher;
	struct capture_flight flight;
	struct scope_file_output stream; /* -o, if it is one, until the writer has it */
	/* with a flight recorder: of what is written at the end */
	struct scope_file_writer *writer;
	bool replaced; /* an older file of this name is now FILE.old */
	sigset_t old_mask;
	bool blocked; /* signals are, and come through `signals` */
	int signals;  /* signalfd */
	uint64_t start_ns;
	uint64_t tended_ns; /* when the work of each second was last done */
};

/*
 * Opens the target, checks that hooking it is safe and possible, loads and arms the probes, opens
 * its segment and the file, says `armed N of N functions in pid P`, and starts the command. 0 or
 * -errno, logged; call capture_close in any case.
 */
int capture_open(struct capture *capture, const struct capture_options *options);

/*
 * Runs until the target's end, the duration, or a signal. 0, or -errno of a source or of the file,
 * logged.
 */
int capture_run(struct capture *capture);

/*
 * Closes the probes, takes what remains, writes accounts and footer, prints the closing line. 0,
 * -errno of the file, or -EBADMSG when the numbers do not add up (logged). Does nothing when no file
 * was opened.
 */
int capture_finish(struct capture *capture);

/*
 * Its first half: nothing more is captured. Once; later calls only tell again how it went: 0 or
 * -errno.
 */
int capture_stop(struct capture *capture);

/* Frees and closes everything, in whatever state; waits for the command's end (having ended it if its time is
 * up). */
void capture_close(struct capture *capture);

/* ---- between these files ---- */

/* Chooses the functions, refuses what hooking could kill. 0 or -errno, logged. */
int capture_choose(struct capture *capture);

/*
 * Each second, by a thread of its own, as reading a large file takes long: looks whether the
 * process has mapped other files since, and if one of them makes uretprobes dangerous sees the
 * returns otherwise from then on (logged). 0 or -errno, logged; the old probes then stay.
 */
int capture_watch_modules(struct capture *capture);

/*
 * Looks whether the probes are in the memory of the process (plan/text_check.h); what is not reached is
 * logged once. 0, -ENXIO if nothing is, -ENOMEM. One thread at a time.
 */
int capture_verify(struct capture *capture);

/* Logs the file that is to be written to under its probes, if there is one. True if so. */
bool capture_lost_lease(const struct capture *capture);

/* Loads the probes and arms them. 0 or -errno, logged. */
int capture_arm(struct capture *capture);

/*
 * Opens the process's segment when there is one, and lets go of it when exec has replaced it. With
 * hooks a segment that cannot be read is no failure (logged, once). 0 or -errno, logged.
 */
int capture_follow_segment(struct capture *capture);

/* Takes the open segment to its end and keeps its account. 0 or -errno of the output. */
int capture_close_segment(struct capture *capture);

/* Before the first drain: forks and execs are followed from there on. */
void capture_tell_lifecycle(struct capture *capture);

/*
 * After a drain: tells the file the names of new programs, and hooks them where that is lost. 0 or
 * -errno.
 */
int capture_follow_lifecycle(struct capture *capture);
void capture_close_lifecycle(struct capture *capture);

/*
 * Each second: looks for an exec or a fork that was not told, as the ring had no room. 0 or -errno.
 */
int capture_watch_program(struct capture *capture);

/*
 * The process may have another name and other arguments, since `time_ns`: tells the file. 0 or
 * -errno.
 */
int capture_read_name(struct capture *capture, uint64_t time_ns);

/* Forks are followed no more: the probes are about to be closed. */
void capture_end_lifecycle(struct capture *capture);

/*
 * Tells the file the process as it is now: name, command line, clock of its segment. 0 or -errno.
 */
int capture_declare_process(struct capture *capture);

/* ---- the flight recorder; each does nothing without one ---- */

/* When the functions are chosen: makes it. 0 or -errno, logged. */
int capture_open_flight(struct capture *capture);
void capture_close_flight(struct capture *capture);

/* Where the relays put what they take: the file, or the flight recorder. */
struct event_output *capture_sink(struct capture *capture);

/* A file of the window up to now is written in a moment. With a flight recorder only. */
void capture_ask_snapshot(struct capture *capture, const char *why);

/*
 * Lets go of what is too old, looks for slow calls, writes the snapshot that is due. 0 or -ENOMEM.
 */
int capture_tend_flight(struct capture *capture, uint64_t now_ns);

/* How long the loop may sleep: `longest`, or until a snapshot is due. */
uint64_t capture_flight_pause_ns(const struct capture *capture, uint64_t now_ns, uint64_t longest);

/* The capture is about to end: the window moves no further. */
void capture_hold_flight(struct capture *capture);

/* Puts the window into the file; its start is *start_ns. 0 or -errno of the file. */
int capture_write_flight(struct capture *capture, uint64_t *start_ns, uint64_t end_ns);

/*
 * Let go of: calls of a function; events, taken out of the accounts of the segments that are over.
 */
uint64_t capture_expired_calls(const struct capture *capture, uint32_t function);
void capture_share_expired_events(struct capture *capture);

/* Takes some of what the relays hold. 1 if there was something, 0, or -errno of the sink. */
int capture_take(struct capture *capture);

/* The file takes nothing: a pipe that nobody reads, a slow disk; while the thread that writes waits in the
 * kernel, this is called by another. What is to end ends all the same; the rest waits. */
void capture_while_stalled(void *capture);

/* From here on a signal comes through signalfd, or again as it came to the loader before: to this thread,
 * that is, and so to the process. */
int capture_block_signals(struct capture *capture);
void capture_unblock_signals(struct capture *capture);

#endif
