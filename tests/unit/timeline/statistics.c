// SPDX-License-Identifier: GPL-2.0-or-later
/* Statistics, against the same worked out the slow way. */
#include "support/capture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

enum { PID = 100 };

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

TestSuite(statistics, .init = begin, .fini = end);

static const struct function_statistics *find(const struct timeline *timeline,
					      const struct function_statistics *statistics,
					      size_t count, const char *name, uint8_t kind)
{
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(timeline->names[statistics[i].name], name) &&
		    statistics[i].kind == kind)
			return &statistics[i];
	}
	cr_assert_fail("no statistics of %s", name);
	return NULL;
}

Test(statistics, of_a_few)
{
	struct function_statistics *all;
	const struct function_statistics *one;
	struct timeline *timeline;
	size_t count;

	make_function(&maker, "f", "lib.so");
	make_function(&maker, "never", "lib.so");
	make_call(&maker, PID, PID, 0, 100, 200, 0);
	make_call(&maker, PID, PID, 0, 300, 350, 0);
	make_call(&maker, PID, PID, 0, 400, 0, SCOPE_FLAG_UNFINISHED);
	make_start(&maker, PID, PID, 110, 1, "f"); /* a manual scope of the same name is another */
	make_stop(&maker, PID, PID, 140, 1);
	timeline = make_open(&maker, 1000);
	cr_assert(!timeline_statistics(timeline, &all, &count));
	cr_assert_eq(count, 3);
	cr_assert(all[0].total_ns >= all[1].total_ns && all[1].total_ns >= all[2].total_ns);
	one = find(timeline, all, count, "f", SCOPE_HOOKED);
	cr_assert_str_eq(timeline->names[one->module], "lib.so");
	cr_assert_eq(one->function, 0);
	cr_assert_eq(one->calls, 3);
	cr_assert_eq(one->unfinished, 1);
	cr_assert_eq(one->total_ns, 100 + 50 + 600);
	cr_assert_eq(one->self_ns, 70 + 50 + 600);
	cr_assert_eq(one->min_ns, 50);
	cr_assert_eq(one->mean_ns, 75);
	cr_assert_eq(one->p50_ns, 50);
	cr_assert_eq(one->p90_ns, 100);
	cr_assert_eq(one->max_ns, 100);
	one = find(timeline, all, count, "f", SCOPE_MANUAL);
	cr_assert_eq(one->function, UINT32_MAX);
	cr_assert_eq(one->calls, 1);
	cr_assert_eq(one->total_ns, 30);
	one = find(timeline, all, count, "never", SCOPE_HOOKED);
	cr_assert_eq(one->calls, 0);
	cr_assert_eq(one->max_ns, 0);
	free(all);
	timeline_close(timeline);
}

Test(statistics, of_nothing)
{
	struct function_statistics *all;
	struct timeline *timeline = make_open(&maker, 1);
	size_t count;

	cr_assert(!timeline_statistics(timeline, &all, &count));
	cr_assert_eq(count, 0);
	free(all);
	timeline_close(timeline);
}

/* Two functions may have one name (static, in two files): they stay two. */
Test(statistics, of_two_with_one_name)
{
	struct function_statistics *all;
	struct timeline *timeline;
	size_t count;

	make_function(&maker, "helper", "program");
	make_function(&maker, "helper", "program");
	make_call(&maker, PID, PID, 0, 100, 200, 0);
	make_call(&maker, PID, PID, 1, 300, 310, 0);
	timeline = make_open(&maker, 1000);
	cr_assert(!timeline_statistics(timeline, &all, &count));
	cr_assert_eq(count, 2);
	cr_assert(all[0].function == 0 && all[1].function == 1);
	free(all);
	timeline_close(timeline);
}

/* The rank by its definition: the least value that at least p per cent of all do not exceed. */
static uint64_t slow_percentile(const uint64_t *durations, size_t count, unsigned percent)
{
	uint64_t best = UINT64_MAX;

	for (size_t i = 0; i < count; i++) {
		size_t not_above = 0;

		for (size_t j = 0; j < count; j++)
			not_above += durations[j] <= durations[i];
		if (not_above * 100 >= percent * count && durations[i] < best)
			best = durations[i];
	}
	return best;
}

Test(statistics, against_brute_force)
{
	enum { GROUPS = 12 };
	static const size_t counts[GROUPS] = {1, 2, 3, 9, 10, 11, 99, 100, 101, 199, 200, 1000};
	static uint64_t durations[GROUPS][1000];
	unsigned short seed[3] = {7, 8, 9};
	struct function_statistics *all;
	struct timeline *timeline;
	uint64_t now = 0;
	size_t count;
	char name[16];

	for (uint32_t g = 0; g < GROUPS; g++) {
		snprintf(name, sizeof(name), "f%u", g);
		if (g & 1)
			make_function(&maker, name, "program");
		for (size_t i = 0; i < counts[g]; i++, now += 10) {
			durations[g][i] = (uint64_t)nrand48(seed) % (g < 6 ? 10 : 100000);
			if (g & 1) {
				make_call(&maker, PID, PID, g / 2, now, now + durations[g][i], 0);
			} else {
				make_start(&maker, PID, PID, now, now, name);
				make_stop(&maker, PID, PID, now + durations[g][i], now);
			}
			now += durations[g][i];
		}
	}
	timeline = make_open(&maker, now);
	cr_assert(!timeline_statistics(timeline, &all, &count));
	cr_assert_eq(count, GROUPS);
	for (uint32_t g = 0; g < GROUPS; g++) {
		const struct function_statistics *one;
		uint64_t sum = 0;

		snprintf(name, sizeof(name), "f%u", g);
		one = find(timeline, all, count, name, g & 1 ? SCOPE_HOOKED : SCOPE_MANUAL);
		for (size_t i = 0; i < counts[g]; i++)
			sum += durations[g][i];
		cr_assert_eq(one->calls, counts[g]);
		cr_assert_eq(one->total_ns, sum);
		cr_assert_eq(one->self_ns, sum);
		cr_assert_eq(one->mean_ns, sum / counts[g]);
		cr_assert_eq(one->p50_ns, slow_percentile(durations[g], counts[g], 50));
		cr_assert_eq(one->p90_ns, slow_percentile(durations[g], counts[g], 90));
		cr_assert_eq(one->p99_ns, slow_percentile(durations[g], counts[g], 99));
		cr_assert_eq(one->min_ns, slow_percentile(durations[g], counts[g], 0));
		cr_assert_eq(one->max_ns, slow_percentile(durations[g], counts[g], 100));
	}
	for (size_t i = 1; i < count; i++)
		cr_assert_geq(all[i - 1].total_ns, all[i].total_ns);
	free(all);
	timeline_close(timeline);
}
