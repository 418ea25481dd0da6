// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "helper.h"
#include "threads.h"

enum { MANY = 64, EIGHT = 8, EACH = 15000 };

static void *write_one_scope(void *argument)
{
	(void)argument;
	SCOPE("one");
	return NULL;
}

static void run_threads(unsigned count, void *(*body)(void *), void *argument)
{
	pthread_t thread[MANY];

	for (unsigned i = 0; i < count; i++)
		cr_assert_eq(pthread_create(&thread[i], NULL, body, argument), 0);
	for (unsigned i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

Test(threads, each_thread_starts_once_and_first)
{
	struct log log;

	start_capture(&log, 3, 1024);
	run_threads(MANY, write_one_scope, NULL);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3 * MANY);
	for (size_t i = 0; i < log.count; i++) {
		const struct scope_record *record = &log.records[i].record;
		size_t before = 0, place = 0;

		for (size_t j = 0; j < i; j++)
			place += log.records[j].record.tid == record->tid;
		for (size_t j = 0; j < log.count; j++)
			before += log.records[j].record.tid == record->tid &&
				  log.records[j].ring != log.records[i].ring;
		cr_assert_eq(before, 0, "a thread on two rings");
		cr_assert_eq(log.records[i].ring, scope_ring_of(record->tid, 3));
		cr_assert_eq(record->kind, place == 0	? SCOPE_KIND_THREAD_START
					   : place == 1 ? SCOPE_KIND_START
							: SCOPE_KIND_STOP);
	}
	finish(&log);
}

Test(threads, copies_of_the_library_agree_on_one_start)
{
	static char copy_a[1 << 13], copy_b;
	struct scope_header *header = own_header();

	cr_assert_not(scope_threads_enter(header, 4194303, copy_a));
	cr_assert(scope_threads_enter(header, 4194303, &copy_b), "begun by the other copy");
	cr_assert_not(scope_threads_enter(header, 4194303, copy_a), "a recycled id");
	/* More ids than the table holds: dead ones are overwritten, and no call is lost in it. */
	for (uint32_t tid = 1; tid < 3 * SCOPE_THREAD_ENTRIES; tid++)
		cr_assert_not(scope_threads_enter(header, tid, copy_a));
	cr_assert_not(scope_threads_enter(header, 4194300, copy_a));
	cr_assert(scope_threads_enter(header, 4194300, &copy_b));
}

static void *write_numbers(void *argument)
{
	(void)argument;
	for (uint64_t i = 0; i < EACH; i++)
		scope_instant((const char *)&i, sizeof(i));
	return NULL;
}

struct sequence {
	uint32_t tid;
	uint64_t next;
};

/* Each thread's numbers rise; with `whole` none is missing. Returns how many there were. */
static uint64_t check_numbers(const struct log *log, bool whole)
{
	struct sequence sequence[MANY] = {0};
	uint64_t numbers = 0;

	for (size_t i = 0; i < log->count; i++) {
		const struct scope_record *record = &log->records[i].record;
		struct sequence *of = sequence;
		uint64_t number;

		if (record->kind != SCOPE_KIND_INSTANT)
			continue;
		while (of->tid && of->tid != record->tid)
			of++;
		of->tid = record->tid;
		cr_assert_eq(record->name_length, sizeof(number));
		memcpy(&number, record->name, sizeof(number));
		cr_assert(whole ? number == of->next : number >= of->next, "thread %u: %llu after %llu",
			  of->tid, (unsigned long long)number, (unsigned long long)of->next);
		cr_assert(number < EACH);
		of->next = number + 1;
		numbers++;
	}
	return numbers;
}

Test(threads, eight_on_one_ring_each_event_delivered_once)
{
	struct log log;

	start_capture(&log, 1, 131072);
	run_threads(EIGHT, write_numbers, NULL);
	drain_and_check(&log);
	cr_assert_eq(check_numbers(&log, true), EIGHT * EACH);
	cr_assert_eq(log.count, EIGHT * EACH + EIGHT);
	cr_assert_eq(log.gaps, 0);
	finish(&log);
}

struct drainer {
	struct log *log;
	int stop;
};

static void *drain_meanwhile(void *argument)
{
	struct drainer *drainer = argument;

	while (!__atomic_load_n(&drainer->stop, __ATOMIC_RELAXED))
		drain_and_check(drainer->log);
	return NULL;
}

static void check_drained_meanwhile(uint32_t slots, bool whole)
{
	struct drainer drainer = {0};
	struct scope_reader_counts counts;
	pthread_t thread;
	struct log log;

	start_capture(&log, 1, slots);
	drainer.log = &log;
	cr_assert_eq(pthread_create(&thread, NULL, drain_meanwhile, &drainer), 0);
	run_threads(EIGHT, write_numbers, NULL);
	__atomic_store_n(&drainer.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	drain_and_check(&log);
	counts = scope_reader_counts(log.reader);
	check_numbers(&log, whole);
	cr_assert_eq(counts.cursor, EIGHT * EACH + EIGHT);
	cr_assert_eq(counts.delivered + counts.lost + counts.written_off + counts.holes, counts.cursor);
	cr_assert_eq(counts.backlog, 0);
	if (whole)
		cr_assert_eq(counts.delivered, counts.cursor);
	finish(&log);
}

Test(threads, drained_while_they_write_each_event_is_delivered_once)
{
	check_drained_meanwhile(131072, true);
}

Test(threads, drained_while_they_lap_the_losses_are_exact_and_nothing_is_torn)
{
	check_drained_meanwhile(64, false);
}

Test(threads, nothing_is_written_while_nobody_records)
{
	struct log log;
	scope_token token;

	start_capture(&log, 1, 64);
	scope_reader_capture(log.reader, 0);
	cr_assert_not(scope_enabled());
	{
		SCOPE("off");
		SCOPE_HOT("off");
		SCOPE_FUNCTION();
		SCOPE_INSTANT("off");
		SCOPE_BEGIN(token, "off");
		cr_assert_eq(token, 0);
		scope_reader_capture(log.reader, LONG_CAPTURE_NS);
		SCOPE_END(token);
	}
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 0, "begun while off, so not ended either");
	SCOPE_BEGIN(token, "on");
	scope_reader_capture(log.reader, 0);
	SCOPE_END(token);
	SCOPE_END(0);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3, "begun while on, so ended");
	cr_assert_eq(log.records[2].record.kind, SCOPE_KIND_STOP);
	finish(&log);
}

static void *touch_errno(void *argument)
{
	(void)argument;
	errno = 77;
	{
		SCOPE("the first of this thread");
		cr_assert_eq(errno, 77);
		SCOPE_HOT("hot");
		SCOPE_INSTANT("instant");
		SCOPE_THREAD_NAME("name");
	}
	cr_assert_eq(errno, 77);
	return NULL;
}

Test(threads, errno_is_left_alone)
{
	struct log log;

	start_capture(&log, 4, 1024);
	run_threads(4, touch_errno, NULL);
	finish(&log);
}

static void handle(int signal)
{
	(void)signal;
	SCOPE("in the handler");
	SCOPE_INSTANT("in it");
}

/* Its first scope may well be the handler's; the handler has a small stack of its own. */
static void *be_interrupted(void *argument)
{
	char small[12288];
	stack_t stack = {.ss_sp = small, .ss_size = sizeof(small)};

	(void)argument;
	cr_assert_eq(sigaltstack(&stack, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		SCOPE("outer");
		{
			SCOPE("inner");
		}
		if (i % 64 == 0)
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
	}
	stack = (stack_t){.ss_flags = SS_DISABLE};
	sigaltstack(&stack, NULL);
	return NULL;
}

/* Every scope that was started was stopped once, by its own thread. A handler's records may overtake what it
 * interrupted. */
static void check_balance(const struct log *log)
{
	uint32_t *started = calloc(131072, sizeof(*started)), *stopped = calloc(131072, sizeof(*stopped));
	size_t starts = 0;

	for (size_t i = 0; i < log->count; i++) {
		const struct scope_record *record = &log->records[i].record;
		uint32_t *by = record->kind == SCOPE_KIND_START ? started : stopped;

		if (record->kind != SCOPE_KIND_START && record->kind != SCOPE_KIND_STOP)
			continue;
		cr_assert(record->scope_id < 131072 && !by[record->scope_id]);
		by[record->scope_id] = record->tid;
		starts += by == started;
	}
	cr_assert(starts > 8 * 2 * 3000, "the handlers' too");
	cr_assert_eq(memcmp(started, stopped, 131072 * sizeof(*started)), 0);
	free(started);
	free(stopped);
}

Test(threads, signal_handlers_may_record_anywhere)
{
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK | SA_RESTART};
	struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	struct log log;

	start_capture(&log, 1, 131072);
	sigaction(SIGALRM, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 4; i++)
		run_threads(2, be_interrupted, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	drain_and_check(&log);
	cr_assert_eq(log.gaps, 0);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	check_balance(&log);
	finish(&log);
}
