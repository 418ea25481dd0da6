// SPDX-License-Identifier: GPL-2.0-or-later
/* Claims that are not published, forged in this process's own segment: what a preempted or killed writer
 * leaves. */
#include <string.h>
#include <unistd.h>

#include "helper.h"

enum { SLOTS = 64, TID = 70000, OTHER_TID = 70001 };

static void publish_named(uint64_t claim, uint32_t tid, const char *name)
{
	struct scope_record record = forge_record(tid, claim, name);

	forge_publish(0, claim, &record);
}

Test(holes, an_unpublished_claim_is_passed_over_and_delivered_late)
{
	struct log log;
	uint64_t claim;

	start_capture(&log, 1, SLOTS);
	SCOPE_INSTANT("before");
	claim = forge_claim(0);
	SCOPE_INSTANT("after");
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert(name_is(&log.records[2].record, "after"));
	cr_assert_eq(scope_reader_counts(log.reader).holes, 1);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3, "nothing is delivered twice");
	publish_named(claim, TID, "late");
	drain_and_check(&log);
	cr_assert_eq(log.count, 4);
	cr_assert(name_is(&log.records[3].record, "late"));
	cr_assert_eq(log.records[3].claim, claim);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	cr_assert_eq(log.gaps, 0);
	finish(&log);
}

Test(holes, a_hole_a_lap_old_is_lost)
{
	struct log log;

	start_capture(&log, 1, SLOTS);
	SCOPE_INSTANT("before");
	forge_claim(0);
	drain_and_check(&log);
	for (int i = 0; i < SLOTS; i++) {
		cr_assert_eq(log.lapped, 0);
		SCOPE_INSTANT("more");
		drain_and_check(&log);
	}
	cr_assert_eq(log.lapped, 1);
	cr_assert_eq(log.count, SLOTS + 2);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	finish(&log);
}

Test(holes, the_sixty_fifth_writes_off_the_oldest)
{
	uint64_t claims[SCOPE_HOLES_MAX + 3];
	struct log log;

	start_capture(&log, 1, 1024);
	for (size_t i = 0; i < SCOPE_HOLES_MAX + 3; i++)
		claims[i] = forge_claim(0);
	drain_and_check(&log);
	cr_assert_eq(scope_reader_counts(log.reader).holes, SCOPE_HOLES_MAX);
	cr_assert_eq(log.written_off, 3);
	for (size_t i = 0; i < SCOPE_HOLES_MAX + 3; i++)
		publish_named(claims[i], TID, "late");
	drain_and_check(&log);
	cr_assert_eq(log.count, SCOPE_HOLES_MAX, "what was written off stays so");
	for (size_t i = 0; i < log.count; i++)
		cr_assert_eq(log.records[i].claim, claims[i + 3]);
	finish(&log);
}

/* Thread A has a hole; while a record of B is taken, A publishes it and writes another. */
struct late_publisher {
	uint64_t first;
	uint64_t second;
	bool done;
};

static void publish_meanwhile(struct log *log, const struct scope_record *record)
{
	struct late_publisher *late = log->hook_context;

	if (late->done || !name_is(record, "of B"))
		return;
	late->done = true;
	publish_named(late->first, TID, "first of A");
	publish_named(late->second, TID, "second of A");
}

Test(holes, a_hole_filled_during_the_drain_keeps_its_threads_order)
{
	struct late_publisher late = {0};
	struct log log;
	uint64_t between;

	start_capture(&log, 1, SLOTS);
	late.first = forge_claim(0);
	between = forge_claim(0);
	late.second = forge_claim(0);
	publish_named(between, OTHER_TID, "of B");
	log.hook = publish_meanwhile;
	log.hook_context = &late;
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert(name_is(&log.records[0].record, "of B"));
	cr_assert(name_is(&log.records[1].record, "first of A"));
	cr_assert(name_is(&log.records[2].record, "second of A"));
	finish(&log);
}

/*
 * A straggler of one lap ago has stored any subset of its words, with or without its stamp, over a record
 * that was published since. The reader must deliver the record as it was, or not at all.
 */
Test(holes, no_mixture_with_a_straggler_is_ever_believed)
{
	struct log log;
	uint64_t believed = 0, refused = 0;

	start_capture(&log, 1, SLOTS);
	for (unsigned subset = 0; subset < 1u << (SCOPE_RECORD_WORDS + 1); subset++) {
		struct scope_record old, new;
		uint64_t old_word[SCOPE_RECORD_WORDS], new_claim, old_claim;
		struct scope_slot *slot;

		new_claim = forge_claim(0);
		old_claim = new_claim - SLOTS; /* wraps for the first ones: as good a claim as any other */
		old = forge_record(TID, old_claim, "the straggler's name, of 32 byte");
		new = forge_record(OTHER_TID, new_claim, "another name for the same slot..");
		forge_publish(0, new_claim, &new);
		memcpy(old_word, &old, sizeof(old_word));
		slot = own_slot(0, new_claim);
		for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
			if (subset & (1u << i))
				slot->word[i] = old_word[i];
		if (subset & (1u << SCOPE_RECORD_WORDS))
			slot->stamp = scope_check(old_claim, old_word);
		log.count = 0;
		drain_and_check(&log);
		if (log.count) {
			cr_assert_eq(log.count, 1);
			cr_assert_eq(memcmp(&log.records[0].record, &new, sizeof(new)), 0, "subset %x",
				     subset);
			believed++;
		} else {
			refused++;
		}
	}
	cr_assert_eq(believed, 1, "only the untouched record");
	cr_assert_eq(refused, 255);
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 256);
	finish(&log);
}

Test(holes, a_straggler_that_publishes_an_old_claim_changes_nothing_delivered)
{
	struct log log;
	uint64_t claim;

	start_capture(&log, 1, SLOTS);
	SCOPE_INSTANT("before");
	claim = forge_claim(0);
	for (int i = 0; i < SLOTS; i++)
		SCOPE_INSTANT("a lap");
	drain_and_check(&log);
	cr_assert_eq(log.count, SLOTS);
	publish_named(claim, TID, "a lap too late");
	SCOPE_INSTANT("goes on");
	drain_and_check(&log);
	cr_assert_eq(log.count, SLOTS + 1);
	cr_assert(name_is(&log.records[SLOTS].record, "goes on"));
	for (size_t i = 0; i < log.count; i++)
		cr_assert_not(name_is(&log.records[i].record, "a lap too late"));
	finish(&log);
}

Test(holes, with_the_writers_gone_they_are_written_off_or_delivered)
{
	struct scope_reader_events events;
	uint64_t filled;
	struct log log;

	start_capture(&log, 1, SLOTS);
	forge_claim(0);
	filled = forge_claim(0);
	drain_and_check(&log);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 2);
	publish_named(filled, TID, "just in time");
	events = log_events(&log);
	cr_assert_eq(scope_reader_write_off(log.reader, &events), 0);
	cr_assert_eq(log.count, 1);
	cr_assert_eq(log.written_off, 1);
	cr_assert_eq(scope_reader_counts(log.reader).written_off, 1);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 0);
	drain_and_check(&log);
	finish(&log);
}

Test(holes, the_next_reader_knows_the_open_ones)
{
	uint64_t claims[3];
	struct log log;

	start_capture(&log, 1, SLOTS);
	for (int i = 0; i < 3; i++) {
		claims[i] = forge_claim(0);
		SCOPE_INSTANT("between");
	}
	drain_and_check(&log);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 3);
	scope_reader_close(log.reader);
	publish_named(claims[1], TID, "late");
	log.reader = scope_reader_open(getpid());
	cr_assert_not_null(log.reader);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 3);
	log.count = 0;
	drain_and_check(&log);
	cr_assert_eq(log.count, 1);
	cr_assert_eq(log.records[0].claim, claims[1]);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 2);
	finish(&log);
}
