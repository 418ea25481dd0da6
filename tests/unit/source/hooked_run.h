/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One small traced program, hooked for real. Purpose: a test says which program and which
 * functions, and gets what the kernel delivered beside what the program itself says it did. Needs
 * root.
 */
#ifndef SCOPETRACE_TESTS_HOOKED_RUN_H
#define SCOPETRACE_TESTS_HOOKED_RUN_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/scope_event.h"
#include "probe/attach.h"
#include "source/bpf_source.h"
#include "event/event.h"

#define RUN_FUNCTIONS 8

/* A program of tests/targets that waits for its go line (or, before its exec, for target_exec). */
struct target {
	pid_t pid;
	int input;  /* a line here starts it */
	int output; /* what it prints */
	int gate;   /* closing it lets it exec; -1: it has */
	char path[512];
	char text[1024]; /* all it printed, once it ended */
	int status;
};

/* An event_output that keeps what it gets. */
struct tally {
	struct event_output output;
	struct hooked_scope *scopes;
	size_t scope_count;
	size_t scope_capacity;
	struct thread_info *threads;
	size_t thread_count;
	size_t thread_capacity;
	char (*names)[32];
	size_t name_count;
	size_t name_capacity;
	uint64_t lost;
	size_t losses;
	size_t forks; /* children told of, whose parent is `fork_parent` */
	uint32_t fork_parent;
	size_t execs; /* the last one's: */
	uint32_t exec_pid, exec_former;
	int fail_after;	  /* calls of hooked() that succeed before one fails with -EIO; -1: all */
	bool unannounced; /* a scope came before the first record of its thread */
};

struct hooked_run {
	const char *functions[RUN_FUNCTIONS];
	size_t function_count;
	struct probe_session *session;
	struct source *source;
	struct tally tally;
};

/* Skips the test that calls it unless it runs as root. */
void need_root(void);

/* Forks and execs the program (of the targets, if it is no path) with --wait-go and the arguments (NULL at the
 * end) behind its name; waits for its pid line. */
void target_start(struct target *target, const char *const *arguments);
/* Forks it, but it waits before exec; no --wait-go. */
void target_fork(struct target *target, const char *const *arguments);
void target_go(struct target *target);
bool target_ended(struct target *target); /* reaps it; its text is read */
void target_kill(struct target *target);
/* What its truth line says of a function; false if it does not name it. */
bool target_truth(const struct target *target, const char *function, uint64_t *entries,
		  uint64_t *returns);

/* Opens a session and a source. `functions` are names, NULL at the end. */
void run_open(struct hooked_run *run, const char *const *functions,
	      const struct probe_options *options);
void run_attach(struct hooked_run *run, const struct target *target);
/* Lets the target go and drains until it has ended. */
void run_until_end(struct hooked_run *run, struct target *target);
void run_drain(struct hooked_run *run);
/* Detaches, finishes. */
void run_finish(struct hooked_run *run);
void run_close(struct hooked_run *run);

/* Start to end, for one target that runs to its end; the caller closes. */
void run_whole(struct hooked_run *run, struct target *target, const char *const *arguments,
	       const char *const *functions, const struct probe_options *options);

struct function_accounting run_account(const struct hooked_run *run, const char *function);
/* Delivered scopes of a function that carry all of `flags` and none of `without`. */
uint64_t run_delivered(const struct hooked_run *run, const char *function, uint16_t flags,
		       uint16_t without);
/* Records of threads of that kind. */
size_t run_threads(const struct hooked_run *run, enum thread_change change);

/*
 * Keys that hold a slot, in either map, of any thread. Of the first that is found, unless NULL: the
 * key and the slot.
 */
size_t run_slots(const struct hooked_run *run, struct open_key *key, struct open_slot *slot);

/* Every identity for every function, that no scopes cross, and that each scope is of the target. */
void run_check(const struct hooked_run *run);

#endif
