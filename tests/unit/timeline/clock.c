// SPDX-License-Identifier: GPL-2.0-or-later
/* Ticks to CLOCK_MONOTONIC. */
#include "support/capture.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "timeline/clock.h"

#define SECOND 1000000000ull
#define HERTZ  3000000000ull /* of the counter in these tests */

static struct clock_line line_of(const struct clock_anchor *anchors, size_t count)
{
	struct clock_line line;

	cr_assert(!clock_line_build(&line, CLOCK_ID_TSC, anchors, count));
	return line;
}

static uint64_t convert(const struct clock_line *line, uint64_t ticks)
{
	struct clock_cursor cursor = {0};

	return clock_line_convert(line, &cursor, ticks);
}

Test(clock, monotonic_needs_no_anchor)
{
	struct clock_line line;

	cr_assert(!clock_line_build(&line, CLOCK_ID_MONOTONIC, NULL, 0));
	cr_assert(clock_line_usable(&line));
	cr_assert_eq(convert(&line, 12345), 12345);
	cr_assert_eq(convert(&line, UINT64_MAX), INT64_MAX);
	clock_line_clear(&line);
}

Test(clock, one_anchor_is_not_enough)
{
	struct clock_anchor anchors[] = {{5, 5, CLOCK_ID_TSC, 0}, {9, 9, CLOCK_ID_CNTVCT, 0}};
	struct clock_line line = line_of(anchors, 2);

	cr_assert(!clock_line_usable(&line));
	clock_line_clear(&line);
}

Test(clock, two_anchors)
{
	struct clock_anchor anchors[] = {
		{HERTZ, 100 * SECOND, CLOCK_ID_TSC, 10},
		{2 * HERTZ, 101 * SECOND, CLOCK_ID_TSC, 10},
	};
	struct clock_line line = line_of(anchors, 2);

	cr_assert(clock_line_usable(&line));
	cr_assert_eq(convert(&line, HERTZ), 100 * SECOND);
	cr_assert_eq(convert(&line, 2 * HERTZ), 101 * SECOND);
	cr_assert_eq(convert(&line, HERTZ + 300), 100 * SECOND + 100);
	/* Carried on at both ends. */
	cr_assert_eq(convert(&line, HERTZ - 300), 100 * SECOND - 100);
	cr_assert_eq(convert(&line, 2 * HERTZ + 300), 101 * SECOND + 100);
	clock_line_clear(&line);
}

/*
 * Between anchors each piece has its own slope (a counter that drifts), whatever order the anchors
 * came in.
 */
Test(clock, pieces)
{
	struct clock_anchor anchors[] = {
		{2 * HERTZ, 101 * SECOND + 20000, CLOCK_ID_TSC, 10},
		{3 * HERTZ, 102 * SECOND + 10000, CLOCK_ID_TSC, 10},
		{HERTZ, 100 * SECOND, CLOCK_ID_TSC, 10},
	};
	struct clock_line line = line_of(anchors, 3);

	cr_assert_eq(line.stretch_count, 1);
	cr_assert_eq(convert(&line, 2 * HERTZ), 101 * SECOND + 20000);
	cr_assert_eq(convert(&line, HERTZ + HERTZ / 2), 100 * SECOND + SECOND / 2 + 10000);
	cr_assert_eq(convert(&line, 2 * HERTZ + HERTZ / 2), 101 * SECOND + SECOND / 2 + 15000);
	clock_line_clear(&line);
}

/* Suspend: the counter ran on for 100 s in which CLOCK_MONOTONIC stood still. */
Test(clock, suspend_breaks_the_line)
{
	struct clock_anchor anchors[] = {
		{0, 10 * SECOND, CLOCK_ID_TSC, 20},
		{HERTZ, 11 * SECOND, CLOCK_ID_TSC, 20},
		{102 * HERTZ, 12 * SECOND, CLOCK_ID_TSC, 20},
		{103 * HERTZ, 13 * SECOND, CLOCK_ID_TSC, 20},
	};
	struct clock_line line = line_of(anchors, 4);
	struct clock_cursor cursor = {0};
	uint64_t last = 0;

	cr_assert_eq(line.stretch_count, 2);
	cr_assert_eq(convert(&line, HERTZ + HERTZ / 4), 11 * SECOND + SECOND / 4);
	cr_assert_eq(convert(&line, 102 * HERTZ - HERTZ / 4), 12 * SECOND - SECOND / 4);
	/* Ticks that nobody can have read, deep in the suspend, still give a time within it. */
	for (uint64_t ticks = HERTZ; ticks <= 102 * HERTZ; ticks += HERTZ / 16)
		cr_assert(convert(&line, ticks) >= 11 * SECOND &&
			  convert(&line, ticks) <= 12 * SECOND);
	/*
	 * Half a second after the suspend began, and half a second before it ended: never
	 * backwards.
	 */
	for (uint64_t ticks = 0; ticks < 104 * HERTZ; ticks += HERTZ / 16) {
		uint64_t ns;

		if (ticks > HERTZ + HERTZ / 2 && ticks < 102 * HERTZ - HERTZ / 2)
			continue;
		ns = clock_line_convert(&line, &cursor, ticks);
		cr_assert_geq(ns, last);
		last = ns;
	}
	cr_assert_lt(last, 14 * SECOND);
	clock_line_clear(&line);
}

/* 400 ppm is drift, 600 ppm is a break; the error that the anchors admit is allowed for. */
Test(clock, tolerance)
{
	struct clock_anchor anchors[6] = {0};
	struct clock_line line;
	uint64_t widths[] = {0, 0, 200000};
	int64_t offs[] = {400000, 600000, 600000};
	size_t stretches[] = {1, 2, 1};

	for (size_t round = 0; round < 3; round++) {
		for (uint64_t i = 0; i < 6; i++) {
			anchors[i].ticks = i * HERTZ;
			anchors[i].ns = (i + 1) * SECOND + (i >= 3 ? (uint64_t)offs[round] : 0);
			anchors[i].clock = CLOCK_ID_TSC;
			anchors[i].width_ns = (uint32_t)widths[round];
		}
		line = line_of(anchors, 6);
		cr_assert_eq(line.stretch_count, stretches[round], "round %zu", round);
		clock_line_clear(&line);
	}
}

/* Resumed on a machine whose counter began anew. */
Test(clock, counter_goes_back)
{
	struct clock_anchor anchors[] = {
		{50 * HERTZ, 10 * SECOND, CLOCK_ID_TSC, 20},
		{51 * HERTZ, 11 * SECOND, CLOCK_ID_TSC, 20},
		{1 * HERTZ, 20 * SECOND, CLOCK_ID_TSC, 20},
		{2 * HERTZ, 21 * SECOND, CLOCK_ID_TSC, 20},
	};
	struct clock_line line = line_of(anchors, 4);
	struct clock_cursor cursor = {0};

	cr_assert_eq(line.stretch_count, 2);
	cr_assert_eq(clock_line_convert(&line, &cursor, 50 * HERTZ + HERTZ / 2),
		     10 * SECOND + SECOND / 2);
	cr_assert_eq(clock_line_convert(&line, &cursor, HERTZ + HERTZ / 2),
		     20 * SECOND + SECOND / 2);
	clock_line_clear(&line);
}

/* Readers of two segments take anchors of one counter at nearly the same moment. */
Test(clock, contradictions_within_the_error)
{
	struct clock_anchor anchors[] = {
		{1000, 1000, CLOCK_ID_TSC, 60},
		{990, 1010, CLOCK_ID_TSC, 20},
		{1000 + 3 * SECOND, 1000 + SECOND, CLOCK_ID_TSC, 30},
	};
	struct clock_line line = line_of(anchors, 3);

	cr_assert_eq(line.stretch_count, 1);
	cr_assert_eq(line.anchor_count, 2);
	cr_assert_eq(convert(&line, 990), 1010);
	clock_line_clear(&line);
}

/* Any anchors, any ticks: a time, and along one stretch never backwards. */
Test(clock, hostile)
{
	unsigned short seed[3] = {1, 2, 3};

	for (int round = 0; round < 2000; round++) {
		struct clock_anchor anchors[200];
		size_t count = (size_t)nrand48(seed) % 200;
		struct clock_cursor cursor = {0};
		struct clock_line line;

		for (size_t i = 0; i < count; i++) {
			int shift = (int)(nrand48(seed) % 60);

			anchors[i].ticks =
				((uint64_t)nrand48(seed) << 33 | (uint64_t)nrand48(seed)) >> shift;
			anchors[i].ns = ((uint64_t)nrand48(seed) << 32 | (uint64_t)nrand48(seed)) >>
					(shift + 1);
			anchors[i].width_ns = (uint32_t)nrand48(seed);
			anchors[i].clock = CLOCK_ID_TSC;
		}
		line = line_of(anchors, count);
		cr_assert_leq(line.stretch_count, CLOCK_STRETCHES);
		for (int i = 0; i < 100 && clock_line_usable(&line); i++) {
			uint64_t ticks =
				((uint64_t)nrand48(seed) << 33 | (uint64_t)nrand48(seed)) >>
				nrand48(seed) % 60;

			cr_assert_leq(clock_line_convert(&line, &cursor, ticks), INT64_MAX);
		}
		clock_line_clear(&line);
	}
}

/* Anchors that were taken a moment apart have slopes of noise, and do not outvote the good ones. */
Test(clock, noise_does_not_outvote)
{
	struct clock_anchor anchors[40] = {0};
	struct clock_line line;

	for (uint64_t i = 0; i < 40; i++) {
		anchors[i].ticks = i < 38 ? i * 3000 : (i - 37) * HERTZ;
		anchors[i].ns = SECOND + (i < 38 ? i * 1000 + i % 3 * 20 : (i - 37) * SECOND);
		anchors[i].clock = CLOCK_ID_TSC;
		anchors[i].width_ns = 50;
	}
	line = line_of(anchors, 40);
	cr_assert_eq(line.stretch_count, 1);
	cr_assert_eq(convert(&line, 3 * HERTZ), 4 * SECOND);
	clock_line_clear(&line);
}

/* Nor does a pause in which the counter stood still, however long. */
Test(clock, a_pause_does_not_outvote)
{
	struct clock_anchor anchors[] = {
		{0, SECOND, CLOCK_ID_TSC, 20},
		{HERTZ, 2 * SECOND, CLOCK_ID_TSC, 20},
		{2 * HERTZ, 3 * SECOND, CLOCK_ID_TSC, 20},
		{3 * HERTZ, 4 * SECOND, CLOCK_ID_TSC, 20},
		{4 * HERTZ, 900 * SECOND, CLOCK_ID_TSC, 20},
	};
	struct clock_line line = line_of(anchors, 5);

	cr_assert_eq(line.stretch_count, 2);
	cr_assert_eq(convert(&line, 3 * HERTZ + 300), 4 * SECOND + 100);
	cr_assert_eq(convert(&line, 4 * HERTZ + 300), 900 * SECOND + 100);
	clock_line_clear(&line);
}

/* Through a whole capture: scopes before, between and after the anchors. */
Test(clock, in_a_capture)
{
	struct maker maker;
	struct timeline *timeline;

	make_begin(&maker);
	make_process(&maker, 1, "program", CLOCK_ID_TSC);
	make_function(&maker, "f", "program");
	make_start(&maker, 1, 1, 2700, 1, "m");
	make_anchor(&maker, CLOCK_ID_TSC, 3000, 1000);
	make_stop(&maker, 1, 1, 3300, 1);
	make_anchor(&maker, CLOCK_ID_TSC, 6000, 2000);
	make_start(&maker, 1, 1, 6300, 2, "n");
	make_stop(&maker, 1, 1, 6600, 2);
	make_call(&maker, 1, 1, 0, 950, 1050, 0);
	timeline = make_open(&maker, 3000);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 1, 1, 0)), "m 900-1100\n"
									  " f 950-1050\n"
									  "n 2100-2200\n");
	timeline_close(timeline);
	make_remove(&maker);
}

/* What cannot be placed is left out and said; the rest is there. */
Test(clock, a_capture_with_one_anchor)
{
	struct maker maker;
	struct timeline *timeline;

	make_begin(&maker);
	make_process(&maker, 1, "program", CLOCK_ID_TSC);
	make_function(&maker, "f", "program");
	make_anchor(&maker, CLOCK_ID_TSC, 3000, 1000);
	make_start(&maker, 1, 1, 3300, 1, "m");
	make_stop(&maker, 1, 1, 3600, 1);
	make_call(&maker, 1, 1, 0, 950, 1050, 0);
	timeline = make_open(&maker, 3000);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 1, 1, 0)), "f 950-1050\n");
	cr_assert(strstr(said(&maker), "2 manual events cannot be placed"));
	timeline_close(timeline);
	make_remove(&maker);
}
