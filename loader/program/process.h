/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A running process as /proc shows it. Purpose: pids, threads, names, pid namespaces. One owner; a
 * snapshot unless stated.
 */
#ifndef SCOPETRACE_PROGRAM_PROCESS_H
#define SCOPETRACE_PROGRAM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
	pid_t pid;	     /* of the thread group, in our pid namespace */
	pid_t namespace_pid; /* the same process in its own pid namespace */
	int pidfd;	     /* readable when the process has ended */
	uint64_t start_ns;   /* CLOCK_MONOTONIC; 0 if unknown */
	char comm[17];
	char *command; /* arguments joined by blanks */
};

/*
 * Opens process `pid`. A thread id is resolved to its process, which is logged. 0, or with the
 * failure logged: -ESRCH no such process (or a zombie), -EACCES / -EPERM not ours to look at, -EINVAL
 * pid <= 0 or a kernel thread.
 */
int process_open(pid_t pid, struct process *process);
void process_close(struct process *process); /* takes a zeroed one too */

/* True once it has ended (its last thread, not just its leader). */
bool process_ended(const struct process *process);
bool pidfd_ended(int pidfd); /* the same by its pidfd alone; false for a negative one */

/*
 * Where the stack of its program begins: the kernel chooses it anew at each exec. 0: that cannot be
 * read.
 */
uint64_t process_stack_start(pid_t pid);

/*
 * The name and the arguments (joined by blanks, malloc'ed; the name if there are none) of what
 * process `pid` runs now. 0, or -ESRCH, -ENOMEM ...; logs nothing.
 */
int process_read_name(pid_t pid, char comm[17], char **command);

struct process_thread {
	pid_t tid;	     /* in our pid namespace */
	pid_t namespace_tid; /* in its own */
	uint64_t start_ns;   /* CLOCK_MONOTONIC, to a clock tick (10 ms) */
	char comm[17];
};

/* Its threads now, in a malloc'ed array. 0, -ESRCH when it has ended, -ENOMEM. Logs nothing. */
int process_threads(const struct process *process, struct process_thread **threads, size_t *count);

/*
 * A thread through whose /proc files the process's memory can be seen: the leader, or another when
 * the leader has ended before the rest. 0, -ESRCH, -ENOMEM. Logs nothing.
 */
int process_live_thread(pid_t pid, pid_t *tid);

#endif
