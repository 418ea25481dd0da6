// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Positions run on and on: the hand-off where both counts of its positions overflow. For that the
 * test reaches into it: this program is linked with the file as it is included here.
 */
#include "record/handoff.c"

#include <criterion/criterion.h>
#include <signal.h>

/* As if so many words and tags had gone through already. */
static struct handoff *make_at(uint32_t words, uint32_t tags)
{
	struct handoff *handoff = handoff_create(1, 32, 4);

	cr_assert_not_null(handoff);
	handoff->next = advance(0, words, tags);
	atomic_store(&handoff->written, handoff->next);
	atomic_store(&handoff->read, handoff->next);
	return handoff;
}

static int put_number(struct handoff *handoff, uint64_t number, size_t payload_words)
{
	uint64_t payload[32] = {0};
	struct handoff_record record = {.tag = handoff,
					.time_ns = number,
					.header = &number,
					.header_words = 1,
					.payload = payload,
					.payload_words = payload_words};

	return handoff_write(handoff, &record);
}

Test(handoff_positions, both_counts_overflow)
{
	/*
	 * From far enough before the end of each to far behind it; and at each place of the ring.
	 */
	for (uint32_t words = 0; words < 200; words++) {
		struct handoff *handoff = make_at(0u - words, (1u << 30) - words % 9);
		struct handoff_batch batch;

		for (uint64_t number = 0, next = 0; number < 100; number++) {
			cr_assert_eq(put_number(handoff, number, number % 5), 0);
			if (number % 2)
				continue;
			while (handoff_read(handoff, false, &batch) == HANDOFF_RECORDS) {
				const uint64_t *at = batch.data;

				for (size_t i = 0; i < batch.records; i++, next++) {
					cr_assert_eq(at[2], next);
					cr_assert_eq(at[0], 3 + next % 5);
					at += at[0];
				}
			}
			cr_assert_eq(next, number + 1);
		}
		cr_assert_lt(words_of(atomic_load(&handoff->written)), 4000);
		cr_assert_lt(tags_of(atomic_load(&handoff->written)), 200);
		handoff_destroy(handoff);
	}
}

Test(handoff_positions, full_across_the_overflow)
{
	struct handoff *handoff = make_at(UINT32_MAX - 7, (1u << 30) - 2);
	struct handoff_batch batch;

	for (uint64_t number = 0; number < 4; number++)
		/* 8 words each: all 32, and all 4 tags */
		cr_assert_eq(put_number(handoff, number, 5), 0);
	cr_assert_eq(put_number(handoff, 4, 0), -ENOBUFS);
	for (uint64_t next = 0; next < 4; next += batch.records) {
		cr_assert_eq(handoff_read(handoff, false, &batch), HANDOFF_RECORDS);
		cr_assert_eq(batch.data[2], next);
	}
	cr_assert_eq(handoff_read(handoff, false, &batch), HANDOFF_RECORDS);
	cr_assert_null(batch.tags[0]);
	cr_assert_eq(batch.data[3], 1);
	handoff_destroy(handoff);
}

/* A read position that lies beyond the written one. */
Test(handoff_positions, damaged_position, .signal = SIGABRT)
{
	struct handoff *handoff = make_at(64, 4);
	struct handoff_batch batch;

	handoff->next = advance(0, 65, 5);
	handoff_read(handoff, false, &batch);
}

/* A mark to go on at the beginning, and nothing there. */
Test(handoff_positions, damaged_rewind, .signal = SIGABRT)
{
	struct handoff *handoff = make_at(0, 0);
	struct handoff_batch batch;

	atomic_store(&handoff->written, advance(0, 16, 1));
	handoff_read(handoff, false, &batch);
}
