// SPDX-License-Identifier: GPL-2.0-or-later
/* Records that were delivered late go back to their place. */
#include "support/capture.h"

#include <criterion/criterion.h>

enum { PID = 100, TID = 101 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
	maker.whole_only = true;
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(order, .init = begin, .fini = end);

static void start(uint64_t time, uint64_t id, const char *name)
{
	make_start(&maker, PID, TID, time, id, name);
}

static void stop(uint64_t time, uint64_t id)
{
	make_stop(&maker, PID, TID, time, id);
}

static struct timeline *expect(const char *text)
{
	struct timeline *timeline = make_open(&maker, 1000000);

	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 0)), text, "%s",
			 lane_text(timeline, lane_of(timeline, PID, TID, 0)));
	cr_assert_eq(timeline->accounting.manual_orphans, 0);
	return timeline;
}

/* A signal handler came between the claim and the publish of a start. */
Test(order, a_late_start_is_around_its_handler)
{
	struct timeline *timeline;
	const struct lane *lane;

	start(10000, 1, "outer");
	start(30000, 2, "handler");
	make_event(&maker, PID, TID, MANUAL_ARGUMENT, 31000, 0, 1, "a");
	stop(40000, 2);
	start(20000, 3, "late");
	make_event(&maker, PID, TID, MANUAL_ARGUMENT, 41000, 0, 2, "a");
	stop(50000, 3);
	stop(60000, 1);
	timeline = expect("outer 10000-60000\n"
			  " late 20000-50000\n"
			  "  handler 30000-40000\n");
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_eq(lane->mark_count, 2);
	cr_assert_eq(lane->marks[0].scope, 2);
	cr_assert_eq(lane->marks[1].scope, 1);
	timeline_close(timeline);
}

Test(order, a_late_stop_is_before_its_handler)
{
	start(10000, 1, "m");
	make_complete(&maker, PID, TID, 30000, 35000, 0, "handler");
	stop(20000, 1);
	timeline_close(expect("m 10000-20000\n"
			      "handler 30000-35000\n"));
}

/*
 * Handlers that interrupted each other, the oldest delivered first; one of the late is a COMPLETE.
 */
Test(order, several_late_ones)
{
	start(40000, 3, "innermost");
	stop(50000, 3);
	make_complete(&maker, PID, TID, 10000, 20000, 0, "hot");
	start(30000, 2, "handler");
	stop(60000, 2);
	timeline_close(expect("hot 10000-20000\n"
			      "handler 30000-60000\n"
			      " innermost 40000-50000\n"));
}

/* A stop never goes before its start, nor anything before its thread's first record. */
Test(order, what_must_follow_does)
{
	struct timeline *timeline;

	start(5000, 7, "before");
	stop(6000, 7);
	make_event(&maker, PID, TID, MANUAL_THREAD_START, 10000, 0, 0, NULL);
	start(30000, 1, "m");
	stop(20000, 1);
	start(7000, 2, "late");
	stop(50000, 2);
	timeline = make_open(&maker, 1000000);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 0)), "before 5000-6000\n");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 1)), "late 10000-50000\n"
									      " m 30000-30000\n");
	cr_assert_eq(timeline->accounting.manual_orphans, 0);
	timeline_close(timeline);
}

/* The counter of another core is behind: the order of the records stays. */
Test(order, a_clock_that_went_back_moves_nothing)
{
	start(100000, 1, "m");
	for (uint64_t i = 0; i < 10; i++) {
		start(50000 + 10 * i, 2 + i, "n");
		stop(50005 + 10 * i, 2 + i);
	}
	stop(200000, 1);
	timeline_close(expect("m 100000-200000\n"
			      " n 100000-100000\n n 100000-100000\n n 100000-100000\n"
			      " n 100000-100000\n n 100000-100000\n n 100000-100000\n"
			      " n 100000-100000\n n 100000-100000\n n 100000-100000\n"
			      " n 100000-100000\n"));
}

/* Every second record is late by all that came before: the work is bounded, and nothing is lost. */
Test(order, hostile)
{
	enum { MANY = 200000 };
	struct timeline *timeline;

	for (uint64_t i = 0; i < MANY; i++) {
		make_event(&maker, PID, TID, MANUAL_INSTANT, 10000000000 + i, 0, i, "i");
		make_event(&maker, PID, TID, MANUAL_INSTANT, 5000000 - i, 0, i, "i");
	}
	timeline = make_open(&maker, 20000000000);
	cr_assert_eq(lane_of(timeline, PID, TID, 0)->mark_count, 2 * MANY);
	timeline_close(timeline);
}
