// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/process.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "support/program.h"

Test(process, is_opened_with_what_proc_says)
{
	struct running running = running_start(target_path("alias"));
	struct process process;

	cr_assert_eq(process_open(running.pid, &process), 0);
	cr_assert_eq(process.pid, running.pid);
	cr_assert_eq(process.namespace_pid, running.pid);
	cr_assert_str_eq(process.comm, "alias");
	cr_assert_not_null(strstr(process.command, "alias --wait-go"), "%s", process.command);
	/* It started after the machine and before now, and not more than a minute ago. */
	cr_assert_gt(process.start_ns, 0);
	cr_assert_lt(process.start_ns, io_now_ns());
	cr_assert_lt(io_now_ns() - process.start_ns, 60000000000ull);
	cr_assert_not(process_ended(&process));
	running_stop(&running);
	cr_assert(process_ended(&process));
	process_close(&process);
	process_close(&(struct process){0});
}

static void *wait_forever(void *tid)
{
	__atomic_store_n((pid_t *)tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (;;)
		pause();
	return NULL;
}

static bool is_set(void *tid)
{
	return __atomic_load_n((pid_t *)tid, __ATOMIC_ACQUIRE) != 0;
}

static pid_t start_thread(void)
{
	static pid_t tid;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, wait_forever, &tid), 0);
	wait_until(is_set, &tid);
	return tid;
}

Test(process, a_thread_stands_for_its_process_and_that_is_said)
{
	struct process_thread *threads;
	struct process process;
	pid_t tid = start_thread();
	bool found = false;
	size_t count;

	keep_messages();
	cr_assert_eq(process_open(tid, &process), 0);
	cr_assert_eq(process.pid, getpid());
	cr_assert_not_null(strstr(messages(), "is a thread of process"), "%s", messages());
	cr_assert_eq(process_threads(&process, &threads, &count), 0);
	cr_assert_geq(count, 2);
	for (size_t i = 0; i < count; i++)
		found |= threads[i].tid == tid && threads[i].namespace_tid == tid &&
			 threads[i].start_ns;
	cr_assert(found);
	free(threads);
	process_close(&process);
}

Test(process, names_may_hold_anything)
{
	struct process_thread *threads;
	struct process process;
	size_t count;

	cr_assert_eq(prctl(PR_SET_NAME, ") S 1 (\n) x"), 0);
	cr_assert_eq(process_open(getpid(), &process), 0);
	cr_assert_str_eq(process.comm, ") S 1 (\n) x");
	cr_assert_eq(process_threads(&process, &threads, &count), 0);
	cr_assert_str_eq(threads[0].comm, ") S 1 (\n) x");
	cr_assert_gt(threads[0].start_ns, 0);
	free(threads);
	process_close(&process);
}

static pid_t fork_and_exit(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_gt(pid, 0);
	return pid;
}

Test(process, one_that_is_gone_is_told_so)
{
	struct process process;
	siginfo_t info;
	pid_t pid = fork_and_exit();

	keep_messages();
	/* A zombie first: ended, and not yet reaped. */
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_assert_eq(process_open(pid, &process), -ESRCH);
	cr_assert_not_null(strstr(messages(), "has ended, and waits for its parent"), "%s",
			   messages());
	waitpid(pid, NULL, 0);
	cr_assert_eq(process_open(pid, &process), -ESRCH);
	cr_assert_not_null(strstr(messages(), "there is no process"), "%s", messages());
	process_close(&process);
}

Test(process, what_is_no_process_is_refused)
{
	struct process process;
	FILE *comm = fopen("/proc/2/comm", "r");
	char name[32] = "";

	keep_messages();
	cr_assert_eq(process_open(0, &process), -EINVAL);
	cr_assert_eq(process_open(-7, &process), -EINVAL);
	cr_assert_not_null(strstr(messages(), "not a process id"), "%s", messages());
	if (comm && fgets(name, sizeof(name), comm) && strcmp(name, "kthreadd\n") == 0) {
		cr_assert_eq(process_open(2, &process), -EINVAL);
		cr_assert_not_null(strstr(messages(), "kernel thread"), "%s", messages());
	}
	if (comm)
		fclose(comm);
}

Test(process, one_of_another_user_needs_rights)
{
	struct process process;
	pid_t pid, parent = getpid();
	int status;

	if (getuid() != 0)
		cr_skip_test("needs root to become another user");
	pid = fork();
	if (!pid) {
		keep_messages();
		if (setgid(65534) || setuid(65534))
			_exit(2);
		_exit(process_open(parent, &process) == -EACCES && strstr(messages(), "not yours")
			      ? 0
			      : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static bool is_zombie(void *context)
{
	char path[64], *text;
	size_t length;
	bool zombie;

	snprintf(path, sizeof(path), "/proc/%d/stat", *(pid_t *)context);
	if (io_read_file(path, &text, &length))
		return false;
	zombie = strstr(text, ") Z ") != NULL;
	free(text);
	return zombie;
}

Test(process, lives_while_one_thread_lives)
{
	struct process_thread *threads;
	struct symbol_table table;
	struct process process;
	size_t count;
	pid_t pid = fork();

	if (!pid) {
		start_thread();
		syscall(SYS_exit, 0); /* the leader alone */
	}
	wait_until(is_zombie, &pid);
	cr_assert_eq(process_open(pid, &process), 0);
	cr_assert_not(process_ended(&process));
	cr_assert_neq(process.command[0], '\0');
	cr_assert_eq(process_threads(&process, &threads, &count), 0);
	cr_assert_eq(count, 1);
	cr_assert_neq(threads[0].tid, pid);
	free(threads);
	cr_assert_eq(symbol_table_of_process(pid, false, &table), 0);
	cr_assert_not_null(find_function(&table, NULL, "main"));
	symbol_table_close(&table);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	cr_assert(process_ended(&process));
	cr_assert_eq(process_threads(&process, &threads, &count), -ESRCH);
	process_close(&process);
}

Test(process, has_a_pid_of_its_own_in_its_namespace)
{
	struct process_thread *threads;
	struct process process;
	size_t count;
	pid_t pid;

	if (unshare(CLONE_NEWPID))
		cr_skip_test("needs root to make a pid namespace");
	pid = fork();
	if (!pid) {
		for (;;)
			pause();
	}
	cr_assert_eq(process_open(pid, &process), 0);
	cr_assert_eq(process.pid, pid);
	cr_assert_eq(process.namespace_pid, 1);
	cr_assert_eq(process_threads(&process, &threads, &count), 0);
	cr_assert_eq(threads[0].tid, pid);
	cr_assert_eq(threads[0].namespace_tid, 1);
	free(threads);
	process_close(&process);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}
