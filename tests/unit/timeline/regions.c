// SPDX-License-Identifier: GPL-2.0-or-later
/* A capture of any size is read in memory that does not grow with it. */
#include "support/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <criterion/criterion.h>

#include "base/io.h"

enum { PID = 100, TID = 101, NESTS = 300000, DEPTH = 10, BATCH = 1000, REGION = 256 * 1024 };
#define ROOM (128ull << 20) /* what reading may take; as a whole the capture takes some 500 MiB */

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

TestSuite(regions, .init = begin, .fini = end);

/*
 * Nests of hooked calls, each inside an outer call that lasts throughout, as one thread would write
 * them.
 */
static void make_nests(void)
{
	static struct hooked_scope scopes[BATCH];
	uint64_t now = 1000;
	size_t count = 0;
	char name[16];

	for (uint32_t i = 0; i <= DEPTH; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		make_function(&maker, name, "program");
	}
	make_start(&maker, PID, TID, 500, 1, "all of it");
	for (uint32_t nest = 0; nest < NESTS; nest++, now += 100) {
		for (uint32_t i = DEPTH; i--;) {
			scopes[count++] = (struct hooked_scope){.start_ns = now + i,
								.end_ns = now + 50 - i,
								.sp = 0x7000 - i * 64,
								.pid = PID,
								.tid = TID,
								.function = i};
			scopes_in_file_add(&maker.hooked[i], 0);
		}
		if (count == BATCH) {
			cr_assert(!maker.output->hooked(maker.output, scopes, count));
			count = 0;
		}
	}
	make_call_at(&maker, PID, TID, DEPTH, 900, now, 0x8000, 0);
	make_stop(&maker, PID, TID, now + 1, 1);
	make_end(&maker, 0, now + 10);
}

/* The process may grow by so much. */
static void __attribute__((unused)) limit_memory(uint64_t bytes)
{
	struct rlimit limit;
	unsigned long pages;
	size_t length;
	char *statm;

	cr_assert(!io_read_file("/proc/self/statm", &statm, &length));
	cr_assert_eq(sscanf(statm, "%lu", &pages), 1);
	free(statm);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + bytes;
	cr_assert(!setrlimit(RLIMIT_AS, &limit));
}

Test(regions, three_million_scopes_in_bounded_memory, .timeout = 300)
{
	struct timeline *timeline;
	struct timeline_summary summary;
	uint64_t calls = 0, self_ns = 0;

	make_nests();
#ifndef __SANITIZE_ADDRESS__ /* which takes terabytes of addresses */
	limit_memory(ROOM);
	timeline = timeline_open_with(maker.path, 1ull << 40);
	cr_assert(timeline);
	cr_assert_eq(timeline_summarise(timeline, &summary), -ENOMEM,
		     "the limit must not allow the whole");
	timeline_close(timeline);
#endif
	timeline = timeline_open_with(maker.path, REGION);
	cr_assert(timeline, "%s", said(&maker));
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_eq(timeline_summarise(timeline, &summary), 0);
	cr_assert_eq(timeline->lane_count, 1);
	cr_assert_eq(timeline->lanes[0].scope_count, NESTS * DEPTH + 2);
	cr_assert_eq(timeline->lanes[0].max_depth, DEPTH + 1);
	for (size_t i = 0; i < summary.function_count; i++) {
		calls += summary.functions[i].calls;
		self_ns += summary.functions[i].self_ns;
	}
	cr_assert_eq(calls, NESTS * DEPTH + 2);
	/* What each spends itself is in all what the outermost lasts. */
	cr_assert_eq(self_ns, NESTS * 100ull + 1000 + 1 - 500);
	timeline_summary_clear(&summary);
	timeline_close(timeline);
}

/* An argument and a flow of a scope that began regions before. */
Test(regions, arguments_of_an_outer_scope)
{
	struct timeline *timeline;

	make_function(&maker, "f", "program");
	make_start(&maker, PID, TID, 10, 1, "outer");
	for (uint64_t i = 0; i < 100; i++)
		make_call(&maker, PID, TID, 0, 100 + i * 10, 105 + i * 10, 0);
	make_event(&maker, PID, TID, MANUAL_ARGUMENT, 2000, 0, 42, "argument");
	make_stop(&maker, PID, TID, 3000, 1);
	timeline = make_open(&maker, 4000); /* also in small regions */
	cr_assert_eq(timeline->lanes[0].marks[0].scope, 0);
	cr_assert_str_eq(timeline->names[timeline->lanes[0].marks[0].scope_name], "outer");
	timeline_close(timeline);
}

/*
 * Hooked calls that come through another way, much later than the manual scopes around them, and
 * before.
 */
Test(regions, one_kind_lags_behind_the_other)
{
	make_function(&maker, "f", "program");
	for (uint64_t i = 0; i < 50; i++) {
		make_start(&maker, PID, TID, 100 + i * 100, i, "m");
		make_stop(&maker, PID, TID, 180 + i * 100, i);
	}
	for (uint64_t i = 0; i < 80; i++)
		make_call(&maker, PID, TID, 0, 120 + i * 100, 130 + i * 100, 0);
	for (uint64_t i = 50; i < 80; i++) {
		make_complete(&maker, PID, TID, 125 + i * 100, 128 + i * 100, 0, "c");
		make_start(&maker, PID, TID, 140 + i * 100, i, "m");
		make_stop(&maker, PID, TID, 180 + i * 100, i);
	}
	timeline_close(make_open(&maker, 10000));
}
