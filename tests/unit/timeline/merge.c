// SPDX-License-Identifier: GPL-2.0-or-later
/* Two streams of one thread become nested scopes. */
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
	make_function(&maker, "g", "program");
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(merge, .init = begin, .fini = end);

/* Opens what was made, and compares the scopes of the one thread. Returns the timeline. */
static struct timeline *expect(const char *text)
{
	struct timeline *timeline = make_open(&maker, 1000);

	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 0)), text, "%s",
			 lane_text(timeline, lane_of(timeline, PID, TID, 0)));
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	return timeline;
}

static void call(uint32_t function, uint64_t start, uint64_t stop)
{
	make_call(&maker, PID, TID, function, start, stop, 0);
}

static void start(uint64_t time, uint64_t id, const char *name)
{
	make_start(&maker, PID, TID, time, id, name);
}

static void stop(uint64_t time, uint64_t id)
{
	make_stop(&maker, PID, TID, time, id);
}

Test(merge, manual_inside_hooked)
{
	call(0, 10, 50);
	start(20, 1, "m");
	stop(30, 1);
	timeline_close(expect("f 10-50\n"
			      " m 20-30\n"));
}

Test(merge, hooked_inside_manual)
{
	start(10, 1, "m");
	stop(50, 1);
	call(0, 20, 30);
	timeline_close(expect("m 10-50\n"
			      " f 20-30\n"));
}

Test(merge, both_ways_and_self_time)
{
	struct timeline *timeline;
	const struct scope *scopes;

	call(1, 30, 40);
	call(0, 10, 90);
	start(20, 1, "m");
	start(32, 2, "n");
	stop(38, 2);
	stop(60, 1);
	timeline = expect("f 10-90\n"
			  " m 20-60\n"
			  "  g 30-40\n"
			  "   n 32-38\n");
	scopes = lane_of(timeline, PID, TID, 0)->scopes;
	cr_assert_eq(scopes[0].child_ns, 40);
	cr_assert_eq(scopes[1].child_ns, 10);
	cr_assert_eq(scopes[2].child_ns, 6);
	cr_assert_eq(scopes[3].child_ns, 0);
	cr_assert_eq(scopes[0].kind, SCOPE_HOOKED);
	cr_assert_eq(scopes[0].function, 0);
	cr_assert_str_eq(timeline->names[scopes[0].module], "program");
	cr_assert_eq(scopes[1].kind, SCOPE_MANUAL);
	cr_assert_eq(scopes[1].function, UINT32_MAX);
	cr_assert_eq(scopes[1].module, 0);
	timeline_close(timeline);
}

/* The same start: the later end is the outer; the same both: the later record is. */
Test(merge, equal_times)
{
	call(0, 10, 20);
	call(1, 10, 20);
	call(0, 10, 30);
	call(1, 25, 30);
	timeline_close(expect("f 10-30\n"
			      " g 10-20\n"
			      "  f 10-20\n"
			      " g 25-30\n"));
}

Test(merge, equal_times_of_both_kinds)
{
	call(0, 10, 20);
	start(10, 1, "m");
	stop(20, 1);
	timeline_close(expect("f 10-20\n"
			      " m 10-20\n"));
}

/* One after another without a gap: siblings. */
Test(merge, adjacent)
{
	call(0, 10, 20);
	call(1, 20, 30);
	start(30, 1, "m");
	stop(40, 1);
	call(0, 40, 50);
	timeline_close(expect("f 10-20\n"
			      "g 20-30\n"
			      "m 30-40\n"
			      "f 40-50\n"));
}

/* Manual scopes of no length: the order of the records tells what no time tells. */
Test(merge, zero_length_manual)
{
	start(10, 1, "a");
	start(10, 2, "in_a");
	stop(10, 2);
	stop(10, 1);
	start(10, 3, "b");
	stop(20, 3);
	start(20, 4, "c");
	stop(20, 4);
	start(20, 5, "d");
	start(30, 6, "in_d");
	stop(30, 6);
	stop(30, 5);
	timeline_close(expect("a 10-10\n"
			      " in_a 10-10\n"
			      "b 10-20\n"
			      "c 20-20\n"
			      "d 20-30\n"
			      " in_d 30-30\n"));
}

Test(merge, zero_length_hooked)
{
	call(0, 15, 15);
	call(0, 20, 20);
	call(1, 10, 20);
	call(1, 30, 40);
	call(0, 40, 40); /* its record is behind that of g: not inside */
	timeline_close(expect("g 10-20\n"
			      " f 15-15\n"
			      " f 20-20\n"
			      "g 30-40\n"
			      "f 40-40\n"));
}

Test(merge, zero_length_of_both_kinds)
{
	call(0, 10, 20);
	start(20, 1, "last");
	stop(20, 1);
	start(30, 2, "m");
	stop(40, 2);
	call(1, 40, 40);
	timeline_close(expect("f 10-20\n"
			      " last 20-20\n"
			      "m 30-40\n"
			      "g 40-40\n"));
}

Test(merge, crossing_goes_to_a_sub_lane)
{
	start(10, 1, "a");
	start(20, 2, "b");
	start(22, 3, "in_b");
	stop(24, 3);
	stop(30, 1);
	start(32, 4, "still_in_b");
	stop(34, 4);
	stop(40, 2);
	start(50, 5, "c");
	stop(60, 5);
	timeline_close(expect("a 10-30\n"
			      "b 20-40 /1\n"
			      " in_b 22-24 /1\n"
			      " still_in_b 32-34 /1\n"
			      "c 50-60\n"));
}

Test(merge, three_that_cross)
{
	start(10, 1, "a");
	start(20, 2, "b");
	start(30, 3, "c");
	stop(40, 1);
	stop(50, 2);
	stop(60, 3);
	timeline_close(expect("a 10-40\n"
			      "b 20-50 /1\n"
			      "c 30-60 /2\n"));
}

Test(merge, hooked_that_crosses_manual)
{
	start(10, 1, "m");
	call(0, 20, 40);
	stop(30, 1);
	timeline_close(expect("m 10-30\n"
			      "f 20-40 /1\n"));
}

/* More crossing scopes than there are sub-lanes: nothing is lost, nothing is negative. */
Test(merge, a_thousand_that_cross)
{
	struct timeline *timeline;
	const struct lane *lane;

	for (uint64_t i = 0; i < 1000; i++)
		start(10 + i, i, "m");
	for (uint64_t i = 0; i < 1000; i++)
		stop(5000 + i, i);
	timeline = make_open(&maker, 10000);
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_eq(lane->scope_count, 1000);
	cr_assert_eq(lane->scopes[254].sub_lane, 254);
	cr_assert_eq(lane->scopes[999].sub_lane, 255);
	cr_assert_eq(timeline->accounting.manual_orphans, 0);
	for (uint64_t i = 0; i < 1000; i++)
		cr_assert_eq(lane->scopes[i].end_ns, 5000 + i);
	timeline_close(timeline);
}

/*
 * A deep recursion, stopped from the outside in: every stop finds its start far from the innermost.
 */
Test(merge, deep_and_stopped_from_outside)
{
	enum { DEEP = 5000 };
	struct timeline *timeline;

	for (uint64_t i = 0; i < DEEP; i++)
		start(10, 7 * i + 3, "m");
	for (uint64_t i = 0; i < DEEP; i++)
		stop(20000, 7 * i + 3);
	timeline = make_open(&maker, 30000);
	cr_assert_eq(timeline->accounting.manual_orphans, 0);
	cr_assert_eq(lane_of(timeline, PID, TID, 0)->scope_count, DEEP);
	for (size_t i = 0; i < DEEP; i++)
		cr_assert_eq(lane_of(timeline, PID, TID, 0)->scopes[i].flags, 0);
	timeline_close(timeline);
}

Test(merge, cut_by_manual_and_by_hooked)
{
	start(10, 1, "outer");
	start(20, 2, "never");
	stop(30, 1);
	call(0, 40, 60);
	start(50, 3, "never_too");
	timeline_close(expect("outer 10-30\n"
			      " never 20-30 cut\n"
			      "f 40-60\n"
			      " never_too 50-60 cut\n"));
}

/* A start that is never stopped holds what follows until the next of its name begins, no more. */
Test(merge, never_stopped_again_and_again)
{
	enum { MANY = 3000 };
	struct timeline *timeline;
	const struct lane *lane;

	for (uint64_t i = 0; i < MANY; i++) {
		start(100 * i, 2 * i + 1, "leaked");
		start(100 * i + 10, 2 * i + 2, "work");
		stop(100 * i + 20, 2 * i + 2);
	}
	timeline = make_open(&maker, 100 * MANY);
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_eq(lane->max_depth, 1);
	cr_assert_eq(timeline->accounting.manual_unstopped, MANY);
	for (size_t i = 0; i < MANY; i++) {
		const struct scope *leaked = &lane->scopes[2 * i], *work = leaked + 1;

		cr_assert(leaked->end_ns == 100 * (i + 1) && leaked->depth == 0);
		cr_assert_eq(leaked->flags, i + 1 < MANY ? SCOPE_FLAG_CUT : SCOPE_FLAG_UNFINISHED);
		cr_assert(work->depth == 1 && work->sub_lane == 0 && work->flags == 0);
	}
	timeline_close(timeline);
}

/* What is stopped goes before: in the scope around it, and none that is cut moves it aside. */
Test(merge, never_stopped_between_those_that_are)
{
	start(10, 1, "outer");
	start(20, 2, "leaked");
	start(30, 3, "inner");
	start(40, 4, "leaked");
	start(50, 5, "leaf");
	stop(60, 5);
	stop(70, 3);
	stop(80, 1);
	start(90, 6, "leaked");
	start(90, 7, "leaked");
	timeline_close(expect("outer 10-80\n"
			      " leaked 20-30 cut\n"
			      " inner 30-70\n"
			      "  leaked 40-70 cut\n"
			      "   leaf 50-60\n"
			      "leaked 90-90 cut\n"
			      "leaked 90-1000 unfinished\n"));
}

Test(merge, unfinished)
{
	start(10, 1, "a");
	start(20, 2, "b");
	call(0, 30, 40);
	make_call(&maker, PID, TID, 1, 50, 55, SCOPE_FLAG_UNFINISHED);
	start(60, 3, "c");
	stop(70, 3);
	timeline_close(expect("a 10-1000 unfinished\n"
			      " b 20-1000 unfinished\n"
			      "  f 30-40\n"
			      "  g 50-1000 unfinished\n"
			      "   c 60-70\n"));
}

/*
 * An unfinished call ends with its thread, not with the capture; its given end may be nothing at
 * all.
 */
Test(merge, unfinished_until_the_thread_exits)
{
	make_call(&maker, PID, TID, 0, 10, 0, SCOPE_FLAG_UNFINISHED);
	call(1, 20, 30);
	make_thread(&maker, THREAD_EXITED, PID, TID, 5, 80, NULL);
	timeline_close(expect("f 10-80 unfinished\n"
			      " g 20-30\n"));
}

/* An exit that is told too early, or of another clock's time, does not make an unfinished call end before its
 * inside. */
Test(merge, unfinished_is_never_shorter_than_its_inside)
{
	make_call(&maker, PID, TID, 0, 10, 0, SCOPE_FLAG_UNFINISHED);
	call(1, 20, 90);
	make_thread(&maker, THREAD_EXITED, PID, TID, 5, 80, NULL);
	timeline_close(expect("f 10-90 unfinished\n"
			      " g 20-90\n"));
}

Test(merge, unwound_is_kept)
{
	struct timeline *timeline;

	make_call_at(&maker, PID, TID, 0, 10, 30, 0x7fff0100, SCOPE_FLAG_UNWOUND);
	call(1, 20, 25);
	timeline = expect("f 10-30 unwound\n"
			  " g 20-25\n");
	cr_assert_eq(timeline->functions[0].in_file.completed, 0);
	cr_assert_eq(timeline->functions[1].in_file.completed, 1);
	timeline_close(timeline);
}

Test(merge, orphan_stops)
{
	struct timeline *timeline;

	stop(10, 77);
	start(20, 1, "m");
	stop(25, 78);
	stop(30, 1);
	stop(40, 1);
	timeline = expect("m 20-30\n");
	cr_assert_eq(timeline->accounting.manual_orphans, 3);
	timeline_close(timeline);
}

/* The same scope id in two threads are two scopes. */
Test(merge, ids_belong_to_their_thread)
{
	struct timeline *timeline;

	start(10, 1, "m");
	make_start(&maker, PID, TID + 1, 12, 1, "n");
	make_stop(&maker, PID, TID + 1, 20, 1);
	stop(30, 1);
	timeline = expect("m 10-30\n");
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID + 1, 0)), "n 12-20\n");
	timeline_close(timeline);
}

Test(merge, no_time_runs_backwards)
{
	struct timeline *timeline;

	start(100, 1, "a");
	start(90, 2, "b"); /* the counter of another core */
	stop(95, 2);
	make_event(&maker, PID, TID, MANUAL_INSTANT, 80, 0, 0, "i");
	stop(120, 1);
	timeline = expect("a 100-120\n"
			  " b 100-100\n");
	cr_assert_eq(lane_of(timeline, PID, TID, 0)->marks[0].time_ns, 100);
	timeline_close(timeline);
}

/* SCOPE_HOT: one record at the end. */
Test(merge, complete_records)
{
	start(10, 1, "m");
	make_event(&maker, PID, TID, MANUAL_COMPLETE, 20, 0, 25, "inner");
	make_event(&maker, PID, TID, MANUAL_COMPLETE, 15, 0, 30, "hot");
	call(0, 16, 28);
	stop(40, 1);
	make_event(&maker, PID, TID, MANUAL_COMPLETE, 50, 0, 45, "backwards");
	timeline_close(expect("m 10-40\n"
			      " hot 15-30\n"
			      "  f 16-28\n"
			      "   inner 20-25\n"
			      "backwards 45-45\n"));
}

Test(merge, complete_records_of_equal_times)
{
	make_complete(&maker, PID, TID, 10, 20, 0, "inner");
	make_complete(&maker, PID, TID, 10, 20, 1, "outer");
	make_complete(&maker, PID, TID, 10, 30, 2, "outermost");
	timeline_close(expect("outermost 10-30\n"
			      " outer 10-20\n"
			      "  inner 10-20\n"));
}

/* A clock too coarse to tell: what was recorded inside does. */
Test(merge, complete_records_beside_each_other_in_one_tick)
{
	make_complete(&maker, PID, TID, 10, 10, 0, "first");
	make_complete(&maker, PID, TID, 10, 10, 0, "in second");
	make_complete(&maker, PID, TID, 10, 10, 1, "second");
	make_start(&maker, PID, TID, 10, 1, "third");
	make_complete(&maker, PID, TID, 10, 10, 0, "in third");
	make_stop(&maker, PID, TID, 10, 1);
	timeline_close(expect("first 10-10\n"
			      "second 10-10\n"
			      " in second 10-10\n"
			      "third 10-10\n"
			      " in third 10-10\n"));
}

Test(merge, marks)
{
	static const enum manual_kind kinds[] = {
		MANUAL_INSTANT,	   MANUAL_COUNTER_INT, MANUAL_COUNTER_DOUBLE, MANUAL_ASYNC_START,
		MANUAL_ASYNC_STOP, MANUAL_FRAME,       MANUAL_ARGUMENT,	      MANUAL_FLOW};
	struct timeline *timeline;
	const struct lane *lane;

	for (size_t i = 0; i < 8; i++)
		make_event(&maker, PID, TID, kinds[i], 10 + i, 0, 1000 + i, "mark");
	timeline = expect("");
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_eq(lane->mark_count, 8);
	for (size_t i = 0; i < 8; i++) {
		cr_assert_eq(lane->marks[i].kind, kinds[i]);
		cr_assert_eq(lane->marks[i].time_ns, 10 + i);
		cr_assert_eq(lane->marks[i].value, 1000 + i);
		cr_assert_str_eq(timeline->names[lane->marks[i].name], "mark");
	}
	timeline_close(timeline);
}

Test(merge, scopes_open_during_a_loss_are_flagged)
{
	struct loss_event loss = {
		.first_ns = 40, .last_ns = 50, .count = 9, .pid = PID, .place = LOSS_SEGMENT_LAP};

	loss.index = TID & 15;
	start(10, 1, "outer");
	start(20, 2, "before");
	stop(30, 2);
	start(45, 3, "during");
	stop(48, 3);
	start(60, 4, "after");
	stop(70, 4);
	start(72, 5, "last");
	stop(74, 5);
	stop(80, 1);
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.first_ns = 61; /* not told until when */
	loss.last_ns = 0;
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.first_ns = loss.last_ns = 25;
	loss.index--; /* other rings, another process, another place */
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.index += 2;
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.index--;
	loss.pid--;
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.pid++;
	loss.place = LOSS_KERNEL_RING;
	cr_assert(!maker.output->loss(maker.output, &loss));
	timeline_close(expect("outer 10-80 lost\n"
			      " before 20-30\n"
			      " during 45-48 lost\n"
			      " after 60-70 lost\n"
			      " last 72-74\n"));
}

Test(merge, losses_of_another_process_flag_nothing)
{
	struct loss_event loss = {25, 25, 9, PID - 1, LOSS_SEGMENT_LAP, TID & 15, 0};

	start(20, 1, "m");
	stop(30, 1);
	cr_assert(!maker.output->loss(maker.output, &loss));
	timeline_close(expect("m 20-30\n"));
}

/* A short loss within a long one, and one that follows it: the long one still holds. */
Test(merge, losses_that_overlap)
{
	struct loss_event loss = {20, 100, 9, PID, LOSS_SEGMENT_LAP, TID & 15, 0};

	start(10, 1, "before");
	stop(15, 1);
	start(60, 2, "during");
	stop(70, 2);
	start(80, 3, "cut");
	start(120, 4, "after");
	stop(130, 4);
	start(300, 5, "after all");
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss = (struct loss_event){30, 40, 1, PID, LOSS_WRITTEN_OFF, TID & 15, 0};
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss = (struct loss_event){200, 210, 1, PID, LOSS_WRITTEN_OFF, TID & 15, 0};
	cr_assert(!maker.output->loss(maker.output, &loss));
	timeline_close(expect("before 10-15\n"
			      "during 60-70 lost\n"
			      "cut 80-80 cut lost\n"
			      "after 120-130\n"
			      "after all 300-1000 unfinished\n"));
}
