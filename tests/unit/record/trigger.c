// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Slow calls in a stream: hooked, manual, in one record or two, in ticks; and those that must not
 * be told.
 */
#include "support/capture.h"

#include <string.h>

#include <criterion/criterion.h>

#include "record/trigger.h"

enum { PID = 100, TID = 101, LIMIT = 1000 };

static struct maker maker;
static struct trigger *trigger;
static struct trigger_call call;
static uint64_t count;

static void begin(void)
{
	make_begin(&maker);
	trigger = trigger_create(maker.output);
	cr_assert(trigger && !trigger_watch(trigger, "other", 5, LIMIT));
	cr_assert(!trigger_watch(trigger, "slow>", 4, LIMIT));
	maker.output = trigger_output(trigger);
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	cr_assert(!maker.output->process(
		maker.output, &(struct process_info){.pid = PID, .clock = CLOCK_ID_MONOTONIC}));
}

static void end(void)
{
	trigger_destroy(trigger);
	make_remove(&maker);
}

TestSuite(trigger, .init = begin, .fini = end);

static void expect_one(uint64_t ns)
{
	cr_assert(trigger_take(trigger, &call, &count));
	cr_assert_eq(count, 1);
	cr_assert_eq(call.watched, 1);
	cr_assert_eq(call.ns, ns);
	cr_assert_eq(call.pid, PID);
	cr_assert_eq(call.tid, TID);
	cr_assert(!trigger_take(trigger, &call, &count), "told once");
}

static void expect_none(void)
{
	cr_assert(!trigger_take(trigger, &call, &count));
}

Test(trigger, hooked)
{
	make_function(&maker, "fast", "program");
	make_function(&maker, "any", "program");
	cr_assert(!trigger_watch_function(trigger, 1, 1));
	make_call(&maker, PID, TID, 0, 0, 5000, 0);
	make_call(&maker, PID, TID, 1, 0, LIMIT, 0);
	make_call(&maker, PID, TID, 1, 0, 5000, SCOPE_FLAG_UNFINISHED);
	make_call(&maker, PID, TID, 1, 0, 5000, SCOPE_FLAG_UNWOUND);
	expect_none();
	make_call(&maker, PID, TID, 1, 0, LIMIT + 1, 0);
	expect_one(LIMIT + 1);
	cr_assert_eq(trigger_seen(trigger, 1), 2);
	cr_assert_eq(trigger_seen(trigger, 0), 0);
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 1).completed, 2, "all went on");
}

Test(trigger, manual)
{
	make_start(&maker, PID, TID, 100, 1, "slow");
	make_start(&maker, PID, TID, 200, 2, "slower");
	make_start(&maker, PID, TID + 64, 200, 3, "slow");
	make_stop(&maker, PID, TID, 9000, 2);
	make_stop(&maker, PID, TID + 64, 9000, 1);
	expect_none();
	make_stop(&maker, PID, TID, 100 + LIMIT + 1, 1);
	expect_one(LIMIT + 1);
	make_stop(&maker, PID, TID, 9000, 1);
	expect_none();
	make_start(&maker, PID, TID, 10000, 4, "slow");
	make_stop(&maker, PID, TID, 10000 + LIMIT, 4);
	expect_none();
	cr_assert_eq(scope_file_writer_manual_in_file(maker.writer), 9, "all went on");
}

Test(trigger, complete)
{
	make_complete(&maker, PID, TID, 50, 50 + LIMIT, 0, "slow");
	expect_none();
	make_complete(&maker, PID, TID, 50, 50 + 2 * LIMIT, 0, "slow");
	expect_one(2 * LIMIT);
}

Test(trigger, in_ticks)
{
	cr_assert(!maker.output->process(
		maker.output, &(struct process_info){.pid = PID, .clock = CLOCK_ID_TSC}));
	make_complete(&maker, PID, TID, 0, 1u << 30, 0, "slow");
	expect_none(); /* nobody knows yet how fast it runs */
	make_anchor(&maker, CLOCK_ID_TSC, 1000, 1000);
	make_anchor(&maker, CLOCK_ID_TSC, 3000, 2000);
	make_complete(&maker, PID, TID, 0, 2 * LIMIT, 0, "slow");
	expect_none();
	make_complete(&maker, PID, TID, 0, 4 * LIMIT, 0, "slow");
	expect_one(2 * LIMIT);
}

static void expect_name(void *context, uint32_t *id)
{
	size_t *count = context;

	if (*id) {
		cr_assert_eq(*id, make_name(&maker, "slow"));
		++*count;
	}
}

/* Whoever numbers names anew is shown all that are held here. */
Test(trigger, names)
{
	size_t names = 0;

	make_start(&maker, PID, TID, 100, 1, "slow");
	make_start(&maker, PID, TID, 200, 2, "slower");
	trigger_visit_names(trigger, expect_name, &names);
	cr_assert_eq(names, 2);
}

/* Starts whose stop is lost do not take ever more, and do not hide later ones. */
Test(trigger, lost_stops)
{
	for (uint64_t id = 1; id < 10000; id++)
		make_start(&maker, PID, TID, id, id, "slow");
	make_stop(&maker, PID, TID, 50000, 9999);
	expect_one(50000 - 9999);
	make_stop(&maker, PID, TID, 50000, 1);
	expect_none();
}

Test(trigger, counts)
{
	for (uint64_t i = 0; i < 3; i++)
		make_complete(&maker, PID, TID + (uint32_t)i, 0, 5000 + i, 0, i ? "slow" : "other");
	cr_assert(trigger_take(trigger, &call, &count));
	cr_assert_eq(count, 3);
	cr_assert_eq(call.watched, 0);
	cr_assert_eq(call.ns, 5000);
}

/* One name may be watched twice: each is judged by its own length, and has seen the call. */
Test(trigger, two_of_one_name)
{
	cr_assert(!trigger_watch(trigger, "slow", 4, LIMIT / 2));
	make_complete(&maker, PID, TID, 0, LIMIT / 2 + 1, 0, "slow");
	cr_assert(trigger_take(trigger, &call, &count));
	cr_assert_eq(count, 1);
	cr_assert_eq(call.watched, 2);
	make_start(&maker, PID, TID, 10000, 4, "slow");
	make_stop(&maker, PID, TID, 10000 + LIMIT + 1, 4);
	cr_assert(trigger_take(trigger, &call, &count));
	cr_assert_eq(count, 2);
	cr_assert_eq(trigger_seen(trigger, 1), 2);
	cr_assert_eq(trigger_seen(trigger, 2), 2);
}
