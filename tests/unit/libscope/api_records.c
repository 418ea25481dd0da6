// SPDX-License-Identifier: GPL-2.0-or-later
/* What each macro and function of scope.h writes, record by record. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"

static uint64_t value_of(const struct scope_record *record)
{
	uint64_t value;

	memcpy(&value, record->name + SCOPE_VALUE_OFFSET, sizeof(value));
	return value;
}

/* The n-th record after the thread's start is of this kind, name and value. */
static const struct scope_record *expect(const struct log *log, size_t n, uint8_t kind, const char *name)
{
	const struct scope_record *record = &log->records[n + 1].record;

	cr_assert(n + 1 < log->count, "there is no record %zu", n);
	cr_assert_eq(record->kind, kind, "record %zu is of kind %u, not %u", n, record->kind, kind);
	cr_assert(name_is(record, name), "record %zu is not named %s", n, name);
	return record;
}

Test(api, marks_and_values)
{
	struct log log;
	double real;
	uint64_t bits;

	start_capture(&log, 1, 1024);
	SCOPE_INSTANT("instant");
	SCOPE_FRAME("frame");
	SCOPE_COUNTER("integer", -3);
	SCOPE_COUNTER("double", 0.25);
	SCOPE_ASYNC_BEGIN("async", UINT64_MAX);
	SCOPE_ASYNC_END("async", UINT64_MAX);
	SCOPE_ARGUMENT("argument", INT64_MIN);
	SCOPE_FLOW(77);
	SCOPE_COUNTER("a name of exactly 24 byt", 1u);
	drain_and_check(&log);
	cr_assert_eq(log.count, 1 + 9);
	expect(&log, 0, SCOPE_KIND_INSTANT, "instant");
	expect(&log, 1, SCOPE_KIND_FRAME, "frame");
	cr_assert_eq(value_of(expect(&log, 2, SCOPE_KIND_COUNTER_INT, "integer")), (uint64_t)-3);
	bits = value_of(expect(&log, 3, SCOPE_KIND_COUNTER_DOUBLE, "double"));
	memcpy(&real, &bits, sizeof(real));
	cr_assert_eq(real, 0.25);
	cr_assert_eq(value_of(expect(&log, 4, SCOPE_KIND_ASYNC_START, "async")), UINT64_MAX);
	cr_assert_eq(value_of(expect(&log, 5, SCOPE_KIND_ASYNC_STOP, "async")), UINT64_MAX);
	cr_assert_eq(value_of(expect(&log, 6, SCOPE_KIND_ARGUMENT, "argument")), (uint64_t)INT64_MIN);
	cr_assert_eq(value_of(expect(&log, 7, SCOPE_KIND_FLOW, "")), 77);
	cr_assert_eq(value_of(expect(&log, 8, SCOPE_KIND_COUNTER_INT, "a name of exactly 24 byt")), 1);
	for (size_t i = 0; i < log.count; i++)
		cr_assert_eq(log.records[i].record.scope_id, log.records[i].claim);
	finish(&log);
}

Test(api, a_long_name_of_a_value_goes_on)
{
	struct log log;

	start_capture(&log, 1, 1024);
	SCOPE_COUNTER("a name that has more than 24 bytes", 5);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(value_of(expect(&log, 0, SCOPE_KIND_COUNTER_INT, "a name that has more tha")), 5);
	cr_assert(log.records[1].record.flags & SCOPE_RECORD_CONTINUED);
	cr_assert(name_is(&log.records[2].record, "n 24 bytes"));
	cr_assert_eq(log.records[2].record.scope_id, log.records[1].record.scope_id);
	finish(&log);
}

static unsigned inside_of(const struct log *log, size_t n)
{
	const struct scope_record *record = &log->records[n].record;

	cr_assert_eq(record->kind, SCOPE_KIND_COMPLETE);
	return record->flags >> SCOPE_RECORD_INSIDE_SHIFT;
}

Test(api, hot_scopes_count_what_is_inside)
{
	struct log log;

	start_capture(&log, 1, 1024);
	{
		SCOPE_HOT("outer");
		SCOPE_INSTANT("one with a name of more than one record, of course");
		{
			SCOPE("two and three");
		}
		{
			SCOPE_HOT("four, and it is empty");
		}
	}
	{
		SCOPE_HOT("hot with a name of more than one record");
		SCOPE_FLOW(1);
	}
	drain_and_check(&log);
	/* thread start, instant, continuation, start, stop, complete, complete, flow, complete, continuation
	 */
	cr_assert_eq(log.count, 10);
	cr_assert_eq(inside_of(&log, 5), 0);
	cr_assert_eq(inside_of(&log, 6), 4);
	cr_assert_eq(inside_of(&log, 8), 1);
	cr_assert(log.records[8].record.flags & SCOPE_RECORD_CONTINUED);
	finish(&log);
}

Test(api, a_hot_scope_with_more_inside_than_fits)
{
	struct log log;

	start_capture(&log, 1, 1u << 17);
	{
		SCOPE_HOT("hot");
		for (unsigned i = 0; i < 70000; i++)
			SCOPE_FLOW(i);
	}
	drain_and_check(&log);
	cr_assert_eq(log.count, 70002);
	cr_assert_eq(inside_of(&log, 70001), SCOPE_RECORD_INSIDE_MAX);
	finish(&log);
}

static int evaluated;

static int once(void)
{
	return ++evaluated;
}

Test(api, arguments_are_evaluated_once_whether_recorded_or_not)
{
	struct log log;

	SCOPE_COUNTER("c", once());
	SCOPE_COUNTER("c", once() * 0.5);
	SCOPE_ARGUMENT("a", once());
	SCOPE_FLOW(once());
	SCOPE_ASYNC_BEGIN("s", once());
	cr_assert_eq(evaluated, 5);
	start_capture(&log, 1, 1024);
	SCOPE_COUNTER("c", once());
	SCOPE_COUNTER("c", once() * 0.5);
	SCOPE_ARGUMENT("a", once());
	SCOPE_FLOW(once());
	SCOPE_ASYNC_BEGIN("s", once());
	cr_assert_eq(evaluated, 10);
	drain_and_check(&log);
	cr_assert_eq(log.count, 6);
	finish(&log);
}

/* A binding calls without the test that the macros make. */
Test(api, functions_write_nothing_while_nobody_records)
{
	struct scope_hot hot;
	struct log log;

	cr_assert_eq(scope_is_enabled(), 0);
	cr_assert_eq(scope_start("x", 1), 0);
	scope_stop(0);
	scope_hot_start(&hot, "x", 1);
	cr_assert_eq(hot.ticks, 0);
	scope_hot_stop(&hot);
	scope_instant("x", 1);
	scope_frame("x", 1);
	scope_counter("x", 1, 1);
	scope_counter_double("x", 1, 1);
	scope_async_start("x", 1, 1);
	scope_async_stop("x", 1, 1);
	scope_argument("x", 1, 1);
	scope_flow(1);
	cr_assert_eq(own_ring(0)->write_cursor, 0);
	start_capture(&log, 1, 1024);
	cr_assert_eq(scope_is_enabled(), 1);
	scope_reader_capture(log.reader, 0);
	cr_assert_eq(scope_is_enabled(), 0);
	scope_frame("x", 1);
	scope_flow(1);
	drain_and_check(&log);
	cr_assert_eq(log.count, 0);
	finish(&log);
}

/* Options of an older program end early, those of a newer one go on. */
Test(api, options_of_other_sizes)
{
	struct {
		struct scope_options options;
		uint64_t later[4];
	} newer = {.options = {.size = sizeof(newer), .rings = 2, .slots_per_ring = 64}};
	struct scope_options options = {.size = sizeof(options) - 1, .rings = 2, .slots_per_ring = 64};

	cr_assert_eq(scope_init(&options), -EINVAL);
	options.size = 0;
	cr_assert_eq(scope_init(&options), -EINVAL);
	options.size = (size_t)-1;
	cr_assert_eq(scope_init(&options), -EINVAL);
	newer.later[3] = 1;
	cr_assert_eq(scope_init(&newer.options), -EINVAL, "something is wanted that we do not know");
	newer.later[3] = 0;
	cr_assert_eq(scope_init(&newer.options), 0);
	cr_assert_eq(own_header()->ring_count, 2);
	cr_assert_eq(own_header()->slots_per_ring, 64);
}

Test(api, segments_of_other_minor_versions_are_read)
{
	static const uint16_t minors[] = {0, SCOPE_ABI_MINOR, SCOPE_ABI_MINOR + 1, UINT16_MAX};

	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++) {
		struct scope_reader *reader;

		own_header()->abi_minor = minors[i];
		reader = scope_reader_open(getpid());
		cr_assert_not_null(reader, "minor %u: %s", minors[i], strerror(errno));
		scope_reader_close(reader);
	}
}

Test(api, a_segment_of_another_major_is_refused_with_its_version)
{
	uint16_t major, minor;

	cr_assert_eq(scope_reader_refused_version(getpid(), &major, &minor), -ENOENT,
		     "nothing is refused yet");
	own_header()->abi_major = 3;
	own_header()->abi_minor = 14;
	cr_assert_null(scope_reader_open(getpid()));
	cr_assert_eq(errno, EPROTO);
	cr_assert_eq(scope_reader_refused_version(getpid(), &major, &minor), 0);
	cr_assert_eq(major, 3);
	cr_assert_eq(minor, 14);
}
