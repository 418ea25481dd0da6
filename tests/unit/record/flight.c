// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The flight recorder: what it keeps and what it lets go of, by a clock of the test's own; and that
 * nothing goes uncounted.
 */
#include "support/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "event/accounting.h"
#include "record/flight.h"

enum { PID = 100, TID = 101, WINDOW = 6400 };

static struct maker maker;
static struct flight *flight;
static struct event_output *output;
static uint64_t clock_ns, ticks_per_ns = 1;

static uint64_t test_clock(void)
{
	return clock_ns;
}

static void open_flight(size_t bytes)
{
	struct function_info function = {.address = 4};

	flight = flight_create(WINDOW, bytes);
	cr_assert(flight);
	flight_set_clock(flight, test_clock);
	output = flight_output(flight);
	cr_assert(!output->string(output, "f", 1, &function.name));
	cr_assert(!output->string(output, "program", 7, &function.module));
	cr_assert(!flight_function(flight, &function));
}

static void begin(void)
{
	make_begin(&maker);
	clock_ns = 1000;
	open_flight(FLIGHT_BYTES_LEAST);
}

static void end(void)
{
	flight_destroy(flight);
	make_remove(&maker);
}

TestSuite(flight, .init = begin, .fini = end);

static void put_call(uint64_t start, uint64_t end, uint16_t flags)
{
	struct hooked_scope scope = {.start_ns = start,
				     .end_ns = end,
				     .sp = end,
				     .pid = PID,
				     .tid = TID,
				     .flags = flags};

	clock_ns = end;
	cr_assert(!output->hooked(output, &scope, 1));
}

static void put_event(enum manual_kind kind, uint64_t ticks, uint64_t id, const char *name)
{
	struct manual_event event = {
		.ticks = ticks, .scope_id = id, .pid = PID, .tid = TID, .kind = (uint8_t)kind};

	clock_ns = ticks / ticks_per_ns;
	if (name)
		cr_assert(!output->string(output, name, strlen(name), &event.name));
	cr_assert(!output->manual(output, &event, 1));
}

static void put_process(uint32_t clock, uint32_t segment)
{
	struct process_info process = {.pid = PID, .clock = clock, .segment = segment};

	cr_assert(!output->string(output, "prog", 4, &process.name));
	cr_assert(!output->process(output, &process));
}

/*
 * The file of the window; the writer is closed. The account holds, for `completed` calls and
 * `events`.
 */
static struct timeline *written(uint64_t since_ns, uint64_t completed, uint64_t events)
{
	struct flight_writing how = {.since_ns = since_ns, .last = true};
	struct function_accounting terms = {.entries = completed,
					    .opened = completed,
					    .completed = completed,
					    .returns = completed};
	struct segment_accounting segment = {.cursor = events, .delivered = events, .pid = PID};
	struct timeline *timeline;

	cr_assert(!flight_write(flight, maker.writer, &how));
	terms.expired = flight_expired_calls(flight, 0);
	segment.expired = flight_expired_events(flight);
	segment.events = events - segment.expired;
	cr_assert(!scope_file_writer_function_accounting(maker.writer, 0, &terms));
	if (events)
		cr_assert(!scope_file_writer_segment_accounting(maker.writer, &segment));
	cr_assert(!scope_file_writer_finish(maker.writer, since_ns, clock_ns, 0));
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline, "%s", said(&maker));
	make_lanes(timeline);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	return timeline;
}

static const char *text(const struct timeline *timeline)
{
	return lane_text(timeline, lane_of(timeline, PID, TID, 0));
}

/* ---- the window ---- */

Test(flight, keeps_the_window)
{
	struct timeline *timeline;

	put_process(0, 0);
	for (uint64_t i = 0; i < 100; i++)
		put_call(2000 + i * 1000, 2100 + i * 1000, 0);
	/*
	 * Blocks are shorter than a call's distance here: what is older than the window has gone.
	 */
	cr_assert_eq(flight_expired_calls(flight, 0), 93);
	timeline = written(0, 100, 0);
	cr_assert_str_eq(text(timeline),
			 "f 95000-95100\nf 96000-96100\nf 97000-97100\nf 98000-98100\n"
			 "f 99000-99100\nf 100000-100100\nf 101000-101100\n");
	cr_assert_eq(timeline->accounting.sum.expired, 93);
	timeline_close(timeline);
}

Test(flight, goes_without_new_events)
{
	put_call(1000, 2000, 0);
	clock_ns += WINDOW;
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 0, "as old as the window");
	clock_ns++;
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 1);
	cr_assert_eq(flight_bytes(flight), 0);
}

/* What came with later calls, but ended before the window, is left out of the file and counted. */
Test(flight, is_cut_exactly)
{
	struct timeline *timeline;
	struct hooked_scope scopes[] = {
		{.start_ns = 10, .end_ns = 100, .pid = PID, .tid = TID},
		{.start_ns = 101, .end_ns = 199, .pid = PID, .tid = TID},
		{.start_ns = 150, .end_ns = 200, .pid = PID, .tid = TID, .sp = 1},
		{.start_ns = 50,
		 .end_ns = 60,
		 .pid = PID,
		 .tid = TID,
		 .sp = 2,
		 .flags = SCOPE_FLAG_UNWOUND},
		{.start_ns = 210, .end_ns = 220, .pid = PID, .tid = TID, .sp = 3}};

	put_process(0, 0);
	cr_assert(!output->hooked(output, scopes, 5));
	cr_assert_eq(flight_expired_calls(flight, 0), 0);
	timeline = written(200, 5, 0);
	cr_assert_str_eq(text(timeline), "f 150-200\nf 210-220\n");
	cr_assert_eq(timeline->accounting.sum.expired, 3);
	timeline_close(timeline);
}

Test(flight, unfinished_calls_are_not_counted)
{
	put_call(1000, 2000, SCOPE_FLAG_UNFINISHED);
	put_call(1000, 2000, 0);
	clock_ns += 2 * WINDOW;
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 1);
}

Test(flight, is_held)
{
	put_call(1000, 2000, 0);
	flight_hold(flight, 2000);
	clock_ns += 10 * WINDOW;
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 0);
	flight_hold(flight, 0);
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 1);
}

/* ---- what outlives it ---- */

Test(flight, names_outlive_it)
{
	struct thread_info thread = {
		.pid = PID, .tid = TID, .change = THREAD_NAMED, .time_ns = 900};
	struct timeline *timeline;
	uint32_t unused;

	put_process(CLOCK_ID_MONOTONIC, 0);
	cr_assert(!output->string(output, "worker", 6, &thread.name));
	cr_assert(!output->thread(output, &thread));
	cr_assert(!output->string(output, "unused", 6, &unused));
	put_event(MANUAL_INSTANT, 2000, 1, "early");
	put_call(100000, 100100, 0);
	timeline = written(100000, 1, 1);
	cr_assert_str_eq(text(timeline), "f 100000-100100\n");
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID, TID, 0)->name], "worker");
	cr_assert_str_eq(timeline->names[timeline->processes[0].name], "prog");
	for (size_t i = 0; i < timeline->name_count; i++)
		cr_assert(strcmp(timeline->names[i], "unused") &&
			  strcmp(timeline->names[i], "early"));
	timeline_close(timeline);
}

Test(flight, given_names_outlive_it)
{
	struct timeline *timeline;

	put_process(CLOCK_ID_MONOTONIC, 0);
	put_event(MANUAL_THREAD_NAME, 2000, 1, "render");
	put_call(100000, 100100, 0);
	timeline = written(100000, 1, 1);
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID, TID, 0)->name], "render");
	timeline_close(timeline);
}

Test(flight, open_scopes_outlive_it)
{
	struct timeline *timeline;

	put_process(CLOCK_ID_MONOTONIC, 7);
	put_event(MANUAL_START, 2000, 1, "session");
	put_event(MANUAL_START, 2010, 2, "over");
	put_event(MANUAL_STOP, 2020, 2, NULL);
	put_call(100000, 100100, 0);
	cr_assert_eq(flight_expired_events(flight), 3);
	put_event(MANUAL_STOP, 101000, 1, NULL);
	timeline = written(100000, 1, 4);
	cr_assert_eq(flight_expired_events(flight), 2);
	cr_assert_str_eq(text(timeline), "session 2000-101000\n f 100000-100100\n");
	cr_assert_eq(timeline->accounting.segment_expired, 2);
	timeline_close(timeline);
}

/* What a program had begun is not begun in the one that takes its place. */
Test(flight, open_scopes_end_with_their_program)
{
	struct timeline *timeline;

	put_process(CLOCK_ID_MONOTONIC, 7);
	put_event(MANUAL_START, 2000, 1, "session");
	put_process(CLOCK_ID_MONOTONIC, 8);
	put_call(100000, 100100, 0);
	timeline = written(100000, 1, 1);
	cr_assert_str_eq(text(timeline), "f 100000-100100\n");
	timeline_close(timeline);
}

/* The last anchors from before the window, so that ticks can be told. */
Test(flight, anchors_outlive_it)
{
	struct timeline *timeline;

	ticks_per_ns = 2;
	put_process(CLOCK_ID_TSC, 0);
	for (uint64_t i = 1; i < 100; i++) {
		struct clock_anchor anchor = {
			.ticks = i * 2000, .ns = i * 1000, .clock = CLOCK_ID_TSC};

		clock_ns = i * 1000;
		cr_assert(!output->anchor(output, &anchor));
	}
	put_call(1000000, 1000100, 0);
	put_event(MANUAL_START, 2000000, 1, "m");
	put_event(MANUAL_STOP, 2000100, 1, NULL);
	timeline = written(900000, 1, 2);
	cr_assert_str_eq(text(timeline), "f 1000000-1000100\n m 1000000-1000050\n");
	timeline_close(timeline);
}

/* ---- bounds ---- */

Test(flight, memory_has_a_bound)
{
	enum { CALLS = 400000 };
	struct timeline *timeline;

	put_process(0, 0);
	for (uint64_t i = 0; i < CALLS; i++) {
		put_call(2000, 2000 + i / 4000, 0);
		cr_assert(flight_bytes(flight) <= FLIGHT_BYTES_LEAST);
	}
	cr_assert(flight_shortest_ns(flight) > 0 && flight_shortest_ns(flight) < WINDOW);
	cr_assert(flight_expired_calls(flight, 0) > CALLS / 2);
	timeline = written(0, CALLS, 0);
	cr_assert_eq(timeline->accounting.in_file + flight_expired_calls(flight, 0), CALLS);
	cr_assert(timeline->accounting.in_file >
		  FLIGHT_BYTES_LEAST / sizeof(struct hooked_scope) / 2);
	timeline_close(timeline);
}

static void put_thread(uint32_t tid, enum thread_change change)
{
	struct thread_info thread = {
		.pid = PID, .tid = tid, .change = (uint32_t)change, .time_ns = clock_ns};

	cr_assert(!output->string(output, "worker", 6, &thread.name));
	cr_assert(!output->thread(output, &thread));
}

/* Threads that come and go, and those that come and whose end nobody tells, are forgotten; one that is at
 * something is not. */
Test(flight, threads_have_a_bound)
{
	enum { THREADS = 300000, MOST = 65536 };
	struct timeline *timeline;

	put_process(CLOCK_ID_MONOTONIC, 0);
	put_event(MANUAL_START, clock_ns, 1, "long");
	put_thread(TID, THREAD_NAMED);
	for (uint32_t i = 0; i < THREADS; i++) {
		clock_ns += 10;
		put_thread(1000 + i, THREAD_NAMED);
		put_thread(1000 + i, THREAD_EXITED);
		cr_assert_lt(flight_known_threads(flight), 8192);
	}
	for (uint32_t i = 0; i < THREADS; i++) {
		clock_ns += 10;
		put_thread(1000000 + i, THREAD_NAMED);
		cr_assert_leq(flight_known_threads(flight), MOST);
	}
	put_event(MANUAL_STOP, clock_ns, 1, NULL);
	put_call(clock_ns, clock_ns + 100, 0);
	timeline = written(clock_ns - 100, 1, 2);
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID, TID, 0)->name], "worker");
	timeline_close(timeline);
}

Test(flight, without_want_of_memory_it_is_not_shorter)
{
	for (uint64_t i = 0; i < 1000; i++)
		put_call(2000 + i * 100, 2010 + i * 100, 0);
	cr_assert_eq(flight_shortest_ns(flight), 0);
	cr_assert(flight_expired_calls(flight, 0) > 0);
}

static uint32_t of_others[2]; /* ids that who puts has */

static void visit_others(void *context, intern_visitor visit, void *visited)
{
	for (size_t i = 0; i < 2; i++)
		visit(visited, &((uint32_t *)context)[i]);
}

/*
 * Names that nothing in the window bears are forgotten, those that something bears anywhere are
 * not.
 */
Test(flight, names_without_end)
{
	enum { NAMES = 300000 };
	struct manual_event event = {.pid = PID, .tid = TID, .kind = MANUAL_INSTANT, .scope_id = 1};
	struct thread_info thread = {.pid = PID, .tid = TID, .change = THREAD_NAMED};
	struct timeline *timeline;
	size_t most = 0;
	char name[32];

	put_process(CLOCK_ID_MONOTONIC, 0);
	cr_assert(!output->string(output, "thread", 6, &thread.name));
	cr_assert(!output->thread(output, &thread));
	put_event(MANUAL_START, 2000, 7, "open");
	cr_assert(!output->string(output, "other", 5, &of_others[0]));
	for (uint64_t i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "request %d", (int)i);
		put_event(MANUAL_START, 3000 + 1000 * i, 8, name);
		put_event(MANUAL_STOP, 3500 + 1000 * i, 8, NULL);
		flight_collect_names(flight, visit_others, of_others);
		most = flight_names(flight) > most ? flight_names(flight) : most;
	}
	cr_assert_leq(most, 3 * 65536);
	clock_ns += 1000;
	event.ticks = clock_ns;
	event.name = of_others[0];
	cr_assert(!output->manual(output, &event, 1));
	timeline = written(clock_ns - WINDOW, 0, 2 * NAMES + 2);
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID, TID, 0)->name], "thread");
	cr_assert_str_eq(timeline->names[timeline->processes[0].name], "prog");
	cr_assert_str_eq(timeline->names[timeline->functions[0].info.name], "f");
	cr_assert(strstr(text(timeline), "open 2000-"));
	cr_assert(strstr(text(timeline), " request 299999 300002000-300002500"), "%s",
		  text(timeline));
	cr_assert_leq(timeline->name_count, 32);
	cr_assert_str_eq(timeline->names[lane_of(timeline, PID, TID, 0)->marks[0].name], "other");
	timeline_close(timeline);
}

static int meanwhile;

static int put_more(void *context)
{
	(void)context;
	clock_ns += 2 * WINDOW;
	put_call(clock_ns, clock_ns + 1, 0);
	return meanwhile++ < 100 ? 0 : -EIO;
}

/* What comes while a file is written is in the next one, and the block being written stays. */
Test(flight, goes_on_while_a_file_is_written)
{
	struct flight_writing how = {.between = put_more};
	struct timeline *timeline;

	clock_ns = 2000;
	put_process(0, 0);
	put_call(2000, 2010, 0);
	cr_assert(!flight_write(flight, maker.writer, &how));
	cr_assert_eq(meanwhile, 1);
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 0).completed, 1);
	cr_assert_eq(flight_expired_calls(flight, 0), 0, "held while it is written");
	cr_assert(!scope_file_writer_finish(maker.writer, 0, clock_ns, 0));
	timeline = timeline_open(maker.path);
	cr_assert(timeline && timeline->accounting.open, "there is no account of what goes on");
	timeline_close(timeline);
	flight_expire(flight);
	cr_assert_eq(flight_expired_calls(flight, 0), 1);
	maker.writer = scope_file_writer_create(maker.path, 0, NULL);
	how.between = NULL;
	cr_assert(!flight_write(flight, maker.writer, &how));
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 0).completed, 1);
}

/* Of the calls that were running, those that have ended since are written as ended, and once. */
Test(flight, running_calls)
{
	const struct hooked_scope open[] = {
		{.start_ns = 2100,
		 .end_ns = 2200,
		 .sp = 2150,
		 .pid = PID,
		 .tid = TID,
		 .flags = SCOPE_FLAG_UNFINISHED},
		{.start_ns = 2000,
		 .end_ns = 2200,
		 .sp = 9000,
		 .pid = PID,
		 .tid = TID,
		 .flags = SCOPE_FLAG_UNFINISHED},
	};
	const struct flight_writing how = {.open = open, .open_count = 2};
	struct timeline *timeline;

	put_process(0, 0);
	put_call(2100, 2150, 0);
	cr_assert(!flight_write(flight, maker.writer, &how));
	cr_assert(!scope_file_writer_finish(maker.writer, 0, clock_ns, 0));
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline);
	make_lanes(timeline);
	cr_assert_eq(lane_of(timeline, PID, TID, 0)->scope_count, 2);
	cr_assert(lane_of(timeline, PID, TID, 0)->scopes[0].flags & SCOPE_FLAG_UNFINISHED);
	cr_assert_eq(lane_of(timeline, PID, TID, 0)->scopes[1].end_ns, 2150);
	cr_assert(!(lane_of(timeline, PID, TID, 0)->scopes[1].flags & SCOPE_FLAG_UNFINISHED));
	timeline_close(timeline);
}

Test(flight, failures_are_passed_on)
{
	struct flight_writing how = {.between = put_more};

	meanwhile = 100;
	put_call(2000, 2010, 0);
	cr_assert_eq(flight_write(flight, maker.writer, &how), -EIO);
}

Test(flight, undeclared_functions)
{
	struct hooked_scope scope = {.function = 1};
	struct function_info function = {.id = 5};

	cr_assert_eq(output->hooked(output, &scope, 1), -EINVAL);
	cr_assert_eq(flight_function(flight, &function), -EINVAL);
	cr_assert(strstr(said(&maker), "out of order"));
}
