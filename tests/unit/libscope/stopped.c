// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A thread that is stopped in the middle of a record, between its claim and its stamp, by ptrace: for
 * seconds, for good with its process, by an exec, with its leader dead. The real write path, stepped through
 * until the cursor has moved.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "helper.h"

enum { BEFORE = 1000, AFTER = 1000, OTHERS = 60000, SLOTS = 131072, STEPS_MAX = 100000 };
#define STOPPED_NS 2000000000ull

/* Shared with the child. A is the thread that is stopped, B the child's first thread. */
struct stage {
	int a_tid;
	int a_go_on;
	int a_done;
	int b_go;
	int b_done;
	int then; /* what B does at last */
};
enum { THEN_WAIT, THEN_EXEC, THEN_END_ALONE };

static struct stage *stage;

static void await(const int *flag)
{
	while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void raise_flag(int *flag)
{
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE);
}

static void write_numbers(uint64_t from, uint64_t count)
{
	for (uint64_t i = from; i < from + count; i++)
		scope_instant((const char *)&i, sizeof(i));
}

static void *run_a(void *argument)
{
	write_numbers(0, BEFORE);
	__atomic_store_n(&stage->a_tid, (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
	await(&stage->a_go_on);
	write_numbers(BEFORE, AFTER);
	raise_flag(&stage->a_done);
	if (stage->then == THEN_END_ALONE)
		_exit(0);
	return argument;
}

static void child_of_two_threads(int from_parent, int to_parent)
{
	struct scope_options options = {.size = sizeof(options), .rings = 1, .slots_per_ring = SLOTS};
	pthread_t thread;

	if (scope_init(&options) != 0)
		_exit(1);
	step(to_parent);
	wait_step(from_parent);
	if (pthread_create(&thread, NULL, run_a, NULL) != 0)
		_exit(2);
	await(&stage->b_go);
	write_numbers(0, OTHERS);
	raise_flag(&stage->b_done);
	if (stage->then == THEN_EXEC)
		become_role("first scope", from_parent, to_parent);
	if (stage->then == THEN_END_ALONE)
		syscall(SYS_exit, 0);
	pthread_join(thread, NULL);
}

static void wait_stopped(pid_t tid)
{
	int status;

	cr_assert_eq(waitpid(tid, &status, __WALL), tid, "%s", strerror(errno));
	cr_assert(WIFSTOPPED(status), "status %x", (unsigned)status);
}

/* Steps the thread to just behind its next claim. */
static void stop_in_a_record(pid_t tid, const struct log *log)
{
	uint64_t before = scope_reader_counts(log->reader).cursor;

	cr_assert_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0, "%s", strerror(errno));
	cr_assert_eq(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	wait_stopped(tid);
	raise_flag(&stage->a_go_on);
	for (int i = 0; scope_reader_counts(log->reader).cursor == before; i++) {
		cr_assert(i < STEPS_MAX);
		cr_assert_eq(ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL), 0);
		wait_stopped(tid);
	}
	cr_assert_eq(scope_reader_counts(log->reader).cursor, before + 1);
}

/* A child whose thread A is stopped in a record, after B has been let go. */
static struct child start_stopped(struct log *log, int then)
{
	struct child child;

	stage = mmap(NULL, sizeof(*stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(stage, MAP_FAILED);
	stage->then = then;
	child = start_child(child_of_two_threads);
	wait_step(child.from);
	*log = (struct log){.reader = scope_reader_open(child.pid)};
	cr_assert_not_null(log->reader, "%s", strerror(errno));
	scope_reader_capture(log->reader, LONG_CAPTURE_NS);
	step(child.to);
	await(&stage->a_tid);
	drain_and_check(log);
	cr_assert_eq(log->count, BEFORE + 1);
	stop_in_a_record(stage->a_tid, log);
	raise_flag(&stage->b_go);
	return child;
}

/* Both threads' numbers, each in its order and without a gap. */
static void check_all(const struct log *log, uint64_t expected_a)
{
	uint64_t next_a = 0, next_b = 0;

	for (size_t i = 0; i < log->count; i++) {
		const struct scope_record *record = &log->records[i].record;
		uint64_t *next = record->tid == (uint32_t)stage->a_tid ? &next_a : &next_b;
		uint64_t number;

		if (record->kind != SCOPE_KIND_INSTANT)
			continue;
		memcpy(&number, record->name, sizeof(number));
		cr_assert_eq(number, *next);
		++*next;
	}
	cr_assert_eq(next_a, expected_a);
	cr_assert_eq(next_b, OTHERS);
	cr_assert_eq(log->lapped, 0);
}

static void drain_while_stopped(struct log *log)
{
	uint64_t end = clock_monotonic_ns() + STOPPED_NS;

	while (clock_monotonic_ns() < end || !__atomic_load_n(&stage->b_done, __ATOMIC_ACQUIRE)) {
		drain_and_check(log);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	drain_and_check(log);
	check_all(log, BEFORE);
	cr_assert_eq(scope_reader_counts(log->reader).holes, 1);
	cr_assert_eq(scope_reader_counts(log->reader).backlog, 0, "it delays nobody");
}

static bool reader_gone(void *reader)
{
	return scope_reader_gone(reader);
}

Test(stopped, for_seconds_in_a_record_nothing_is_lost)
{
	struct child child;
	struct log log;

	child = start_stopped(&log, THEN_WAIT);
	drain_while_stopped(&log);
	cr_assert_eq(ptrace(PTRACE_DETACH, stage->a_tid, NULL, NULL), 0);
	cr_assert_eq(end_child(&child, 0), 0);
	drain_and_check(&log);
	check_all(&log, BEFORE + AFTER);
	cr_assert_eq(log.gaps, 0);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	finish(&log);
}

static void check_written_off(struct log *log)
{
	struct scope_reader_events events = log_events(log);
	struct scope_reader_counts counts;

	cr_assert(wait_until(reader_gone, log->reader));
	drain_and_check(log);
	cr_assert_eq(scope_reader_counts(log->reader).holes, 1);
	cr_assert_eq(scope_reader_write_off(log->reader, &events), 0);
	counts = scope_reader_counts(log->reader);
	check_all(log, BEFORE);
	cr_assert_eq(log->written_off, 1);
	cr_assert_eq(counts.cursor, counts.delivered + 1);
	cr_assert_eq(counts.delivered, BEFORE + OTHERS + 2, "and a start of each thread");
}

Test(stopped, killed_in_a_record_it_is_written_off_at_once)
{
	struct child child;
	struct log log;

	child = start_stopped(&log, THEN_WAIT);
	await(&stage->b_done);
	kill(child.pid, SIGKILL);
	cr_assert_eq(waitpid(stage->a_tid, NULL, __WALL), stage->a_tid);
	end_child(&child, 0);
	check_written_off(&log);
	finish(&log);
}

Test(stopped, by_an_exec_in_a_record_it_is_written_off_at_once)
{
	struct child child;
	struct log log;

	child = start_stopped(&log, THEN_EXEC);
	cr_assert_eq(waitpid(stage->a_tid, NULL, __WALL), stage->a_tid, "exec ends the other threads");
	wait_step(child.from);
	check_written_off(&log);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(stopped, with_its_leader_dead_it_is_still_waited_for)
{
	struct child child;
	struct log log;

	child = start_stopped(&log, THEN_END_ALONE);
	drain_while_stopped(&log);
	cr_assert_not(scope_reader_gone(log.reader));
	cr_assert_eq(ptrace(PTRACE_DETACH, stage->a_tid, NULL, NULL), 0);
	cr_assert_eq(end_child(&child, 0), 0);
	cr_assert(scope_reader_gone(log.reader));
	drain_and_check(&log);
	check_all(&log, BEFORE + AFTER);
	cr_assert_eq(log.gaps, 0);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	finish(&log);
}
