// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>
#include <unistd.h>

#include "helper.h"

static void write_numbered(uint64_t from, uint64_t count)
{
	for (uint64_t i = from; i < from + count; i++)
		scope_instant((const char *)&i, sizeof(i));
}

static uint64_t number_of(const struct scope_record *record)
{
	uint64_t number;

	cr_assert_eq(record->name_length, sizeof(number));
	memcpy(&number, record->name, sizeof(number));
	return number;
}

Test(laps, a_lap_costs_exactly_the_overwritten_records)
{
	for (uint64_t count = 1; count < 60; count += 3) {
		struct log log;
		uint64_t cursor, resident;

		if (count == 1)
			start_capture(&log, 1, 16);
		else
			log = (struct log){.reader = scope_reader_open(getpid())};
		scope_reader_capture(log.reader, LONG_CAPTURE_NS);
		if (count == 1)
			SCOPE_INSTANT("begins the thread");
		drain(&log);
		log.count = 0;
		cursor = scope_reader_counts(log.reader).cursor;
		write_numbered(0, count);
		resident = count < 16 ? count : 16;
		drain(&log);
		cr_assert_eq(scope_reader_counts(log.reader).cursor, cursor + count);
		cr_assert_eq(log.count, resident);
		cr_assert_eq(log.lapped, count - resident);
		cr_assert_eq(log.gaps, count > resident);
		for (uint64_t i = 0; i < resident; i++)
			cr_assert_eq(number_of(&log.records[i].record), count - resident + i);
		finish(&log);
	}
}

struct limited {
	uint64_t seen;
	int answer;
};

static int count_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct limited *limited = context;

	(void)ring;
	(void)record;
	limited->seen++;
	return limited->answer;
}

static int no_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context;
	(void)ring;
	(void)reason;
	(void)count;
	return -1;
}

Test(laps, drain_keeps_its_limit_and_stops_at_an_answer)
{
	struct limited limited = {0};
	struct scope_reader_events events = {.context = &limited, .record = count_record, .gap = no_gap};
	struct log log;

	start_capture(&log, 1, 64);
	write_numbered(0, 40);
	cr_assert_eq(scope_reader_drain(log.reader, &events, 7), 7);
	cr_assert_eq(scope_reader_counts(log.reader).backlog, 34);
	limited.answer = -5;
	cr_assert_eq(scope_reader_drain(log.reader, &events, 0), -5);
	cr_assert_eq(limited.seen, 8, "the record at which it stopped was taken");
	cr_assert_eq(scope_reader_counts(log.reader).delivered, 8);
	limited.answer = 0;
	cr_assert_eq(scope_reader_drain(log.reader, &events, 0), 33);
	cr_assert_eq(limited.seen, 41);
	finish(&log);
}
