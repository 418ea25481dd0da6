// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/capability.h"
#include "base/vec.h"

enum { KERNEL_THREAD = 0x00200000 }; /* PF_KTHREAD in the flags of /proc/PID/stat */

/* What /proc/PID/stat holds. */
struct stat_line {
	char state;
	unsigned long flags;
	uint64_t start_ticks; /* since boot */
	uint64_t stack_start; /* 0: not ours to know */
	char comm[17];
};

/* ---- /proc files ---- */

static int read_proc(pid_t pid, pid_t tid, const char *name, char **text)
{
	char path[64];
	size_t length;
	int err;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	err = io_read_file(path, text, &length);
	return err == -ENOENT ? -ESRCH : err;
}

/*
 * The comm stands in parentheses and may hold any byte, parentheses and new lines too: the last ')'
 * ends it.
 */
static bool parse_stat(const char *text, struct stat_line *line)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	unsigned long long start = 0, stack = 0;
	size_t length;

	if (!open || !close || close < open)
		return false;
	length = (size_t)(close - open - 1);
	if (length >= sizeof(line->comm))
		length = sizeof(line->comm) - 1;
	memcpy(line->comm, open + 1, length);
	line->comm[length] = '\0';
	if (sscanf(close + 1,
		   " %c %*d %*d %*d %*d %*d %lu %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu"
		   " %*u %*d %*u %*u %*u %llu",
		   &line->state, &line->flags, &start, &stack) != 4)
		return false;
	line->start_ticks = start;
	line->stack_start = stack;
	return true;
}

static int read_stat(pid_t pid, pid_t tid, struct stat_line *line)
{
	char *text;
	int err = read_proc(pid, tid, "stat", &text);

	if (err)
		return err;
	err = parse_stat(text, line) ? 0 : -ESRCH;
	free(text);
	return err;
}

/* The last number of a line such as "NSpid:\t1234\t7"; 0 if the line is not there. */
static pid_t last_number(const char *status, const char *key)
{
	const char *line = strstr(status, key);
	long number = 0;

	if (!line)
		return 0;
	for (line += strlen(key); *line && *line != '\n';) {
		char *end;
		long found = strtol(line, &end, 10);

		if (end == line)
			break;
		number = found;
		line = end;
		while (*line == ' ' || *line == '\t')
			line++;
	}
	return (pid_t)number;
}

/* Ticks since boot count CLOCK_BOOTTIME, which ran on while the machine was suspended. */
static uint64_t monotonic_of_ticks(uint64_t ticks)
{
	long per_second = sysconf(_SC_CLK_TCK);
	struct timespec boot, monotonic;
	int64_t suspended, ns;

	if (per_second <= 0 || clock_gettime(CLOCK_BOOTTIME, &boot) ||
	    clock_gettime(CLOCK_MONOTONIC, &monotonic))
		return 0;
	suspended = (boot.tv_sec - monotonic.tv_sec) * 1000000000ll +
		    (boot.tv_nsec - monotonic.tv_nsec);
	if (ticks > INT64_MAX / 1000000000ull)
		return 0;
	ns = (int64_t)(ticks * 1000000000ull / (uint64_t)per_second) - suspended;
	return ns > 0 ? (uint64_t)ns : 0;
}

static bool is_dead_state(char state)
{
	return state == 'Z' || state == 'X' || state == 'x';
}

/* ---- threads ---- */

static int read_thread(pid_t pid, pid_t tid, struct process_thread *thread)
{
	struct stat_line line;
	char *status;
	int err = read_stat(pid, tid, &line);

	if (!err && is_dead_state(line.state))
		err = -ESRCH;
	if (!err)
		err = read_proc(pid, tid, "status", &status);
	if (err)
		return err;
	*thread = (struct process_thread){.tid = tid,
					  .namespace_tid = last_number(status, "\nNSpid:")};
	if (!thread->namespace_tid)
		thread->namespace_tid = tid;
	thread->start_ns = monotonic_of_ticks(line.start_ticks);
	memcpy(thread->comm, line.comm, sizeof(thread->comm));
	free(status);
	return 0;
}

static int list_threads(pid_t pid, struct process_thread **threads, size_t *count)
{
	char path[64];
	size_t capacity = 0;
	struct dirent *entry;
	int err = 0;
	DIR *dir;

	*threads = NULL;
	*count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return errno == ENOMEM ? -ENOMEM : -ESRCH;
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		err = vec_grow(threads, &capacity, *count);
		if (err)
			break;
		err = read_thread(pid, (pid_t)strtol(entry->d_name, NULL, 10), &(*threads)[*count]);
		if (err == -ENOMEM)
			break;
		*count += !err; /* a thread that has just ended is none */
		err = 0;
	}
	closedir(dir);
	if (!err && !*count)
		err = -ESRCH;
	if (err) {
		free(*threads);
		*threads = NULL;
		*count = 0;
	}
	return err;
}

int process_threads(const struct process *process, struct process_thread **threads, size_t *count)
{
	return list_threads(process->pid, threads, count);
}

int process_live_thread(pid_t pid, pid_t *tid)
{
	struct process_thread *threads;
	struct stat_line line;
	size_t count;
	int err = read_stat(pid, 0, &line);

	if (!err && !is_dead_state(line.state)) {
		*tid = pid;
		return 0;
	}
	if (err)
		return err;
	err = list_threads(pid, &threads, &count);
	if (err)
		return err;
	*tid = threads[0].tid;
	free(threads);
	return 0;
}

/* ---- opening ---- */

/* 0 and the process that `pid` is, or is a thread of. */
static int resolve_process(pid_t pid, struct process *process)
{
	struct stat_line line;
	char *status;
	pid_t tgid;
	int err = read_proc(pid, 0, "status", &status);

	if (err)
		return err;
	tgid = last_number(status, "\nTgid:");
	free(status);
	process->pid = tgid ? tgid : pid;
	err = read_proc(process->pid, 0, "status", &status);
	if (err)
		return err;
	process->namespace_pid = last_number(status, "\nNSpid:");
	free(status);
	if (!process->namespace_pid)
		process->namespace_pid = process->pid;
	err = read_stat(process->pid, 0, &line);
	if (err)
		return err;
	if (line.flags & KERNEL_THREAD)
		return -EINVAL;
	process->start_ns = monotonic_of_ticks(line.start_ticks);
	memcpy(process->comm, line.comm, sizeof(process->comm));
	return 0;
}

static char *join_arguments(char *text, size_t length)
{
	while (length && !text[length - 1])
		length--;
	for (size_t i = 0; i < length; i++) {
		if (!text[i])
			text[i] = ' ';
	}
	return text;
}

/* Of a live thread: a leader that has ended has no memory left, and so no arguments. */
static int read_command(pid_t tid, struct process *process)
{
	char path[64];
	size_t length;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", tid);
	err = io_read_file(path, &process->command, &length);
	if (err)
		return err == -ENOENT ? -ESRCH : err;
	process->command = join_arguments(process->command, length);
	if (process->command[0])
		return 0;
	free(process->command);
	process->command = strdup(process->comm);
	return process->command ? 0 : -ENOMEM;
}

int process_read_name(pid_t pid, char comm[17], char **command)
{
	struct process now = {0};
	struct stat_line line;
	pid_t tid;
	int err = read_stat(pid, 0, &line);

	if (!err)
		err = process_live_thread(pid, &tid);
	if (err)
		return err;
	memcpy(now.comm, line.comm, sizeof(now.comm));
	err = read_command(tid, &now);
	if (err)
		return err;
	memcpy(comm, now.comm, sizeof(now.comm));
	*command = now.command;
	return 0;
}

/* Whether its memory may be looked at, which is what all the rest needs. */
static int check_access(pid_t tid)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	close(fd);
	return 0;
}

static int open_resolved(pid_t pid, struct process *process)
{
	pid_t tid;
	int err = resolve_process(pid, process);

	if (!err)
		err = process_live_thread(process->pid, &tid);
	if (!err)
		err = check_access(tid);
	if (!err)
		err = read_command(tid, process);
	if (err)
		return err;
	process->pidfd = (int)syscall(SYS_pidfd_open, process->pid, 0);
	if (process->pidfd < 0)
		return -errno;
	/*
	 * Had the number been given to another process meanwhile, the descriptor would now be the
	 * other's.
	 */
	return process_ended(process) ? -ESRCH : 0;
}

static void log_failure(pid_t pid, int err)
{
	switch (err) {
	case -ESRCH:
		if (!kill(pid, 0) || errno == EPERM)
			log_error(
				"process %d has ended, and waits for its parent to take note (a zombie): nothing is "
				"left of it to look at",
				pid);
		else
			log_error(
				"there is no process %d (or it has ended); `ps -e` lists what runs",
				pid);
		break;
	case -EINVAL:
		log_error(
			"%d is %s", pid,
			pid > 0 ? "a kernel thread: it has no program whose functions could be seen"
				: "not a process id: those are greater than 0");
		break;
	case -EACCES:
	case -EPERM:
		log_error("process %d is not yours to look at: %s", pid, right_to_look());
		break;
	default:
		log_error("cannot look at process %d: %s", pid, strerror(-err));
	}
}

int process_open(pid_t pid, struct process *process)
{
	int err;

	*process = (struct process){.pidfd = -1};
	err = pid > 0 ? open_resolved(pid, process) : -EINVAL;
	if (err) {
		log_failure(pid, err);
		process_close(process);
		return err;
	}
	if (process->pid != pid)
		log_info("%d is a thread of process %d (%s), which is taken as a whole", pid,
			 process->pid, process->comm);
	return 0;
}

void process_close(struct process *process)
{
	/* A zeroed one owns nothing: descriptor 0 is no pidfd of ours then. */
	if (process->pid && process->pidfd >= 0)
		close(process->pidfd);
	free(process->command);
	*process = (struct process){.pidfd = -1};
}

bool process_ended(const struct process *process)
{
	return pidfd_ended(process->pidfd);
}

bool pidfd_ended(int pidfd)
{
	struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};

	return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLIN | POLLHUP));
}

uint64_t process_stack_start(pid_t pid)
{
	struct stat_line line;

	return read_stat(pid, 0, &line) ? 0 : line.stack_start;
}
