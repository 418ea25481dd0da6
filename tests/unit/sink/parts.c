// SPDX-License-Identifier: GPL-2.0-or-later
/* What is written of a capture that is read in many parts is what is written of it as a whole. */
#include "sample.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sink/csv.h"
#include "sink/perfetto.h"
#include "file/writer.h"

enum { PID = 100, CALLS = 400 };

static char path[64];

static uint32_t name_of(struct event_output *output, const char *name)
{
	uint32_t id;

	cr_assert(!output->string(output, name, strlen(name), &id));
	return id;
}

static void put_manual(struct event_output *output, uint32_t tid, enum manual_kind kind,
		       uint64_t ns, uint64_t id, const char *name)
{
	struct manual_event event = {.ticks = ns,
				     .scope_id = id,
				     .value = 7,
				     .pid = PID,
				     .tid = tid,
				     .kind = (uint8_t)kind};

	event.name = name ? name_of(output, name) : 0;
	cr_assert(!output->manual(output, &event, 1));
}

/*
 * Threads take turns; each has an outer scope throughout, and frames, counters and instants inside.
 */
static void make_capture(uint32_t threads)
{
	struct scope_file_writer *writer;
	struct event_output *output;
	struct process_info process = {.pid = PID, .clock = CLOCK_ID_MONOTONIC, .start_ns = 1};
	struct function_info function = {.id = 0};

	strcpy(path, "/tmp/scopetrace-parts-XXXXXX");
	close(mkstemp(path));
	writer = scope_file_writer_create(path, 0, NULL);
	cr_assert(writer);
	output = scope_file_writer_output(writer);
	function.name = process.name = name_of(output, "called, \"often\"");
	cr_assert(!scope_file_writer_process(writer, &process) &&
		  !scope_file_writer_function(writer, &function));
	for (uint32_t t = 0; t < threads; t++)
		put_manual(output, PID + t, MANUAL_START, 50 + t, 1, "outer");
	for (uint64_t i = 0; i < CALLS; i++) {
		uint32_t tid = PID + (uint32_t)(i / 5 % threads);
		struct hooked_scope scope = {
			.start_ns = 100 + i * 10, .end_ns = 107 + i * 10, .pid = PID, .tid = tid};

		put_manual(output, tid, MANUAL_START, 101 + i * 10, 2 + i, "inner");
		put_manual(output, tid, i % 3 ? MANUAL_INSTANT : MANUAL_COUNTER_INT, 102 + i * 10,
			   0, "mark");
		put_manual(output, tid, MANUAL_STOP, 105 + i * 10, 2 + i, NULL);
		cr_assert(!output->hooked(output, &scope, 1));
	}
	for (uint32_t t = 0; t < threads; t++)
		put_manual(output, PID + t, MANUAL_STOP, 200 + CALLS * 10, 1, NULL);
	cr_assert(!scope_file_writer_finish(writer, 0, 300 + CALLS * 10, 0));
}

static char *written_in_regions(int (*write)(const struct timeline *, FILE *,
					     const struct sink_options *),
				uint64_t records, size_t *length)
{
	struct timeline *timeline = timeline_open_with(path, records);
	char *text;

	cr_assert(timeline);
	text = written(write, timeline, NULL, length);
	timeline_close(timeline);
	return text;
}

static void expect_same(int (*write)(const struct timeline *, FILE *, const struct sink_options *))
{
	size_t length, other_length;
	char *whole = written_in_regions(write, 1 << 20, &length), *parts;

	for (uint64_t records = 1; records < 200; records = records * 3 + 1) {
		parts = written_in_regions(write, records, &other_length);
		cr_assert(length == other_length && !memcmp(whole, parts, length),
			  "in regions of %lu", (unsigned long)records);
		free(parts);
	}
	free(whole);
}

/* Rows stay in the order of their threads. */
Test(parts, csv_of_several_threads)
{
	make_capture(3);
	expect_same(csv_write);
	unlink(path);
}

Test(parts, perfetto_of_one_thread)
{
	make_capture(1);
	expect_same(perfetto_write);
	unlink(path);
}

Test(parts, reports_of_several_threads)
{
	make_capture(3);
	expect_same(report_text);
	expect_same(report_json);
	unlink(path);
}

/* Where there is no room for what must wait, it is told, and once. */
Test(parts, no_directory_for_what_waits)
{
	struct timeline *timeline;
	FILE *out = fopen("/dev/null", "w");
	const struct sink_options none = {0};

	make_capture(3);
	setenv("TMPDIR", "/nonexistent", 1);
	timeline = timeline_open_with(path, 10);
	cr_assert(timeline);
	cr_assert_eq(csv_write(timeline, out, &none), -EBADMSG);
	timeline_close(timeline);
	fclose(out);
	unlink(path);
}
