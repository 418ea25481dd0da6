// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

/* With errno if not; a folder is none. */
static bool is_program(const char *path)
{
	struct stat status;

	if (access(path, X_OK) || stat(path, &status))
		return false;
	errno = EACCES;
	return S_ISREG(status.st_mode);
}

/*
 * As execvp does, the first of that name in PATH that can be executed; malloc'ed. NULL with errno.
 */
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
		if (is_program(path))
			return path;
		if (errno == EACCES)
			err = EACCES;
		free(path);
	}
	errno = err;
	return NULL;
}

/*
 * Maps the files to be probed as code: the kernel then screens each probe site as it does in a
 * running process, where before exec it would pass over those that it cannot probe without a word.
 * Gone with the exec.
 */
static void map_files(const char *const *files, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int fd = open(files[i], O_RDONLY | O_CLOEXEC);
		struct stat status;

		if (fd < 0)
			continue;
		if (fstat(fd, &status) == 0 && status.st_size > 0)
			mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd,
			     0);
		close(fd);
	}
}

/* A script without #! goes to the shell, with its arguments, as execvp does it. */
static char **shell_arguments(char *path, char *const *argv)
{
	size_t count = 0;
	char **shell;

	while (argv[count])
		count++;
	shell = calloc(count + 2, sizeof(*shell));
	if (!shell)
		return NULL;
	shell[0] = "sh";
	shell[1] = path;
	for (size_t i = 1; i < count; i++)
		shell[i + 1] = argv[i];
	return shell;
}

/*
 * Runs in the child: waits for the word, then becomes the command. From the word on it calls no
 * function of libc that the user may have hooked (read, execve ...) but syscall(): those calls are
 * not the command's.
 */
static void __attribute__((noreturn)) become(int go, int failure, const struct launch_plan *plan)
{
	char word = 0, pid[16], *path, **shell;
	int err, ready = 0;

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	setenv("SCOPE_CAPTURE", pid, 1);
	path = find_in_path(plan->argv[0]);
	err = path ? 0 : errno;
	shell = shell_arguments(path, plan->argv);
	map_files(plan->files, plan->file_count);
	if (plan->spare_stdout)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	sigprocmask(SIG_SETMASK, plan->mask, NULL);
	if (write(failure, &ready, sizeof(ready)) < 0)
		_exit(125);
	/*
	 * The loader's end of the pipe closes with the loader: no word means that there will be no
	 * capture.
	 */
	while (syscall(SYS_read, go, &word, 1) < 0 && errno == EINTR)
		;
	if (word != 'g')
		_exit(125);
	if (path) {
		syscall(SYS_execve, path, plan->argv, environ);
		err = errno;
	}
	if (err == ENOEXEC && shell)
		syscall(SYS_execve, "/bin/sh", shell, environ);
	if (write(failure, &err, sizeof(err)) < 0)
		_exit(125);
	_exit(err == ENOENT ? 127 : 126);
}

/* The child's errno, or 0 when it closed its end. */
static int read_errno(int fd)
{
	int err = 0;
	ssize_t got;

	do {
		got = read(fd, &err, sizeof(err));
	} while (got < 0 && errno == EINTR);
	return err;
}

int launch_prepare(struct launch *launch, const struct launch_plan *plan)
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
		become(go[0], failure[1], plan);
	}
	close(go[0]);
	close(failure[1]);
	launch->go = go[1];
	launch->failure = failure[0];
	if (launch->pid < 0) {
		int err = errno;

		log_error("cannot start '%s': fork: %s", plan->argv[0], strerror(err));
		launch->pid = 0;
		launch_cancel(launch);
		return -err;
	}
	/* Until it is ready: its files are mapped. */
	read_errno(launch->failure);
	return 0;
}

int launch_go(struct launch *launch, char *const *argv)
{
	int err = 0;

	if (write(launch->go, "g", 1) != 1)
		err = errno;
	close_fd(&launch->go);
	if (!err)
		err = read_errno(launch->failure);
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
