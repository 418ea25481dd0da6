// SPDX-License-Identifier: GPL-2.0-or-later
/* Whose events they are: threads, recycled tids, processes, names. */
#include "support/capture.h"

#include <string.h>

#include <criterion/criterion.h>

enum { PID = 100, TID = 101 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	make_function(&maker, "f", "program");
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(lane, .init = begin, .fini = end);

static void call(uint64_t start, uint64_t stop)
{
	make_call(&maker, PID, TID, 0, start, stop, 0);
}

static void thread_start(uint64_t time)
{
	make_event(&maker, PID, TID, MANUAL_THREAD_START, time, 0, 0, NULL);
}

static void manual(uint64_t start, uint64_t stop, uint64_t id)
{
	make_start(&maker, PID, TID, start, id, "m");
	make_stop(&maker, PID, TID, stop, id);
}

static void expect_lane(const struct timeline *timeline, size_t n, uint64_t start, uint64_t stop,
			const char *text)
{
	const struct lane *lane = lane_of(timeline, PID, TID, n);

	cr_assert_eq(lane->start_ns, start, "lane %zu starts at %llu", n,
		     (unsigned long long)lane->start_ns);
	cr_assert_eq(lane->end_ns, stop, "lane %zu ends at %llu", n,
		     (unsigned long long)lane->end_ns);
	cr_assert_str_eq(lane_text(timeline, lane), text, "lane %zu:\n%s", n,
			 lane_text(timeline, lane));
}

Test(lane, recycled_as_the_kernel_tells)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 200, 210, "second");
	make_thread(&maker, THREAD_SEEN, PID, TID, 50, 60, "first");
	call(220, 230);
	call(60, 70);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	expect_lane(timeline, 0, 50, 0, "f 60-70\n");
	expect_lane(timeline, 1, 200, 0, "f 220-230\n");
	cr_assert_str_eq(timeline->names[timeline->lanes[0].name], "first");
	cr_assert_str_eq(timeline->names[timeline->lanes[1].name], "second");
	timeline_close(timeline);
}

/* A scope of the dead thread that was never stopped does not reach into the life of the next. */
Test(lane, recycled_as_the_segment_tells)
{
	struct timeline *timeline;

	thread_start(50);
	make_start(&maker, PID, TID, 60, 1, "open");
	thread_start(100);
	manual(110, 120, 2);
	make_stop(&maker, PID, TID, 130, 1);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	expect_lane(timeline, 0, 50, 0, "open 60-1000 unfinished\n");
	expect_lane(timeline, 1, 100, 0, "m 110-120\n");
	cr_assert_eq(timeline->accounting.manual_orphans, 1);
	timeline_close(timeline);
}

/* The kernel saw it begin at 50, its first manual record is of 80: one thread. */
Test(lane, first_manual_record_of_a_known_thread)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 50, 60, NULL);
	call(60, 70);
	thread_start(80);
	manual(90, 95, 1);
	call(88, 97);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 1);
	expect_lane(timeline, 0, 50, 0,
		    "f 60-70\n"
		    "f 88-97\n"
		    " m 90-95\n");
	timeline_close(timeline);
}

/*
 * The same without the kernel's word: a call before the first manual record is no other thread's.
 */
Test(lane, first_manual_record_of_an_unknown_thread)
{
	struct timeline *timeline;

	call(60, 85);
	thread_start(80);
	manual(81, 84, 1);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 1);
	expect_lane(timeline, 0, 0, 0,
		    "f 60-85\n"
		    " m 81-84\n");
	timeline_close(timeline);
}

Test(lane, three_lives_told_by_both)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 10, 11, NULL);
	thread_start(20);
	manual(21, 22, 1);
	call(15, 30);
	make_thread(&maker, THREAD_SEEN, PID, TID, 100, 101, NULL);
	call(110, 120);
	thread_start(130);
	manual(140, 150, 2);
	thread_start(200);
	manual(210, 220, 3);
	call(205, 230);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 3);
	expect_lane(timeline, 0, 10, 0,
		    "f 15-30\n"
		    " m 21-22\n");
	expect_lane(timeline, 1, 100, 0,
		    "f 110-120\n"
		    "m 140-150\n");
	expect_lane(timeline, 2, 200, 0,
		    "f 205-230\n"
		    " m 210-220\n");
	timeline_close(timeline);
}

/* Manual events whose THREAD_START was drained by an earlier reader. */
Test(lane, events_without_a_thread_start)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 10, 11, NULL);
	manual(50, 60, 1);
	call(40, 70);
	thread_start(100);
	manual(110, 120, 2);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	expect_lane(timeline, 0, 10, 0,
		    "f 40-70\n"
		    " m 50-60\n");
	expect_lane(timeline, 1, 100, 0, "m 110-120\n");
	timeline_close(timeline);
}

Test(lane, exit_ends_a_lane)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 10, 11, "first");
	call(20, 30);
	make_thread(&maker, THREAD_EXITED, PID, TID, 10, 40, NULL);
	call(50, 60); /* of a thread whose start was not seen, before its first manual record */
	thread_start(70);
	manual(80, 90, 1);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	expect_lane(timeline, 0, 10, 40, "f 20-30\n");
	cr_assert_eq(timeline->lanes[1].end_ns, 0);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 1)), "f 50-60\n"
									      "m 80-90\n");
	cr_assert_str_eq(timeline->names[timeline->lanes[0].name], "first");
	/* Nobody named it: then it has its process's name, as in the kernel. */
	cr_assert_str_eq(timeline->names[timeline->lanes[1].name], "program");
	timeline_close(timeline);
}

Test(lane, calls_after_the_last_exit)
{
	struct timeline *timeline;

	call(20, 30);
	make_thread(&maker, THREAD_EXITED, PID, TID, 0, 40, NULL);
	call(50, 60);
	make_thread(&maker, THREAD_EXITED, PID, TID, 0, 70, NULL);
	call(80, 90);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 3);
	timeline_close(timeline);
}

Test(lane, two_processes)
{
	struct timeline *timeline;

	make_process(&maker, PID + 1, "other", CLOCK_ID_MONOTONIC);
	call(10, 20);
	make_call(&maker, PID + 1, PID + 1, 0, 12, 18, 0);
	make_start(&maker, PID + 1, PID + 1, 13, 1, "m");
	make_stop(&maker, PID + 1, PID + 1, 14, 1);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	cr_assert_eq(timeline->process_count, 2);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 0)), "f 10-20\n");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID + 1, PID + 1, 0)), "f 12-18\n"
										      " m 13-14\n");
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID + 1, PID + 1, 0)->name], "other",
			 "a main thread has at least its process's name");
	timeline_close(timeline);
}

Test(lane, lanes_are_in_order)
{
	struct timeline *timeline;

	for (uint32_t i = 0; i < 50; i++)
		make_call(&maker, PID - i % 7, 1000 - i, 0, 10, 20, 0);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 50);
	for (size_t i = 1; i < 50; i++) {
		const struct lane *a = &timeline->lanes[i - 1], *b = a + 1;

		cr_assert(a->pid < b->pid || (a->pid == b->pid && a->tid < b->tid));
	}
	timeline_close(timeline);
}

Test(lane, names)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_NAMED, PID, TID, 0, 30, "later");
	make_thread(&maker, THREAD_SEEN, PID, TID, 5, 10, "early");
	call(20, 25);
	make_call(&maker, PID, TID + 1, 0, 20, 25, 0);
	make_thread(&maker, THREAD_SEEN, PID, TID + 1, 5, 10, "comm");
	make_event(&maker, PID, TID + 1, MANUAL_THREAD_NAME, 30, 0, 0, "the name it gave itself");
	make_thread(&maker, THREAD_NAMED, PID, TID + 1, 5, 40, "comm2");
	make_thread(&maker, THREAD_SEEN, PID, TID + 2, 5, 10, "has nothing");
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2, "a thread without events has no lane");
	cr_assert_str_eq(timeline->names[timeline->lanes[0].name], "later");
	cr_assert_str_eq(timeline->names[timeline->lanes[1].name], "the name it gave itself");
	timeline_close(timeline);
}

/* The record loop declares a process for good when the capture ends. */
Test(lane, a_process_declared_late)
{
	struct timeline *timeline;

	make_start(&maker, 7, 8, 3000, 1, "m");
	make_stop(&maker, 7, 8, 6000, 1);
	make_anchor(&maker, CLOCK_ID_TSC, 0, 0);
	make_anchor(&maker, CLOCK_ID_TSC, 30000, 10000);
	make_process(&maker, 7, "late", 0);
	make_process(&maker, 7, "late", CLOCK_ID_TSC);
	make_start(&maker, 9, 9, 3000, 1, "n");
	make_stop(&maker, 9, 9, 6000, 1);
	make_process(&maker, 9, "late too", CLOCK_ID_MONOTONIC);
	timeline = make_open(&maker, 10000);
	cr_assert_eq(timeline->process_count, 3);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 9, 9, 0)), "n 3000-6000\n");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 7, 8, 0)), "m 1000-2000\n");
	timeline_close(timeline);
}

/*
 * After exec the segment, and with it the clock, is another: each event is of the clock of its own
 * time.
 */
Test(lane, exec_with_another_clock)
{
	struct timeline *timeline;

	make_process(&maker, 7, "before", CLOCK_ID_TSC);
	make_anchor(&maker, CLOCK_ID_TSC, 0, 0);
	make_anchor(&maker, CLOCK_ID_TSC, 30000, 10000);
	make_start(&maker, 7, 7, 3000, 1, "m");
	make_stop(&maker, 7, 7, 6000, 1);
	make_process(&maker, 7, "after", CLOCK_ID_MONOTONIC);
	make_event(&maker, 7, 7, MANUAL_THREAD_START, 3000, 0, 0, NULL);
	make_start(&maker, 7, 7, 4000, 1, "n");
	make_stop(&maker, 7, 7, 5000, 1);
	timeline = make_open(&maker, 10000);
	cr_assert_eq(timeline->process_count, 2);
	cr_assert_str_eq(timeline->names[timeline->processes[1].name], "after");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 7, 7, 0)), "m 1000-2000\n");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 7, 7, 1)), "n 4000-5000\n");
	timeline_close(timeline);
}

static void expect_names(const struct timeline *timeline, const struct lane *lane, const char *text)
{
	char have[256] = "";

	for (size_t i = 0; i < lane->name_count; i++) {
		size_t used = strlen(have);

		snprintf(have + used, sizeof(have) - used, "%llu %s, ",
			 (unsigned long long)lane->names[i].time_ns,
			 timeline->names[lane->names[i].name]);
	}
	cr_assert_str_eq(have, text, "%s", have);
}

/*
 * All names of a thread with the times from which on it had them; the one it gave itself is shown.
 */
Test(lane, names_over_time)
{
	struct timeline *timeline;

	call(20, 25);
	make_thread(&maker, THREAD_NAMED, PID, TID, 0, 50, "third");
	make_thread(&maker, THREAD_SEEN, PID, TID, 5, 10, "first");
	make_event(&maker, PID, TID, MANUAL_THREAD_NAME, 40, 0, 0, "own");
	make_thread(&maker, THREAD_NAMED, PID, TID, 0, 30, "second");
	make_thread(&maker, THREAD_NAMED, PID, TID, 0, 35, "second");
	timeline = make_open(&maker, 1000);
	cr_assert_str_eq(timeline->names[timeline->lanes[0].name], "own");
	expect_names(timeline, &timeline->lanes[0], "10 first, 30 second, 40 own, 50 third, ");
	timeline_close(timeline);
}

/* The names of a thread that is gone are not those of its successor. */
Test(lane, names_of_a_recycled_tid)
{
	struct timeline *timeline;

	make_thread(&maker, THREAD_SEEN, PID, TID, 5, 10, "a");
	call(20, 25);
	make_thread(&maker, THREAD_NAMED, PID, TID, 5, 30, "b");
	make_thread(&maker, THREAD_EXITED, PID, TID, 5, 40, NULL);
	make_thread(&maker, THREAD_SEEN, PID, TID, 50, 51, "c");
	call(60, 65);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->lane_count, 2);
	expect_names(timeline, &timeline->lanes[0], "10 a, 30 b, ");
	expect_names(timeline, &timeline->lanes[1], "51 c, ");
	timeline_close(timeline);
}

static void process_is(uint64_t start, uint64_t time, const char *name, const char *command,
		       uint32_t parent)
{
	struct process_info info = {
		.pid = PID + 1, .start_ns = start, .time_ns = time, .parent = parent};

	info.name = make_name(&maker, name);
	info.command = make_name(&maker, command);
	cr_assert(!scope_file_writer_process(maker.writer, &info));
}

/* A child is forked, calls exec, and its threads have the names of their times. */
Test(lane, a_process_over_time)
{
	struct timeline *timeline;
	const struct process_change *changes;

	process_is(10, 0, "parent's", "parent", PID);
	process_is(10, 50, "program", "program -x", 0);
	process_is(10, 50, "program", "program -x", 0); /* told again */
	make_call(&maker, PID + 1, PID + 1, 0, 20, 25, 0);
	make_call(&maker, PID + 1, PID + 2, 0, 30, 35, 0);
	make_thread(&maker, THREAD_SEEN, PID + 1, PID + 2, 28, 28, NULL);
	make_call(&maker, PID + 1, PID + 3, 0, 60, 65, 0);
	make_thread(&maker, THREAD_SEEN, PID + 1, PID + 3, 58, 58, NULL);
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->process_count, 2);
	cr_assert_eq(timeline->processes[1].parent, PID);
	cr_assert_str_eq(timeline->names[timeline->processes[1].command], "program -x");
	cr_assert_eq(timeline->process_change_count, 3);
	changes = timeline->process_changes;
	cr_assert(changes[0].process == 0 && changes[1].process == 1 && changes[2].process == 1);
	cr_assert_eq(changes[1].time_ns, 0);
	cr_assert_str_eq(timeline->names[changes[1].name], "parent's");
	cr_assert_eq(changes[2].time_ns, 50);
	cr_assert_str_eq(timeline->names[changes[2].name], "program");
	cr_assert_str_eq(timeline->names[timeline->lanes[0].name], "program",
			 "the main thread's last name");
	cr_assert_str_eq(timeline->names[timeline->lanes[1].name], "parent's");
	cr_assert_str_eq(timeline->names[timeline->lanes[2].name], "program");
	timeline_close(timeline);
}
