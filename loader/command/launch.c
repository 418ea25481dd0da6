// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* As execvp does, the first of that name in PATH that can be executed; malloc'ed. NULL with errno. */
static char *find_in_path(const char *name)
{
	const char *at = getenv("PATH");
	char *path = NULL;
	int err = ENOENT;

	if (strchr(name, '/'))
		return strdup(name);
	for (at = at ? at : "/usr/local/bin:/usr/bin:/bin"; at;
	     at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		int length = (int)strcspn(at, ":");

		if (asprintf(&path, "%.*s%s%s", length, at, length ? "/" : "", name) < 0)
			return NULL;
		if (access(path, X_OK) == 0)
			return path;
		if (errno == EACCES)
			err = EACCES;
		free(path);
	}
	errno = err;
	return NULL;
}

/*
 * Runs in the child: waits for the word, then becomes the command. From the word on it calls no function that
 * the user may have hooked in libc (read, execve ...): those calls are not the command's.
 */
static void __attribute__((noreturn)) become(int go, int failure, char *const *argv, const sigset_t *mask)
{
	char word = 0, pid[16], *path;
	char *shell[4] = {"sh", NULL, NULL, NULL};
	int err;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("SCOPE_CAPTURE", pid, 1);
	path = find_in_path(argv[0]);
	err = path ? 0 : errno;
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* The loader's end of the pipe closes with the loader: no word means that there will be no capture.
	 */
	while (syscall(SYS_read, go, &word, 1) < 0 && errno == EINTR)
		;
	if (word != 'g')
		_exit(125);
	if (path) {
		syscall(SYS_execve, path, argv, environ);
		err = errno;
	}
	/* A script without #!: execvp gives it to the shell, with its arguments. */
	if (err == ENOEXEC && argv[1] == NULL) {
		shell[1] = path;
		syscall(SYS_execve, "/bin/sh", shell, environ);
	}
	if (write(failure, &err, sizeof(err)) < 0)
		_exit(125);
	_exit(err == ENOENT ? 127 : 126);
}

int launch_prepare(struct launch *launch, char *const *argv, const sigset_t *mask)
{
	int go[2], failure[2];

	*launch = (struct launch){.go = -1, .failure = -1};
	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(failure, O_CLOEXEC)) {
		int err = errno;

		close(go[0]);
		close(go[1]);
		return -err;
	}
	launch->pid = fork();
	if (launch->pid == 0) {
		close(go[1]);
		close(failure[0]);
		become(go[0], failure[1], argv, mask);
	}
	close(go[0]);
	close(failure[1]);
	launch->go = go[1];
	launch->failure = failure[0];
	if (launch->pid < 0) {
		int err = errno;

		log_error("cannot start '%s': fork: %s", argv[0], strerror(err));
		launch->pid = 0;
		launch_cancel(launch);
		return -err;
	}
	return 0;
}

int launch_go(struct launch *launch, char *const *argv)
{
	int err = 0;
	ssize_t got;

	if (write(launch->go, "g", 1) != 1)
		err = errno;
	close_fd(&launch->go);
	do {
		got = read(launch->failure, &err, sizeof(err));
	} while (got < 0 && errno == EINTR);
	close_fd(&launch->failure);
	if (err) {
		log_error("cannot run '%s': %s", argv[0], strerror(err));
		launch->exec_failed = true;
		launch_wait(launch);
	}
	return -err;
}

bool launch_ended(struct launch *launch)
{
	if (launch->pid && waitpid(launch->pid, &launch->status, WNOHANG) == launch->pid)
		launch->pid = 0;
	return !launch->pid;
}

void launch_wait(struct launch *launch)
{
	while (launch->pid) {
		if (waitpid(launch->pid, &launch->status, 0) == launch->pid || errno != EINTR)
			launch->pid = 0;
	}
}

void launch_cancel(struct launch *launch)
{
	close_fd(&launch->go);
	close_fd(&launch->failure);
	launch_wait(launch);
}

int launch_exit_code(const struct launch *launch)
{
	if (WIFSIGNALED(launch->status))
		return 128 + WTERMSIG(launch->status);
	return WEXITSTATUS(launch->status);
}
