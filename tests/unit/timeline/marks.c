// SPDX-License-Identifier: GPL-2.0-or-later
/* Arguments and flows in their scopes, async slices, frames, counters: from a capture file to what is
 * reported. */
#include "support/capture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

enum { PID = 100, TID = 101, OTHER = 102 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(marks, .init = begin, .fini = end);

static void mark(uint32_t tid, enum manual_kind kind, uint64_t ticks, uint64_t value,
		 const char *name)
{
	make_event(&maker, PID, tid, kind, ticks, 0, value, name);
}

/* The name of the scope that the n-th argument or flow of the lane belongs to. */
static const char *owner(const struct timeline *timeline, size_t n)
{
	const struct lane *lane = lane_of(timeline, PID, TID, 0);

	for (size_t i = 0; i < lane->mark_count; i++) {
		const struct mark *one = &lane->marks[i];

		if (one->kind != MANUAL_ARGUMENT && one->kind != MANUAL_FLOW) {
			cr_assert_eq(one->scope, MARK_NO_SCOPE);
			continue;
		}
		if (n--)
			continue;
		if (one->scope == MARK_NO_SCOPE)
			return "none";
		cr_assert(one->scope < lane->scope_count);
		return timeline->names[lane->scopes[one->scope].name];
	}
	cr_assert_fail("there are not so many");
	return NULL;
}

static void expect_owners(struct timeline *timeline, const char *const *owners)
{
	for (size_t i = 0; owners[i]; i++)
		cr_expect_str_eq(owner(timeline, i), owners[i], "argument %zu is of %s, not %s", i,
				 owner(timeline, i), owners[i]);
	timeline_close(timeline);
}

Test(marks, arguments_belong_to_the_innermost_scope)
{
	mark(TID, MANUAL_ARGUMENT, 5, 1, "before all");
	make_start(&maker, PID, TID, 10, 1, "outer");
	mark(TID, MANUAL_ARGUMENT, 11, 2, "a");
	make_start(&maker, PID, TID, 20, 2, "inner");
	mark(TID, MANUAL_ARGUMENT, 21, 3, "a");
	mark(TID, MANUAL_INSTANT, 22, 0, "i");
	mark(TID, MANUAL_FLOW, 23, 4, "");
	make_stop(&maker, PID, TID, 30, 2);
	mark(TID, MANUAL_ARGUMENT, 31, 5, "a");
	make_stop(&maker, PID, TID, 40, 1);
	mark(TID, MANUAL_ARGUMENT, 41, 6, "after all");
	expect_owners(
		make_open(&maker, 1000),
		(const char *const[]){"none", "outer", "inner", "inner", "outer", "none", NULL});
}

/* A clock that stands still: the order of the records alone tells. */
Test(marks, arguments_where_all_times_are_equal)
{
	make_start(&maker, PID, TID, 10, 1, "outer");
	mark(TID, MANUAL_ARGUMENT, 10, 1, "a");
	mark(TID, MANUAL_ARGUMENT, 10, 2, "in first");
	make_complete(&maker, PID, TID, 10, 10, 1, "first");
	mark(TID, MANUAL_ARGUMENT, 10, 3, "between");
	make_complete(&maker, PID, TID, 10, 10, 0, "empty");
	mark(TID, MANUAL_ARGUMENT, 10, 4, "after empty");
	make_start(&maker, PID, TID, 10, 2, "inner");
	mark(TID, MANUAL_ARGUMENT, 10, 5, "a");
	make_stop(&maker, PID, TID, 10, 2);
	mark(TID, MANUAL_ARGUMENT, 10, 6, "a");
	make_stop(&maker, PID, TID, 12, 1);
	expect_owners(
		make_open(&maker, 1000),
		(const char *const[]){"outer", "first", "outer", "outer", "inner", "outer", NULL});
}

Test(marks, arguments_in_hot_scopes)
{
	mark(TID, MANUAL_ARGUMENT, 20, 1, "in inner");
	make_complete(&maker, PID, TID, 20, 30, 1, "inner");
	mark(TID, MANUAL_ARGUMENT, 35, 2, "in outer");
	make_complete(&maker, PID, TID, 10, 40, 3, "outer");
	mark(TID, MANUAL_ARGUMENT, 50, 3, "in many");
	make_complete(&maker, PID, TID, 45, 60, MANUAL_INSIDE_MAX, "many");
	expect_owners(make_open(&maker, 1000),
		      (const char *const[]){"inner", "outer", "many", NULL});
}

/* What is hooked does not change where an argument goes, but is better than nothing. */
Test(marks, manual_scopes_go_before_hooked_ones)
{
	make_function(&maker, "hooked", "lib.so");
	make_call(&maker, PID, TID, 0, 15, 25, 0);
	make_call(&maker, PID, TID, 0, 50, 60, 0);
	make_start(&maker, PID, TID, 10, 1, "manual");
	mark(TID, MANUAL_ARGUMENT, 20, 1, "a");
	make_stop(&maker, PID, TID, 30, 1);
	mark(TID, MANUAL_ARGUMENT, 55, 2, "a");
	mark(TID, MANUAL_ARGUMENT, 65, 3, "a");
	expect_owners(make_open(&maker, 1000),
		      (const char *const[]){"manual", "hooked", "none", NULL});
}

/* One left by longjmp ends with the scope around it, for its arguments too. */
Test(marks, arguments_after_a_scope_that_never_stopped)
{
	make_start(&maker, PID, TID, 10, 1, "outer");
	make_start(&maker, PID, TID, 20, 2, "left");
	mark(TID, MANUAL_ARGUMENT, 25, 1, "a");
	make_stop(&maker, PID, TID, 30, 1);
	mark(TID, MANUAL_ARGUMENT, 35, 2, "a");
	make_start(&maker, PID, TID, 40, 3, "next");
	mark(TID, MANUAL_ARGUMENT, 45, 3, "a");
	make_stop(&maker, PID, TID, 50, 3);
	expect_owners(make_open(&maker, 1000), (const char *const[]){"left", "none", "next", NULL});
}

/*
 * The stop of the outer scope was lost: it has nothing after the loss, inside another scope or
 * outside any.
 */
Test(marks, arguments_after_a_scope_that_was_cut_at_a_loss)
{
	struct loss_event loss = {40, 50, 9, PID, LOSS_SEGMENT_LAP, TID & 15, 0};

	make_start(&maker, PID, TID, 10, 1, "cut");
	mark(TID, MANUAL_ARGUMENT, 11, 1, "a");
	make_start(&maker, PID, TID, 20, 2, "inner");
	mark(TID, MANUAL_ARGUMENT, 21, 2, "a");
	make_stop(&maker, PID, TID, 30, 2);
	mark(TID, MANUAL_FLOW, 31, 3, "");
	cr_assert(!maker.output->loss(maker.output, &loss));
	mark(TID, MANUAL_ARGUMENT, 55, 4, "a");
	make_start(&maker, PID, TID, 60, 3, "later");
	mark(TID, MANUAL_ARGUMENT, 61, 5, "a");
	make_stop(&maker, PID, TID, 70, 3);
	mark(TID, MANUAL_FLOW, 75, 6, "");
	expect_owners(make_open(&maker, 1000),
		      (const char *const[]){"cut", "inner", "cut", "none", "later", "none", NULL});
}

/* By the slow way: of all scopes of a lane, the latest start that holds the record's place. */
Test(marks, owners_of_a_random_tree)
{
	enum { STEPS = 3000, DEEPEST = 12 };
	static char expected[STEPS][16];
	struct timeline *timeline;
	uint64_t open[DEEPEST], next = 1, now = 10;
	size_t depth = 0, marks = 0;
	unsigned seed = 7;

	for (size_t i = 0; i < STEPS; i++) {
		unsigned what = (unsigned)rand_r(&seed) % 4;
		char name[16];

		now += (uint64_t)rand_r(&seed) % 2;
		if (what == 0 && depth < DEEPEST) {
			snprintf(name, sizeof(name), "s%lu", next);
			make_start(&maker, PID, TID, now, next, name);
			open[depth++] = next++;
		} else if (what == 1 && depth) {
			make_stop(&maker, PID, TID, now, open[--depth]);
		} else if (what >= 2) {
			mark(TID, what == 2 ? MANUAL_ARGUMENT : MANUAL_FLOW, now, i,
			     what == 2 ? "a" : "");
			if (depth)
				snprintf(expected[marks++], sizeof(name), "s%lu", open[depth - 1]);
			else
				strcpy(expected[marks++], "none");
		}
	}
	timeline = make_open(&maker, now + 10);
	for (size_t i = 0; i < marks; i++)
		cr_assert_str_eq(owner(timeline, i), expected[i], "seed 7, mark %zu", i);
	timeline_close(timeline);
}

Test(marks, async_slices_are_paired_over_threads)
{
	struct timeline *timeline;
	struct async_statistics *all;
	size_t count;

	mark(TID, MANUAL_ASYNC_START, 10, 1, "request");
	mark(TID, MANUAL_ASYNC_START, 20, 2, "request");
	mark(OTHER, MANUAL_ASYNC_STOP, 30, 2, "request");
	mark(OTHER, MANUAL_ASYNC_STOP, 50, 1, "request");
	mark(OTHER, MANUAL_ASYNC_STOP, 60, 3, "request"); /* its begin is not in the capture */
	mark(OTHER, MANUAL_ASYNC_START, 70, 1, "other");  /* another name, and it never ends */
	mark(TID, MANUAL_ASYNC_START, 80, 9, "nested");
	mark(TID, MANUAL_ASYNC_START, 90, 9, "nested");
	mark(TID, MANUAL_ASYNC_STOP, 91, 9, "nested");
	mark(TID, MANUAL_ASYNC_STOP, 99, 9, "nested");
	make_event(&maker, 200, 200, MANUAL_ASYNC_STOP, 95, 0, 1, "other"); /* another process's */
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline->async_count, 5);
	cr_assert_eq(timeline->async_orphans, 2);
	cr_assert_eq(timeline_asyncs(timeline, &all, &count), 0);
	cr_assert_eq(count, 3);
	for (size_t i = 0; i < count; i++) {
		const struct duration_statistics *finished = &all[i].finished;

		cr_assert_eq(all[i].pid, PID);
		if (strcmp(timeline->names[all[i].name], "request") == 0) {
			cr_assert(finished->count == 2 && finished->total_ns == 50 &&
				  all[i].unfinished == 0);
		} else if (strcmp(timeline->names[all[i].name], "nested") == 0) {
			cr_assert(finished->min_ns == 1 && finished->max_ns == 19 &&
				  finished->count == 2);
		} else {
			cr_assert(finished->count == 0 && all[i].unfinished == 1);
		}
	}
	for (size_t i = 0; i < timeline->async_count; i++) {
		if (timeline->asyncs[i].flags)
			cr_assert_eq(timeline->asyncs[i].end_ns, timeline->end_ns);
	}
	free(all);
	timeline_close(timeline);
}

Test(marks, frames)
{
	static const uint64_t lengths[] = {10, 30, 20, 20, 90, 10, 50, 40};
	struct loss_event loss = {
		.first_ns = 265, .last_ns = 268, .count = 1, .pid = PID, .place = LOSS_SEGMENT_LAP};
	struct timeline *timeline;
	struct frame_statistics *all;
	uint64_t now = 100;
	size_t count;

	for (size_t i = 0; i < 8; i++) {
		mark(TID, MANUAL_FRAME, now, 0, "loop");
		mark(TID, MANUAL_FRAME, now, 0, "inner"); /* of another name, at the same times */
		now += lengths[i];
	}
	mark(TID, MANUAL_FRAME, now, 0, "loop");
	mark(OTHER, MANUAL_FRAME, 5, 0, "loop"); /* of another thread; one mark is no frame */
	cr_assert_eq(maker.output->loss(maker.output, &loss), 0); /* in the 90 */
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline_frames(timeline, &all, &count), 0);
	cr_assert_eq(count, 3);
	cr_assert_eq(all[0].marks, 9);
	cr_assert_eq(all[0].lost, 1);
	cr_assert_eq(all[0].frames.count, 7);
	cr_assert_eq(all[0].frames.total_ns, 180);
	cr_assert_eq(all[0].frames.p50_ns, 20);
	cr_assert_eq(all[0].frames.p99_ns, 50);
	cr_assert_eq(all[0].worst_count, FRAMES_WORST);
	cr_assert_eq(all[0].worst[0].number, 6);
	cr_assert_eq(all[0].worst[1].number, 7);
	cr_assert_eq(all[0].worst[2].number, 1);
	cr_assert_eq(all[0].worst[3].number, 2, "the earlier of two that are equally long");
	cr_assert_eq(all[0].worst[4].number, 3);
	cr_assert_eq(all[1].frames.count, 6);
	cr_assert_eq(all[2].frames.count, 0);
	cr_assert_eq(all[2].marks, 1);
	cr_assert_eq(timeline->lanes[all[2].lane].tid, OTHER);
	free(all);
	timeline_close(timeline);
}

Test(marks, counters)
{
	static const double reals[] = {0.5, -2.25, 7};
	struct timeline *timeline;
	struct number_statistics *all;
	size_t count;

	mark(TID, MANUAL_COUNTER_INT, 30, (uint64_t)-5, "c");
	mark(OTHER, MANUAL_COUNTER_INT, 10, INT64_MAX, "c"); /* earlier, from another thread */
	mark(TID, MANUAL_COUNTER_INT, 20, INT64_MIN, "big");
	for (size_t i = 0; i < 3; i++) {
		uint64_t bits;

		memcpy(&bits, &reals[i], sizeof(bits));
		mark(TID, MANUAL_COUNTER_DOUBLE, 40 + i, bits, "real");
	}
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline_numbers(timeline, &all, &count), 0);
	cr_assert_eq(count, 3);
	for (size_t i = 0; i < count; i++) {
		const struct number_statistics *one = &all[i];
		const char *name = timeline->names[one->name];

		if (strcmp(name, "c") == 0)
			cr_assert(one->samples == 2 && one->min_integer == -5 &&
				  one->max_integer == INT64_MAX && one->last_integer == -5 &&
				  !one->is_floating);
		else if (strcmp(name, "big") == 0)
			cr_assert(one->min_integer == INT64_MIN && one->max_integer == INT64_MIN);
		else
			cr_assert(one->is_floating && one->min == -2.25 && one->max == 7 &&
				  one->last == 7 && one->mean == 1.75);
	}
	free(all);
	timeline_close(timeline);
}

/* A NaN that comes first, or between, changes nothing of what the numbers come to. */
Test(marks, counters_that_are_no_number)
{
	static const double values[][3] = {
		{NAN, 1.5, 7.5}, {1.5, NAN, 7.5}, {7.5, 1.5, NAN}, {NAN, NAN, NAN}};
	static const char *const names[] = {"first", "between", "last", "only"};
	struct timeline *timeline;
	struct number_statistics *all;
	size_t count;

	for (size_t i = 0; i < 12; i++) {
		uint64_t bits;

		memcpy(&bits, &values[i / 3][i % 3], sizeof(bits));
		mark(TID, MANUAL_COUNTER_DOUBLE, 10 + i, bits, names[i / 3]);
	}
	timeline = make_open(&maker, 1000);
	cr_assert_eq(timeline_numbers(timeline, &all, &count), 0);
	cr_assert_eq(count, 4);
	for (size_t i = 0; i < count; i++) {
		const struct number_statistics *one = &all[i];
		const char *name = timeline->names[one->name];

		cr_expect_eq(one->samples, 3);
		if (strcmp(name, "only") == 0)
			cr_expect(isnan(one->min) && isnan(one->max) && isnan(one->mean));
		else
			cr_expect(one->min == 1.5 && one->max == 7.5 && one->mean == 4.5,
				  "%s: %g to %g, mean %g", name, one->min, one->max, one->mean);
	}
	free(all);
	timeline_close(timeline);
}
