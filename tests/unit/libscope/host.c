// SPDX-License-Identifier: GPL-2.0-or-later
/* What programs do with themselves, and what must be recorded of it: exact numbers each time. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"

enum { THREADS = 2000, AT_ONCE = 50, JUMPS = 500, FORKS = 20, STRICT = 1000, WHILE_FORKING = 2 };

static struct log open_log(pid_t pid)
{
	struct log log = {.reader = scope_reader_open(pid)};

	cr_assert_not_null(log.reader, "%s", strerror(errno));
	return log;
}

static size_t count_of(const struct log *log, uint8_t kind, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < log->count; i++)
		count += log->records[i].record.kind == kind &&
			 (!name || name_is(&log->records[i].record, name));
	return count;
}

/* ---- threads ---- */

static void *write_one_scope(void *argument)
{
	SCOPE("short life");
	return argument;
}

Test(host, threads_by_the_thousand)
{
	struct log log;

	start_capture(&log, 16, 8192);
	for (int i = 0; i < THREADS; i += AT_ONCE) {
		pthread_t thread[AT_ONCE];

		for (int j = 0; j < AT_ONCE; j++)
			cr_assert_eq(pthread_create(&thread[j], NULL, write_one_scope, NULL), 0);
		for (int j = 0; j < AT_ONCE; j++)
			pthread_join(thread[j], NULL);
	}
	drain_and_check(&log);
	cr_assert_eq(count_of(&log, SCOPE_KIND_THREAD_START, NULL), THREADS);
	cr_assert_eq(count_of(&log, SCOPE_KIND_START, "short life"), THREADS);
	cr_assert_eq(count_of(&log, SCOPE_KIND_STOP, NULL), THREADS);
	cr_assert_eq(log.count, 3 * THREADS);
	cr_assert_eq(log.gaps, 0);
	finish(&log);
}

/* ---- system calls ---- */

/* From here on the thread may read and write its pipes and end; anything else kills. (Not the strict mode,
 * which takes the counter away too.) */
static int forbid_system_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void child_without_system_calls(int from_parent, int to_parent)
{
	{
		SCOPE("makes the segment");
	}
	step(to_parent);
	wait_step(from_parent);
	SCOPE_INSTANT("begins the thread");
	if (forbid_system_calls() != 0)
		_exit(1);
	for (int i = 0; i < STRICT; i++) {
		SCOPE("strict");
		SCOPE_HOT("hot, with a name that takes two records");
		SCOPE_INSTANT("instant");
		SCOPE_THREAD_NAME("strict");
	}
	step(to_parent);
	wait_step(from_parent);
	syscall(SYS_exit_group, 0); /* ASan would do more before it */
}

Test(host, after_its_first_record_a_thread_makes_no_system_call)
{
	struct child child = start_child(child_without_system_calls);
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.gaps, 0);
	cr_assert_eq(count_of(&log, SCOPE_KIND_START, "strict"), STRICT);
	cr_assert_eq(log.count, 2 + 6 * STRICT);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

/* ---- longjmp ---- */

static jmp_buf back;

static void leave_open(void)
{
	SCOPE("left by longjmp");
	{
		SCOPE("left by longjmp");
		{
			SCOPE("left by longjmp");
			longjmp(back, 1);
		}
	}
}

static void jump_out(void)
{
	SCOPE("around");

	if (setjmp(back) == 0)
		leave_open();
}

Test(host, scopes_left_by_longjmp_cost_only_their_stops)
{
	struct log log;

	start_capture(&log, 1, 8192);
	for (int i = 0; i < JUMPS; i++)
		jump_out();
	drain_and_check(&log);
	cr_assert_eq(count_of(&log, SCOPE_KIND_START, "around"), JUMPS);
	cr_assert_eq(count_of(&log, SCOPE_KIND_START, "left by longjmp"), 3 * JUMPS);
	cr_assert_eq(count_of(&log, SCOPE_KIND_STOP, NULL), JUMPS);
	cr_assert_eq(log.count, 1 + 5 * JUMPS);
	/* Each stop is that of the scope around. */
	for (size_t i = 1; i < log.count; i += 5)
		cr_assert_eq(log.records[i + 4].record.scope_id, log.records[i].record.scope_id);
	finish(&log);
}

/* ---- the end of a program: see "exiting" in roles.c ---- */

Test(host, exit_while_others_write_and_scopes_in_exit_handlers)
{
	struct scope_reader_events events;
	struct scope_reader_counts counts;
	struct child child;
	struct log log;

	setenv("SCOPE_CAPTURE", "1", 1);
	setenv("SCOPE_RINGS", "4", 1);
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* its threads are not to be looked into at exit */
	child = start_role("exiting");
	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	events = log_events(&log);
	step(child.to);
	while (!scope_reader_gone(log.reader))
		drain_and_check(&log);
	cr_assert_eq(end_child(&child, 0), 0, "exit status 0");
	drain_and_check(&log);
	cr_assert_eq(scope_reader_write_off(log.reader, &events), 0);
	counts = scope_reader_counts(log.reader);
	cr_assert_eq(counts.cursor, counts.delivered + counts.lost + counts.written_off);
	cr_assert(counts.written_off <= 4, "what its four threads had in hand");
	/* The handlers' thread has no ring to itself: they may be lapped, but then it is said. */
	if (!counts.lost) {
		cr_assert_eq(count_of(&log, SCOPE_KIND_START, "in atexit"), 1);
		cr_assert_eq(count_of(&log, SCOPE_KIND_START, "in a destructor"), 1);
	}
	cr_assert(count_of(&log, SCOPE_KIND_INSTANT, "busy") > 1000);
	finish(&log);
}

/* ---- children ---- */

Test(host, vfork_and_exec_leave_the_parent_as_it_was)
{
	struct log log;
	pid_t pid;

	start_capture(&log, 2, 1024);
	SCOPE_INSTANT("before");
	for (int i = 0; i < FORKS; i++) {
		int status;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
		pid = vfork();
#pragma GCC diagnostic pop
		if (pid == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(127);
		}
		cr_assert_eq(waitpid(pid, &status, 0), pid);
		cr_assert_eq(status, 0);
		SCOPE_INSTANT("after");
	}
	cr_assert_not(scope_reader_gone(log.reader));
	drain_and_check(&log);
	cr_assert_eq(log.count, 2 + FORKS);
	for (size_t i = 0; i < log.count; i++)
		cr_assert_eq(log.records[i].record.tid, (uint32_t)getpid());
	finish(&log);
}

static pid_t spawn_role(void)
{
	static char *const arguments[] = {(char *)"role", NULL};
	pid_t pid = -1;

	cr_assert_eq(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
	return pid;
}

/* posix_spawn is a vfork. The child waits for a step, so its pipes come in its environment. */
Test(host, a_spawned_program_has_a_segment_of_its_own)
{
	char from[16], to[16];
	int down[2], up[2];
	struct log mine, its;
	struct child child;

	start_capture(&mine, 2, 64);
	SCOPE_INSTANT("mine");
	cr_assert(pipe(down) == 0 && pipe(up) == 0);
	snprintf(from, sizeof(from), "%d", down[0]);
	snprintf(to, sizeof(to), "%d", up[1]);
	setenv("LIBSCOPE_ROLE", "first scope", 1);
	setenv("LIBSCOPE_ROLE_FROM", from, 1);
	setenv("LIBSCOPE_ROLE_TO", to, 1);
	setenv("SCOPE_CAPTURE", "1", 1);
	child = (struct child){.pid = spawn_role(), .to = down[1], .from = up[0]};
	wait_step(child.from);
	its = open_log(child.pid);
	drain_and_check(&its);
	cr_assert_eq(its.count, 3);
	cr_assert_eq(count_of(&its, SCOPE_KIND_START, "first"), 1);
	finish(&its);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
	drain_and_check(&mine);
	cr_assert_eq(mine.count, 2);
	finish(&mine);
}

static int forking;

static void *write_while_forking(void *argument)
{
	uint64_t *written = argument;

	while (__atomic_load_n(&forking, __ATOMIC_RELAXED)) {
		SCOPE_INSTANT("of the parent");
		++*written;
		nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
	}
	return NULL;
}

static void forked_while_others_write(int from_parent, int to_parent)
{
	{
		SCOPE("makes the segment");
	}
	step(to_parent);
	wait_step(from_parent);
	{
		SCOPE("of the child");
	}
	step(to_parent);
	wait_step(from_parent);
}

static void check_forked_child(void)
{
	struct child child = start_child(forked_while_others_write);
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3, "its own start, a scope's start and stop, nothing of its parent's");
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(host, forks_while_other_threads_write)
{
	uint64_t written[WHILE_FORKING] = {0}, sum = 0;
	pthread_t thread[WHILE_FORKING];
	struct log log;

	start_capture(&log, 1, 1 << 19);
	forking = 1;
	for (int i = 0; i < WHILE_FORKING; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, write_while_forking, &written[i]), 0);
	for (int i = 0; i < FORKS; i++) {
		check_forked_child();
		drain_and_check(&log);
	}
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
	for (int i = 0; i < WHILE_FORKING; i++) {
		pthread_join(thread[i], NULL);
		sum += written[i];
	}
	drain_and_check(&log);
	cr_assert_eq(log.gaps, 0);
	cr_assert_eq(count_of(&log, SCOPE_KIND_INSTANT, "of the parent"), sum);
	cr_assert_eq(log.count, sum + WHILE_FORKING);
	finish(&log);
}

/* ---- a daemon ---- */

static void be_a_daemon(int from_parent, int to_parent)
{
	pid_t pid;

	setsid();
	pid = fork();
	if (pid != 0)
		_exit(pid < 0);
	for (int descriptor = 0; descriptor < 1024; descriptor++)
		if (descriptor != from_parent && descriptor != to_parent)
			close(descriptor);
	if (chdir("/") != 0)
		_exit(1);
	{
		SCOPE("makes the segment");
	}
	pid = getpid();
	if (write(to_parent, &pid, sizeof(pid)) != sizeof(pid))
		_exit(1);
	wait_step(from_parent);
	{
		SCOPE("of the daemon");
	}
	step(to_parent);
	wait_step(from_parent);
}

/* Closes all it inherited before its first scope; no descriptor of libscope's is among the small ones. */
Test(host, a_daemon_that_forks_twice_and_closes_all)
{
	struct child child = start_child(be_a_daemon);
	struct log log;
	pid_t pid;
	char byte;

	cr_assert_eq(read(child.from, &pid, sizeof(pid)), (ssize_t)sizeof(pid));
	log = open_log(pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(count_of(&log, SCOPE_KIND_START, "of the daemon"), 1);
	step(child.to);
	cr_assert_eq(read(child.from, &byte, 1), 0, "it has ended");
	cr_assert_eq(end_child(&child, 0), 0);
	finish(&log);
}
