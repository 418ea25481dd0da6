// SPDX-License-Identifier: GPL-2.0-or-later
/* Calls that were left by an exception, those that began elsewhere, and entries alone. */
#include "support/capture.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

enum { PID = 100, TID = 101, LATE = 900 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	for (const char *name = "fghm"; *name; name++)
		make_function(&maker, (char[]){*name, '\0'}, "program");
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(unwound, .init = begin, .fini = end);

/* By the letters of their functions. */
static void call(char name, uint64_t sp, uint64_t start, uint64_t stop)
{
	make_call_at(&maker, PID, TID, (uint32_t)(strchr("fghm", name) - "fghm"), start, stop, sp,
		     0);
}

static void thrown(char name, uint64_t sp, uint64_t start, uint64_t found_gone)
{
	make_call_at(&maker, PID, TID, (uint32_t)(strchr("fghm", name) - "fghm"), start, found_gone,
		     sp, SCOPE_FLAG_UNWOUND);
}

static void expect(const char *text)
{
	struct timeline *timeline = make_open(&maker, 1000);
	const struct lane *lane = lane_of(timeline, PID, TID, 0);

	cr_assert_str_eq(lane_text(timeline, lane), text, "%s", lane_text(timeline, lane));
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	timeline_close(timeline);
}

/* The caller catches, and goes on; what it calls then is no child of what threw. */
Test(unwound, the_catcher_stays_the_parent)
{
	call('h', 0x600, 40, 50);
	call('m', 0x700, 10, 90);
	thrown('f', 0x600, 20, 40);
	thrown('g', 0x500, 25, 95); /* found gone long after */
	expect("m 10-90\n"
	       " f 20-40 unwound\n"
	       "  g 25-40 unwound\n"
	       " h 40-50\n");
}

/* A hit below does not end it: that is a call of its own. */
Test(unwound, calls_inside_stay_inside)
{
	call('h', 0x500, 25, 30);
	call('m', 0x700, 10, 90);
	thrown('f', 0x600, 20, LATE);
	call('h', 0x650, 60, 70);
	expect("m 10-90\n"
	       " f 20-60 unwound\n"
	       "  h 25-30\n"
	       " h 60-70\n");
}

/* The end of the catcher is a hit, too. */
Test(unwound, ended_by_an_end)
{
	call('m', 0x700, 10, 90);
	thrown('f', 0x600, 20, LATE);
	expect("m 10-90\n"
	       " f 20-90 unwound\n");
}

Test(unwound, the_bound_holds)
{
	call('m', 0x700, 10, 90);
	thrown('f', 0x600, 20, 35);
	expect("m 10-90\n"
	       " f 20-35 unwound\n");
}

Test(unwound, nothing_came_after)
{
	thrown('f', 0x600, 20, 700);
	expect("f 20-700 unwound\n");
}

/* The same frame again and again, as in a loop around a try. */
Test(unwound, one_after_another)
{
	thrown('f', 0x600, 20, 30);
	thrown('f', 0x600, 30, 40);
	thrown('f', 0x600, 40, LATE);
	call('m', 0x700, 10, 50);
	expect("m 10-50\n"
	       " f 20-30 unwound\n"
	       " f 30-40 unwound\n"
	       " f 40-50 unwound\n");
}

/*
 * f and g run on a fiber at lower addresses. m, on the thread's own stack, resumes it for the
 * second time while g, which returns later, is in it: the hit of m does not tell of the fiber.
 */
Test(unwound, another_stack_does_not_end_it)
{
	call('m', 0x7000, 10, 30); /* resumes; f and g begin; g yields */
	call('m', 0x7000, 40, 80); /* resumes again; g returns, f throws and is caught by h */
	call('h', 0x1200, 12, 78);
	call('g', 0x1000, 20, 50);
	thrown('f', 0x1100, 15, LATE);
	call('g', 0x1110, 70, 75);
	expect("m 10-30\n"
	       "h 12-78 /1\n"
	       " f 15-70 /1 unwound\n"
	       "  g 20-50 /1\n"
	       "m 40-80\n"
	       " g 70-75\n");
}

/* Once the stacks are known to be two, it stays so: f alone is on the fiber when m is hit. */
Test(unwound, stacks_stay_apart)
{
	call('g', 0x1000, 11, 20);
	call('m', 0x7000, 12, 15); /* g lies below it, and returns later */
	thrown('f', 0x1000, 25, LATE);
	call('m', 0x7000, 30, 40);
	call('h', 0x1100, 50, 60);
	expect("g 11-20\n"
	       " m 12-15\n"
	       "f 25-50 unwound\n"
	       " m 30-40\n"
	       "h 50-60\n");
}

/* f is on the stack of m, the upper one; the border must not be put between them. */
Test(unwound, the_border_is_at_the_widest_gap)
{
	thrown('f', 0x6f00, 10, LATE);
	call('g', 0x1000, 20, 50);
	call('m', 0x7000, 30, 40); /* tells that g is elsewhere, and that f is gone */
	expect("f 10-30 unwound\n"
	       "g 20-50 /1\n"
	       " m 30-40 /1\n");
}

/* A signal handler on a stack of its own above, while f and g are in progress. */
Test(unwound, a_signal_stack)
{
	call('m', 0x5000, 10, 90);
	thrown('f', 0x4000, 20, LATE);
	call('g', 0x3000, 25, 60);
	call('h', 0x9000, 30, 40);
	call('g', 0x4100, 70, 80);
	expect("m 10-90\n"
	       " f 20-70 unwound\n"
	       "  g 25-60\n"
	       "   h 30-40\n"
	       " g 70-80\n");
}

/* No hook saw the catcher, but the program's own scope around the try has ended. */
Test(unwound, not_longer_than_the_scope_around)
{
	make_start(&maker, PID, TID, 10, 1, "outer");
	make_start(&maker, PID, TID, 20, 2, "try");
	thrown('f', 0x600, 30, 80);
	thrown('g', 0x500, 35, 80);
	make_stop(&maker, PID, TID, 50, 2);
	make_start(&maker, PID, TID, 60, 3, "after");
	make_stop(&maker, PID, TID, 70, 3);
	make_stop(&maker, PID, TID, 100, 1);
	call('f', 0x600, 80, 85);
	expect("outer 10-100\n"
	       " try 20-50\n"
	       "  f 30-50 unwound\n"
	       "   g 35-50 unwound\n"
	       " after 60-70\n"
	       " f 80-85\n");
}

/* The catcher has gone on, in a scope of its own, when the next hooked function is called. */
Test(unwound, a_scope_begun_after_the_catch)
{
	call('m', 0x700, 5, 95);
	thrown('f', 0x600, 10, 40);
	make_start(&maker, PID, TID, 15, 1, "in f");
	make_stop(&maker, PID, TID, 20, 1);
	make_start(&maker, PID, TID, 30, 2, "after");
	call('g', 0x600, 40, 50);
	make_stop(&maker, PID, TID, 60, 2);
	expect("m 5-95\n"
	       " f 10-30 unwound\n"
	       "  in f 15-20\n"
	       " after 30-60\n"
	       "  g 40-50\n");
}

/* The same where the scope is told as a whole. */
Test(unwound, not_longer_than_the_whole_scope_around)
{
	thrown('f', 0x600, 30, 80);
	make_complete(&maker, PID, TID, 20, 50, 0, "hot");
	call('f', 0x600, 80, 85);
	expect("hot 20-50\n"
	       " f 30-50 unwound\n"
	       "f 80-85\n");
}

/* Told only when the jump's target was found to return: long after what ended later. */
Test(unwound, a_late_record)
{
	call('g', 0x500, 30, 40);
	call('h', 0x700, 60, 70);
	call('m', 0x800, 5, 75);
	call('f', 0x600, 20, 50);
	expect("m 5-75\n"
	       " f 20-50\n"
	       "  g 30-40\n"
	       " h 60-70\n");
}

Test(unwound, entries_alone)
{
	struct timeline *timeline;
	struct function_statistics *statistics;
	size_t count;

	call('m', 0x700, 10, 90);
	make_call_at(&maker, PID, TID, 0, 20, 20, 0x600, SCOPE_FLAG_INSTANT);
	make_call_at(&maker, PID, TID, 0, 20, 20, 0x500, SCOPE_FLAG_INSTANT);
	call('g', 0x600, 20, 30);
	timeline = make_open(&maker, 1000);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, PID, TID, 0)),
			 "m 10-90\n"
			 " g 20-30\n"
			 "  f 20-20 instant\n"
			 "  f 20-20 instant\n");
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_eq(timeline->functions[0].in_file.instants, 2);
	cr_assert_eq(timeline->accounting.sum.instants, 2);
	cr_assert_eq(timeline->accounting.in_file, 2);
	cr_assert(!timeline_statistics(timeline, &statistics, &count));
	for (size_t i = 0; i < count; i++) {
		bool f = strcmp(timeline->names[statistics[i].name], "f") == 0;

		cr_assert_eq(statistics[i].instants, f ? 2 : 0);
		cr_assert(!f || (statistics[i].calls == 2 && !statistics[i].max_ns));
	}
	free(statistics);
	timeline_close(timeline);
}

Test(unwound, counted_apart)
{
	struct timeline *timeline;
	struct function_statistics *statistics;
	size_t count;

	call('m', 0x700, 10, 90);
	call('f', 0x600, 20, 23);
	thrown('f', 0x600, 30, 80);
	call('g', 0x600, 50, 60);
	timeline = make_open(&maker, 1000);
	cr_assert(!timeline_statistics(timeline, &statistics, &count));
	for (size_t i = 0; i < count; i++) {
		if (strcmp(timeline->names[statistics[i].name], "f") != 0)
			continue;
		cr_assert_eq(statistics[i].calls, 2);
		cr_assert_eq(statistics[i].unwound, 1);
		cr_assert_eq(statistics[i].unfinished, 0);
		cr_assert_eq(statistics[i].total_ns, 23);
		cr_assert_eq(statistics[i].max_ns, 3);
		cr_assert_eq(statistics[i].mean_ns, 3);
	}
	free(statistics);
	timeline_close(timeline);
}

/* It is in the lane on which it ended, crosses what was there before, and knows where it began. */
Test(unwound, migrated)
{
	struct timeline *timeline;
	const struct lane *lane;

	call('g', 0x7000, 20, 40);
	make_call_at(&maker, PID, TID, 0, 10, 30, 0x1000, SCOPE_FLAG_MIGRATED);
	timeline = make_open(&maker, 1000);
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_str_eq(lane_text(timeline, lane), "f 10-30 migrated\n"
						    "g 20-40 /1\n");
	cr_assert_eq(lane->scopes[0].start_tid, MAKE_START_TID);
	cr_assert_eq(lane->scopes[1].start_tid, 0);
	timeline_close(timeline);
}
