// SPDX-License-Identifier: GPL-2.0-or-later
#include "sample.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"

static char *names[SAMPLE_NAMES] = {
	[NAME_NONE] = "",
	[NAME_MAIN] = "main",
	[NAME_UPDATE] = "update",
	[NAME_RENDER] = "render_frame",
	[NAME_PHYSICS] = "physics_step",
	[NAME_WORKER] = "worker-1",
	[NAME_DEMO] = "demo",
	[NAME_HOSTILE] = HOSTILE_NAME,
	[NAME_COMMAND] = "./demo --frames 60",
	[NAME_IDLE] = "idle, \"never\" called",
	[NAME_LONG] = "void engine::scene::visit<engine::scene::Node, "
		      "engine::allocator<engine::scene::Node>>(Node &)",
	[NAME_TICK] = "tick",
};

#define HOOKED(n, start, end, d, f)                                                     \
	{                                                                               \
		.start_ns = (start), .end_ns = (end), .name = (n), .module = NAME_DEMO, \
		.function = (f), .depth = (d), .kind = SCOPE_HOOKED                     \
	}
#define MANUAL(n, start, end, d)                                                           \
	{                                                                                  \
		.start_ns = (start), .end_ns = (end), .name = (n), .function = UINT32_MAX, \
		.depth = (d), .kind = SCOPE_MANUAL                                         \
	}

static struct scope main_scopes[] = {
	/* A frame; a call that starts with it, with a call of no length at its very end; a sibling that
	   touches it. */
	[0] = MANUAL(NAME_UPDATE, 1000000, 9000000, 0),
	[1] = HOOKED(NAME_RENDER, 1000000, 5000000, 1, 0),
	[2] = HOOKED(NAME_HOSTILE, 5000000, 5000000, 2, 2),
	[3] = HOOKED(NAME_PHYSICS, 5000000, 9000000, 1, 1),
	[4] = HOOKED(NAME_HOSTILE, 5000000, 9000000, 2, 2), /* all of its parent */
	/* Of no length, beside each other, at the end of the frame; then the next frame begins. */
	[5] = HOOKED(NAME_PHYSICS, 9000000, 9000000, 0, 1),
	[6] = HOOKED(NAME_PHYSICS, 9000000, 9000000, 0, 1),
	[7] = MANUAL(NAME_UPDATE, 9000000, 20001500, 0),
	[8] = HOOKED(NAME_LONG, 9000321, 20001500, 1, 4),
};

/* Two fibers: b begins inside a and outlives it. */
static struct scope fiber_scopes[] = {
	HOOKED(NAME_RENDER, 2000000, 4000000, 0, 0),
	HOOKED(NAME_PHYSICS, 3000000, 6000000, 0, 1),
	MANUAL(NAME_UPDATE, 3500000, 5500000, 1),
	HOOKED(NAME_RENDER, 4000000, 4500000, 0, 0),
};

/*
 * One that was left by an exception, after an entry without a return; it began on another thread.
 */
static struct scope successor_scopes[] = {
	HOOKED(NAME_PHYSICS, 8000000, 10000000, 0, 1),
	HOOKED(NAME_RENDER, 8500000, 9000000, 1, 0),
	HOOKED(NAME_HOSTILE, 8600000, 8600000, 2, 2),
	HOOKED(NAME_HOSTILE, 8600000, 8700000, 2, 2),
};

#define MARK(t, k, n, v)                                                                       \
	{                                                                                      \
		.time_ns = (t), .value = (v), .name = (n), .scope = MARK_NO_SCOPE, .kind = (k) \
	}
#define MARK_OF(s, t, k, n, v)                                           \
	{                                                                \
		.time_ns = (t), .value = (v), .name = (n), .scope = (s), \
		.scope_name = NAME_OF_SCOPE(s), .kind = (k)              \
	}
#define NAME_OF_SCOPE(s) \
	((s) == 1 ? NAME_PHYSICS : NAME_UPDATE) /* only those of main 0 and 7, fiber 1 */
#define HALF 0x3fe0000000000000ull		/* the bits of 0.5 */

static struct mark marks[] = {
	MARK_OF(0, 1000000, MANUAL_ARGUMENT, NAME_HOSTILE, (uint64_t)-5),
	MARK_OF(0, 1000000, MANUAL_FLOW, NAME_NONE, 7),
	MARK(1500000, MANUAL_INSTANT, NAME_TICK, 0),
	MARK_OF(0, 2000000, MANUAL_ARGUMENT, NAME_TICK, 1),
	MARK_OF(0, 2000001, MANUAL_FLOW, NAME_NONE, 8),
	MARK(5000000, MANUAL_COUNTER_INT, NAME_TICK, (uint64_t)-7),
	MARK(5500000, MANUAL_FRAME, NAME_DEMO, 0),
	MARK(6500000, MANUAL_FRAME, NAME_DEMO, 0), /* the frame before it was hit by a loss */
	MARK(7000000, MANUAL_COUNTER_DOUBLE, NAME_TICK, HALF),
	MARK(8500000, MANUAL_FRAME, NAME_DEMO, 0),
	MARK(9000000, MANUAL_FRAME, NAME_DEMO, 0),
	MARK_OF(7, 9000001, MANUAL_ARGUMENT, NAME_TICK, 3),
	MARK(18000000, MANUAL_FRAME, NAME_DEMO, 0),
	MARK(30000000, MANUAL_FRAME, NAME_NONE, 0),
	MARK(30000000, MANUAL_ARGUMENT, NAME_IDLE, 9), /* outside of any scope */
	MARK(30000000, MANUAL_FLOW, NAME_NONE, 8),
};

static struct mark fiber_marks[] = {
	MARK(1000000, MANUAL_ASYNC_START, NAME_UPDATE, 1), /* drawn as slices, below */
	MARK_OF(1, 3100000, MANUAL_FLOW, NAME_NONE, 7),
	MARK(4000000, MANUAL_COUNTER_INT, NAME_UPDATE, INT64_MAX),
};

/* Two at a time; one that takes the place of the first; one that did not end; another process's. */
static struct async_slice asyncs[] = {
	{1000000, 4000000, 1, 100, NAME_UPDATE, 0},
	{2000000, 3000000, 2, 100, NAME_UPDATE, 0},
	{3000000, 3000000, 3, 100, NAME_UPDATE, 0},
	{4000000, 21000000, UINT64_MAX, 100, NAME_UPDATE, SCOPE_FLAG_UNFINISHED},
	{5000000, 6000000, 1, 100, NAME_HOSTILE, 0},
	{1000000, 2000000, 1, 200, NAME_UPDATE, 0},
};

#define SCOPES(array) .scopes = (array), .scope_count = sizeof(array) / sizeof((array)[0])

static struct name_change worker_names[] = {
	{.time_ns = 600, .name = NAME_IDLE},
	{.time_ns = 2500000, .name = NAME_WORKER, .order = 1},
};

static struct lane lanes[] = {
	{.pid = 100,
	 .tid = 100,
	 .name = NAME_MAIN,
	 .max_depth = 2,
	 SCOPES(main_scopes),
	 .marks = marks,
	 .mark_count = sizeof(marks) / sizeof(marks[0])},
	{.pid = 100,
	 .tid = 101,
	 .start_ns = 500,
	 .end_ns = 7000000,
	 .name = NAME_WORKER,
	 .names = worker_names,
	 .name_count = 2,
	 .max_depth = 1,
	 SCOPES(fiber_scopes),
	 .marks = fiber_marks,
	 .mark_count = sizeof(fiber_marks) / sizeof(fiber_marks[0])},
	{.pid = 100,
	 .tid = 101,
	 .start_ns = 7500000,
	 .name = NAME_HOSTILE,
	 .max_depth = 2,
	 SCOPES(successor_scopes)}, /* recycled */
	{.pid = 200, .tid = 200, .name = NAME_IDLE},
};

static struct process_info processes[] = {
	{.pid = 100,
	 .name = NAME_DEMO,
	 .command = NAME_COMMAND,
	 .start_ns = 300,
	 .time_ns = 3000000},
	{.pid = 200, .name = NAME_IDLE, .command = NAME_COMMAND, .parent = 100, .start_ns = 400},
};

/* The first called exec. */
static struct process_change process_changes[] = {
	{.process = 0, .name = NAME_MAIN},
	{.process = 0, .name = NAME_DEMO, .command = NAME_COMMAND, .time_ns = 3000000},
	{.process = 1, .name = NAME_IDLE, .command = NAME_COMMAND},
};

#define CALLS(n)                                                                \
	{                                                                       \
		.entries = (n), .returns = (n), .opened = (n), .completed = (n) \
	}

static struct function_entry functions[] = {
	{.info = {.id = 0, .name = NAME_RENDER, .module = NAME_DEMO},
	 .accounting = {.entries = 4, .returns = 3, .opened = 4, .completed = 3, .unwound = 1},
	 .in_file = {.completed = 3, .unwound = 1},
	 .accounted = true},
	{.info = {.id = 1, .name = NAME_PHYSICS, .module = NAME_DEMO},
	 .accounting = {.entries = 9,
			.returns = 6,
			.opened = 8,
			.completed = 6,
			.discarded = 1,
			.too_deep = 1,
			.unfinished = 1,
			.ring_lost = 2},
	 .in_file = {.completed = 4},
	 .accounted = true},
	{.info = {.id = 2, .name = NAME_HOSTILE, .module = NAME_DEMO},
	 .accounting = {.entries = 4, .returns = 3, .opened = 3, .completed = 3, .instants = 1},
	 .in_file = {.completed = 3, .instants = 1},
	 .accounted = true},
	{.info = {.id = 3, .name = NAME_IDLE, .module = NAME_DEMO}, .accounted = true},
	{.info = {.id = 4, .name = NAME_LONG, .module = NAME_DEMO},
	 .accounting = CALLS(1),
	 .in_file = {.completed = 1},
	 .accounted = true},
};

static struct loss_event losses[] = {
	{.first_ns = 4200000,
	 .last_ns = 4300000,
	 .count = 2,
	 .place = LOSS_KERNEL_RING,
	 .index = 1},
	{.first_ns = 6000000,
	 .last_ns = 6000000,
	 .count = 12,
	 .pid = 100,
	 .place = LOSS_SEGMENT_LAP,
	 .index = 3},
};

const struct timeline *sample_timeline(void)
{
	static struct timeline timeline = {
		.names = names,
		.name_count = SAMPLE_NAMES,
		.lanes = lanes,
		.lane_count = 4,
		.processes = processes,
		.process_count = 2,
		.process_changes = process_changes,
		.process_change_count = 3,
		.functions = functions,
		.function_count = 5,
		.asyncs = asyncs,
		.async_count = sizeof(asyncs) / sizeof(asyncs[0]),
		.async_orphans = 3,
		.losses = losses,
		.loss_count = 2,
		.accounting = {.sum = {.entries = 18,
				       .returns = 13,
				       .opened = 16,
				       .completed = 13,
				       .discarded = 1,
				       .unwound = 1,
				       .too_deep = 1,
				       .unfinished = 1,
				       .instants = 1,
				       .ring_lost = 2},
			       .in_file = 11,
			       .segment_delivered = 6,
			       .segment_lost = 12,
			       .balanced = true},
		.start_ns = 900000,
		.end_ns = 21000000,
		.realtime_offset_ns = 1700000000000000000,
		.boottime_offset_ns = 5000,
		.host = "here",
		.kernel = "6.18",
		.command = "scopetrace record -p 100",
	};

	fiber_scopes[1].sub_lane = 1;
	fiber_scopes[2].sub_lane = 1;
	successor_scopes[0].flags = SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_LOST;
	successor_scopes[0].child_ns = 500000;
	successor_scopes[1].flags = SCOPE_FLAG_UNWOUND | SCOPE_FLAG_MIGRATED;
	successor_scopes[1].start_tid = 102;
	successor_scopes[1].child_ns = 100000;
	successor_scopes[2].flags = SCOPE_FLAG_INSTANT;
	main_scopes[8].flags = SCOPE_FLAG_CUT;
	main_scopes[0].child_ns = 8000000;
	main_scopes[3].child_ns = 4000000;
	main_scopes[7].child_ns = 11001179;
	fiber_scopes[1].child_ns = 2000000;
	return &timeline;
}

const struct timeline *empty_timeline(void)
{
	static struct timeline timeline = {.names = names,
					   .name_count = 1,
					   .accounting.balanced = true,
					   .host = "",
					   .kernel = "",
					   .command = ""};

	return &timeline;
}

char *written(int (*write)(const struct timeline *, FILE *, const struct sink_options *),
	      const struct timeline *timeline, const struct sink_options *options, size_t *length)
{
	static const struct sink_options none;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	cr_assert_not_null(out);
	cr_assert_eq(write(timeline, out, options ? options : &none), 0);
	cr_assert_eq(fclose(out), 0);
	if (length)
		*length = size;
	return text;
}

void expect_golden(const char *text, const char *name)
{
	char path[256], actual[] = "/tmp/scopetrace-golden-XXXXXX", command[600];
	char *golden;
	size_t length;

	snprintf(path, sizeof(path), "tests/golden/%s", name);
	cr_assert_eq(io_read_file(path, &golden, &length), 0,
		     "%s is missing (run in the project's root)", path);
	if (strcmp(text, golden) != 0) {
		int fd = mkstemp(actual);

		cr_assert_geq(fd, 0);
		io_write_all(fd, text, strlen(text));
		close(fd);
		snprintf(command, sizeof(command), "diff -u %s %s >&2", path, actual);
		cr_expect_eq(system(command), 0, "differs from %s; what was written is kept in %s",
			     path, actual);
	}
	free(golden);
}
