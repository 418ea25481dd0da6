/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The command of `record -- COMMAND`. Purpose: a child that waits before exec until the probes are
 * armed, so that its first call is seen. Owner: the command that launched it.
 */
#ifndef SCOPETRACE_RECORD_LAUNCH_H
#define SCOPETRACE_RECORD_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct launch {
	pid_t pid;   /* 0: none was launched, or it has been waited for */
	int go;	     /* write end: closing it or a byte lets the child exec */
	int failure; /* read end: the errno of a failed exec, or end of file when it succeeded */
	int status;  /* as of waitpid(2), once it has ended */
	bool exec_failed;
};

struct launch_plan {
	char *const *argv;
	const sigset_t *mask;	  /* the signal mask that it shall have */
	const char *const *files; /* in which its probes will be */
	size_t file_count;
	bool spare_stdout; /* what it prints goes to stderr: stdout is another's */
};

/*
 * Forks a child that will run plan->argv (looked for in PATH), with SCOPE_CAPTURE=its pid in its
 * environment; signals that we ignore it will ignore too, as after nohup. Until its exec it has the
 * files mapped as code, so that probes in them are screened. 0 or -errno, logged.
 */
int launch_prepare(struct launch *launch, const struct launch_plan *plan);

/* Lets it exec. 0, or the -errno of its exec, logged (it has been waited for then: -ENOENT, -EACCES, -ENOEXEC
 * ...). */
int launch_go(struct launch *launch, char *const *argv);

/* True once it has ended, and `status` is set; never waits. */
bool launch_ended(struct launch *launch);

/* Waits for its end. */
void launch_wait(struct launch *launch);

/* Kills it if it never ran; closes what is open. */
void launch_cancel(struct launch *launch);

/* The exit code that passes its status on: its own, or 128 + the signal that ended it. */
int launch_exit_code(const struct launch *launch);

#endif
