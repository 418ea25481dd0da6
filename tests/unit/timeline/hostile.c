// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files made so that what is quick for a real one takes longest. In a time that grows with the
 * square of the records each test would take minutes: the timeouts are for that.
 */
#include "support/capture.h"

#include <criterion/criterion.h>

enum { PID = 100, TID = 101, MANY = 250000, TIMEOUT = 20 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(hostile, .init = begin, .fini = end, .timeout = TIMEOUT);

static int count_scopes(void *context, const struct lane_part *part)
{
	*(size_t *)context += part->scope_count;
	return 0;
}

static void expect(size_t lanes, size_t scopes)
{
	struct timeline *timeline;
	size_t found = 0;

	make_end(&maker, 0, 1ull << 40);
	timeline = timeline_open(maker.path);
	cr_assert(timeline);
	cr_assert_eq(timeline->lane_count, lanes);
	cr_assert(!timeline_visit(timeline, count_scopes, &found));
	cr_assert_eq(found, scopes);
	timeline_close(timeline);
}

static void process_is(uint64_t time, const char *name)
{
	struct process_info info = {.pid = PID, .clock = CLOCK_ID_MONOTONIC, .time_ns = time};

	info.name = make_name(&maker, name);
	cr_assert(!scope_file_writer_process(maker.writer, &info));
}

static void thread_begins(uint32_t tid, uint64_t time)
{
	make_event(&maker, PID, tid, MANUAL_THREAD_START, time, 0, 0, NULL);
}

/* Each change of a process before the one told before. */
Test(hostile, process_changes)
{
	for (uint64_t i = 0; i < MANY; i++)
		process_is(MANY - i, i & 1 ? "a" : "b");
	expect(0, 0);
}

/* The lanes of many threads have their process's name, of which there are many. */
Test(hostile, process_names)
{
	make_function(&maker, "f", "program");
	for (uint64_t i = 0; i < MANY; i++)
		process_is(10 + i, i & 1 ? "a" : "b");
	for (uint32_t i = 1; i <= MANY; i++) {
		make_call(&maker, PID, PID + i, 0, MANY, MANY + 10, 0);
		make_thread(&maker, THREAD_SEEN, PID, PID + i, MANY - 1, MANY, NULL);
	}
	expect(MANY, MANY);
}

/* One tid of many threads, each with a scope. */
Test(hostile, threads_of_one_tid)
{
	process_is(0, "program");
	for (uint64_t i = 0; i < MANY; i++) {
		thread_begins(TID, 100 * i + 10);
		make_complete(&maker, PID, TID, 100 * i + 20, 100 * i + 30, 0, "scope");
	}
	expect(MANY, MANY);
}

/* And each with a name of its own. */
Test(hostile, names_of_one_tid)
{
	process_is(0, "program");
	for (uint64_t i = 0; i < MANY; i++) {
		thread_begins(TID, 100 * i + 10);
		make_event(&maker, PID, TID, MANUAL_THREAD_NAME, 100 * i + 11, 0, 0,
			   i & 1 ? "a" : "b");
		make_event(&maker, PID, TID, MANUAL_INSTANT, 100 * i + 12, 0, 0, "instant");
	}
	expect(MANY, 0);
}

/* The same as the kernel tells it. */
Test(hostile, starts_and_exits_of_one_tid)
{
	make_function(&maker, "f", "program");
	process_is(0, "program");
	for (uint64_t i = 0; i < MANY; i++) {
		make_thread(&maker, THREAD_SEEN, PID, TID, 100 * i + 10, 100 * i + 10,
			    i & 1 ? "a" : "b");
		make_call(&maker, PID, TID, 0, 100 * i + 20, 100 * i + 30, 0);
		make_thread(&maker, THREAD_EXITED, PID, TID, 100 * i + 10, 100 * i + 40, NULL);
	}
	expect(MANY, MANY);
}
