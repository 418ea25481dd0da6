// SPDX-License-Identifier: GPL-2.0-or-later
/* The hand-off buffer, so small that it begins anew all the time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/handoff.h"
#include "record/pending.h"

enum { HEADER = 2, FIXED = HANDOFF_FIXED_WORDS + HEADER, DISCARDED = FIXED + 1, PAYLOAD_MAX = 64 };

static int tags[4]; /* their addresses are the tags */

static struct handoff *make(size_t words, size_t tag_count)
{
	struct handoff *handoff = handoff_create(HEADER, words, tag_count);

	cr_assert_not_null(handoff);
	return handoff;
}

/* Record `number`: all of it follows from its number and length. */
static int put(struct handoff *handoff, uint64_t number, size_t payload_words)
{
	uint64_t header[HEADER] = {number, ~number}, payload[PAYLOAD_MAX];
	struct handoff_record record = {.tag = &tags[number % 4],
					.time_ns = number * 10,
					.header = header,
					.header_words = HEADER,
					.payload = payload,
					.payload_words = payload_words};

	for (size_t i = 0; i < payload_words; i++)
		payload[i] = number * 1000 + i;
	return handoff_write(handoff, &record);
}

static void expect_record(const uint64_t *data, const void *tag, uint64_t number,
			  size_t payload_words)
{
	cr_assert_eq(data[0], FIXED + payload_words, "record %d: %d words", (int)number,
		     (int)data[0]);
	cr_assert_eq(data[1], number * 10);
	cr_assert_eq(data[2], number);
	cr_assert_eq(data[3], ~number);
	for (size_t i = 0; i < payload_words; i++)
		cr_assert_eq(data[FIXED + i], number * 1000 + i);
	cr_assert_eq(tag, &tags[number % 4]);
}

static void expect_discarded(const struct handoff_batch *batch, uint64_t first_ns, uint64_t count)
{
	cr_assert_eq(batch->records, 1);
	cr_assert_eq(batch->words, DISCARDED);
	cr_assert_null(batch->tags[0]);
	cr_assert_eq(batch->data[0], DISCARDED);
	cr_assert_eq(batch->data[1], first_ns, "first at %d", (int)batch->data[1]);
	cr_assert_eq(batch->data[2], 0);
	cr_assert_eq(batch->data[3], 0);
	cr_assert_eq(batch->data[4], count, "%d discarded", (int)batch->data[4]);
}

static enum handoff_state look(struct handoff *handoff, struct handoff_batch *batch)
{
	return handoff_read(handoff, false, batch);
}

/* Exactly one record, of this number. */
static void expect_one(struct handoff *handoff, uint64_t number, size_t payload_words)
{
	struct handoff_batch batch;

	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 1);
	cr_assert_eq(batch.words, FIXED + payload_words);
	expect_record(batch.data, batch.tags[0], number, payload_words);
}

Test(handoff, sizes_that_cannot_be)
{
	static const size_t wrong[][3] = {
		{2, 4, 4},	 {2, 7, 4},	   {2, 12, 4},	{2, 16, 3},	   {2, 16, 0},
		{2, 1 << 28, 4}, {2, 16, 1 << 28}, {14, 16, 4}, {SIZE_MAX, 16, 4}, {2, 0, 4}};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		cr_assert_null(handoff_create(wrong[i][0], wrong[i][1], wrong[i][2]), "shape %zu",
			       i);
		cr_assert_eq(errno, EINVAL);
	}
	/* The smallest: a record of discarded writes exactly. */
	handoff_destroy(handoff_create(5, 8, 1));
	handoff_destroy(NULL);
}

Test(handoff, without_a_buffer)
{
	struct handoff_batch batch;

	cr_assert_eq(put(NULL, 1, 1), 0);
	cr_assert_eq(handoff_close(NULL), 0);
	cr_assert_eq(handoff_read(NULL, true, &batch), HANDOFF_END);
}

Test(handoff, what_is_no_record)
{
	struct handoff *handoff = make(16, 4);
	uint64_t words[HEADER + 1] = {7, 8, 9};
	struct handoff_record record = {
		.tag = &tags[0], .time_ns = 5, .header = words, .header_words = 3};
	struct handoff_batch batch;

	cr_assert_eq(handoff_write(handoff, &record), -EINVAL);
	record.header_words = HEADER;
	record.tag = NULL;
	cr_assert_eq(handoff_write(handoff, &record), -EINVAL);
	cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	/* A shorter header, and none. */
	record.tag = &tags[0];
	record.header_words = 1;
	cr_assert_eq(handoff_write(handoff, &record), 0);
	record.header_words = 0;
	record.header = NULL;
	cr_assert_eq(handoff_write(handoff, &record), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 2);
	cr_assert_eq(batch.data[2], 7);
	cr_assert_eq(batch.data[3], 0);
	cr_assert_eq(batch.data[FIXED + 2], 0);
	cr_assert_eq(batch.data[FIXED + 3], 0);
	handoff_destroy(handoff);
}

Test(handoff, closed)
{
	struct handoff *handoff = make(32, 4);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 3), 0);
	cr_assert_eq(handoff_close(handoff), 0);
	cr_assert_eq(handoff_close(handoff), -EPIPE);
	cr_assert_eq(put(handoff, 2, 3), -EPIPE);
	/* The end is behind the last record, and stays. */
	expect_one(handoff, 1, 3);
	cr_assert_eq(look(handoff, &batch), HANDOFF_END);
	cr_assert_eq(handoff_read(handoff, true, &batch), HANDOFF_END);
	handoff_destroy(handoff);
}

/* Each length up to half of the ring, at each place of it. */
Test(handoff, write_and_read_back)
{
	struct handoff *handoff = make(64, 8);
	struct handoff_batch batch;
	uint64_t number = 0;

	for (int round = 0; round < 200; round++) {
		for (size_t length = 0; length <= 32 - FIXED; length++) {
			number++;
			cr_assert_eq(put(handoff, number, length), 0);
			expect_one(handoff, number, length);
			cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		}
	}
	handoff_destroy(handoff);
}

/* As many as find room, then read; the lengths go through all values. */
Test(handoff, many_at_once)
{
	struct handoff *handoff = make(256, 16);
	uint64_t written = 0, read = 0;
	size_t reads = 0, begun_anew = 0;

	while (written < 50000) {
		struct handoff_batch batch;
		const uint64_t *last_end = NULL;

		for (int i = 0; i < 7; i++, written++)
			cr_assert_eq(put(handoff, written, written * 7 % 20), 0);
		while (look(handoff, &batch) == HANDOFF_RECORDS) {
			const uint64_t *at = batch.data;

			begun_anew += last_end && batch.data != last_end;
			for (size_t i = 0; i < batch.records; i++, read++) {
				expect_record(at, batch.tags[i], read, read * 7 % 20);
				at += at[0];
			}
			last_end = at;
			cr_assert_eq(at, batch.data + batch.words);
			reads++;
		}
		cr_assert_eq(read, written);
	}
	/* Whole runs at a time, and many of them ended at the end of the ring. */
	cr_assert_lt(reads, written / 2);
	cr_assert_gt(begun_anew, 1000);
	handoff_destroy(handoff);
}

/* What does not fit at the end goes on at the beginning, and is of the next read. */
Test(handoff, rewind)
{
	struct handoff *handoff = make(32, 8);
	struct handoff_batch batch;

	for (uint64_t number = 1; number < 1000; number += 3) {
		/* From the beginning: 10 + 10 words, and 12 left. */
		cr_assert_eq(put(handoff, number, 6), 0);
		cr_assert_eq(put(handoff, number + 1, 6), 0);
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		cr_assert_eq(batch.records, 2);
		const uint64_t *beginning = batch.data;

		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		/* 14 do not fit there. */
		cr_assert_eq(put(handoff, number + 2, 10), 0);
		expect_one(handoff, number + 2, 10);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		/* 18 are left: two more to be again at the beginning. */
		cr_assert_eq(put(handoff, number, 18 - FIXED), 0);
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		cr_assert_eq(batch.data, beginning + 14);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	}
	handoff_destroy(handoff);
}

/* A rewind in the middle of what waits: two reads, of what lies before and behind it. */
Test(handoff, reads_end_at_the_wrap)
{
	struct handoff *handoff = make(32, 8);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 12), 0); /* 0..16 */
	expect_one(handoff, 1, 12);
	cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	cr_assert_eq(put(handoff, 2, 2), 0); /* ..22 */
	cr_assert_eq(put(handoff, 3, 2), 0); /* ..28 */
	cr_assert_eq(put(handoff, 4, 6), 0); /* 0..10 */
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 2);
	expect_record(batch.data, batch.tags[0], 2, 2);
	expect_record(batch.data + FIXED + 2, batch.tags[1], 3, 2);
	expect_one(handoff, 4, 6);
	handoff_destroy(handoff);
}

Test(handoff, tags_wrap_too)
{
	struct handoff *handoff = make(256, 4);
	struct handoff_batch batch;

	for (uint64_t number = 0; number < 3; number++)
		cr_assert_eq(put(handoff, number, 0), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 3);
	cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	for (uint64_t number = 3; number < 7; number++)
		cr_assert_eq(put(handoff, number, 1), 0);
	/* Words would be there, but no tag. */
	cr_assert_eq(put(handoff, 7, 1), -ENOBUFS);
	expect_one(handoff, 3, 1);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 3);
	for (size_t i = 0; i < 3; i++)
		expect_record(batch.data + i * (FIXED + 1), batch.tags[i], 4 + i, 1);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 70, 1);
	handoff_destroy(handoff);
}

/* The room of a read is there again only with the next one. */
Test(handoff, a_read_stays_until_the_next)
{
	struct handoff *handoff = make(16, 4);
	struct handoff_batch batch, after;

	cr_assert_eq(put(handoff, 1, 12), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(put(handoff, 2, 0), -ENOBUFS);
	expect_record(batch.data, batch.tags[0], 1, 12);
	cr_assert_eq(look(handoff, &after), HANDOFF_RECORDS);
	expect_discarded(&after, 20, 1);
	cr_assert_eq(put(handoff, 3, 12), 0);
	expect_one(handoff, 3, 12);
	handoff_destroy(handoff);
}

/* ---- discarded writes ---- */

Test(handoff, the_writer_tells_what_it_discarded)
{
	struct handoff *handoff = make(64, 8);
	struct handoff_batch batch;

	for (uint64_t number = 0; number < 100000; number += 100) {
		cr_assert_eq(put(handoff, number, 20), 0);
		cr_assert_eq(put(handoff, number + 1, 20), 0);
		for (uint64_t i = 2; i < 7; i++)
			cr_assert_eq(put(handoff, number + i, 20), -ENOBUFS);
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		cr_assert_eq(batch.records, 2);
		expect_record(batch.data, batch.tags[0], number, 20);
		expect_record(batch.data + 24, batch.tags[1], number + 1, 20);
		/* They are not given back yet: 16 words are free, 5 of them for what tells of those
		 * discarded. */
		cr_assert_eq(put(handoff, number + 7, 16 - DISCARDED - FIXED + 1), -ENOBUFS);
		cr_assert_eq(put(handoff, number + 8, 16 - DISCARDED - FIXED), 0);
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		cr_assert_eq(batch.records, 2);
		expect_record(batch.data + DISCARDED, batch.tags[1], number + 8,
			      16 - DISCARDED - FIXED);
		batch.records = 1;
		batch.words = DISCARDED;
		expect_discarded(&batch, (number + 2) * 10, 6);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	}
	handoff_destroy(handoff);
}

Test(handoff, the_reader_takes_what_was_discarded)
{
	struct handoff *handoff = make(32, 8);
	struct handoff_batch batch;

	for (uint64_t number = 10; number < 10000; number += 10) {
		cr_assert_eq(put(handoff, number, 28), 0);
		cr_assert_eq(put(handoff, number + 1, 0), -ENOBUFS);
		cr_assert_eq(put(handoff, number + 2, 28), -ENOBUFS);
		expect_one(handoff, number, 28);
		cr_assert_eq(put(handoff, number + 3, 5), -ENOBUFS);
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		expect_discarded(&batch, (number + 1) * 10, 3);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	}
	handoff_destroy(handoff);
}

/* Room is needed for both, in a row each: with the rewind between them. */
Test(handoff, room_for_both)
{
	struct handoff *handoff = make(32, 8);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 32 - FIXED), 0);
	cr_assert_eq(put(handoff, 2, 0), -ENOBUFS);
	expect_one(handoff, 1, 32 - FIXED);
	/*
	 * The reader's next read would take the entry, so it is the writer's only while records are
	 * unread:
	 */
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 20, 1);
	cr_assert_eq(put(handoff, 3, 16 - FIXED), 0); /* 0..16 */
	cr_assert_eq(put(handoff, 4, 10 - FIXED), 0); /* ..26 */
	cr_assert_eq(put(handoff, 5, 28 - FIXED), -ENOBUFS);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 2);
	/*
	 * 6 are left at the end: DISCARDED (5) fits there, and nothing of the rest is given back.
	 */
	cr_assert_eq(put(handoff, 6, 0), -ENOBUFS);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 50, 2);
	/* From 26 on all is free: 6 at the end, then 26. */
	cr_assert_eq(put(handoff, 7, 5 - FIXED), 0);	    /* ..31 */
	cr_assert_eq(put(handoff, 8, 20 - FIXED), 0);	    /* 0..20, one skipped */
	cr_assert_eq(put(handoff, 9, 7 - FIXED), -ENOBUFS); /* 6 are left */
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 1);
	expect_record(batch.data, batch.tags[0], 7, 5 - FIXED);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_record(batch.data, batch.tags[0], 8, 20 - FIXED);
	/* Free now: 20..31. Both fit: 5 + 6 = 11, and the skipped one: 12 from 20 on. */
	cr_assert_eq(put(handoff, 10, 8 - FIXED), -ENOBUFS);
	cr_assert_eq(put(handoff, 11, 6 - FIXED), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 2);
	expect_discarded(&(struct handoff_batch){batch.data, DISCARDED, batch.tags, 1}, 90, 2);
	expect_record(batch.data + DISCARDED, batch.tags[1], 11, 6 - FIXED);
	handoff_destroy(handoff);
}

Test(handoff, a_tag_for_both)
{
	struct handoff *handoff = make(32, 2);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 0), 0);
	cr_assert_eq(put(handoff, 2, 0), 0);
	cr_assert_eq(put(handoff, 3, 0), -ENOBUFS);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(batch.records, 2);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 30, 1);
	cr_assert_eq(put(handoff, 4, 0), 0);
	cr_assert_eq(put(handoff, 5, 33), -ENOBUFS);
	/* One tag is free, and two are needed. */
	cr_assert_eq(put(handoff, 6, 0), -ENOBUFS);
	expect_one(handoff, 4, 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 50, 2);
	handoff_destroy(handoff);
}

/* Of a length that never fits, up to one that does not fit a size_t in bytes. */
Test(handoff, longer_than_the_buffer)
{
	struct handoff *handoff = make(16, 4);
	struct handoff_record record = {.tag = &tags[0], .time_ns = 9};
	static const size_t lengths[] = {13, 16, 1000, UINT32_MAX, SIZE_MAX / 8, SIZE_MAX};
	struct handoff_batch batch;

	for (size_t i = 0; i < 6; i++) {
		record.payload_words = lengths[i];
		cr_assert_eq(handoff_write(handoff, &record), -ENOBUFS);
	}
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 9, 6);
	handoff_destroy(handoff);
}

Test(handoff, the_end_comes_behind_what_was_discarded)
{
	struct handoff *handoff = make(16, 4);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 12), 0);
	cr_assert_eq(put(handoff, 2, 12), -ENOBUFS);
	cr_assert_eq(handoff_close(handoff), 0);
	expect_one(handoff, 1, 12);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	expect_discarded(&batch, 20, 1);
	cr_assert_eq(look(handoff, &batch), HANDOFF_END);
	handoff_destroy(handoff);
}

/* ---- the pending entry ---- */

Test(pending, counts_and_keeps_the_first_time)
{
	struct pending pending = {0};
	uint64_t word, first, generation = 0;

	for (uint64_t round = 1; round < 100; round++) {
		word = pending_load(&pending);
		cr_assert_eq(pending_count(word), 0);
		cr_assert_eq(word >> 32, generation);
		for (uint64_t i = 0; i < round; i++)
			pending_add(&pending, round * 1000 + i);
		word = pending_load(&pending);
		cr_assert_eq(pending_count(word), round);
		cr_assert_eq(word >> 32, ++generation);
		cr_assert(pending_take(&pending, word, &first));
		cr_assert_eq(first, round * 1000);
		generation++;
	}
}

/* What was looked at, but is another entry by now, is not taken, even if it looks the same. */
Test(pending, another_entry_of_the_same_count)
{
	struct pending pending = {0};
	uint64_t seen, first;

	pending_add(&pending, 10);
	seen = pending_load(&pending);
	cr_assert(pending_take(&pending, seen, &first));
	pending_add(&pending, 20);
	cr_assert_not(pending_take(&pending, seen, &first));
	cr_assert(pending_take(&pending, pending_load(&pending), &first));
	cr_assert_eq(first, 20);
}

Test(pending, the_count_sticks)
{
	struct pending pending = {.word = 7ull << 32 | (PENDING_COUNT_MAX - 1), .first_ns = 5};
	uint64_t first;

	for (int i = 0; i < 5; i++)
		pending_add(&pending, 100);
	cr_assert_eq(pending_load(&pending), 7ull << 32 | PENDING_COUNT_MAX);
	cr_assert(pending_take(&pending, pending_load(&pending), &first));
	cr_assert_eq(first, 5);
	cr_assert_eq(pending_load(&pending), 8ull << 32);
}

Test(pending, generations_wrap)
{
	struct pending pending = {.word = (uint64_t)UINT32_MAX << 32};
	uint64_t first;

	pending_add(&pending, 3);
	cr_assert_eq(pending_load(&pending), 1);
	cr_assert(pending_take(&pending, 1, &first));
	cr_assert_eq(first, 3);
}

/* ---- a reader that waits ---- */

struct waiting {
	struct handoff *handoff;
	atomic_int tid;
	enum handoff_state state;
	struct handoff_batch batch;
	pthread_t thread;
};

static void *wait_for_it(void *argument)
{
	struct waiting *waiting = argument;

	atomic_store(&waiting->tid, (int)syscall(SYS_gettid));
	waiting->state = handoff_read(waiting->handoff, true, &waiting->batch);
	return NULL;
}

/* True while the thread sleeps in poll(2). */
static bool sleeps(int tid)
{
	char path[64], text[64] = "";
	FILE *file;
	long number = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	file = fopen(path, "r");
	cr_assert_not_null(file, "%s", path);
	if (fgets(text, sizeof(text), file) && sscanf(text, "%ld", &number) != 1)
		number = -1;
	fclose(file);
#ifdef SYS_poll
	return number == SYS_poll;
#else
	return number == SYS_ppoll;
#endif
}

static void begin_to_wait(struct waiting *waiting)
{
	cr_assert_eq(pthread_create(&waiting->thread, NULL, wait_for_it, waiting), 0);
	while (!atomic_load(&waiting->tid) || !sleeps(atomic_load(&waiting->tid)))
		sched_yield();
}

Test(handoff, woken_by_a_write, .timeout = 60)
{
	struct waiting waiting = {.handoff = make(16, 4)};

	for (uint64_t number = 1; number < 200; number++) {
		begin_to_wait(&waiting);
		cr_assert_eq(put(waiting.handoff, number, 12), 0);
		pthread_join(waiting.thread, NULL);
		cr_assert_eq(waiting.state, HANDOFF_RECORDS);
		expect_record(waiting.batch.data, waiting.batch.tags[0], number, 12);
		waiting.tid = 0;
	}
	handoff_destroy(waiting.handoff);
}

Test(handoff, woken_by_discarded_writes, .timeout = 60)
{
	struct waiting waiting = {.handoff = make(16, 4)};

	for (uint64_t number = 1; number < 200; number++) {
		begin_to_wait(&waiting);
		cr_assert_eq(put(waiting.handoff, number, 13), -ENOBUFS);
		pthread_join(waiting.thread, NULL);
		cr_assert_eq(waiting.state, HANDOFF_RECORDS);
		expect_discarded(&waiting.batch, number * 10, 1);
		waiting.tid = 0;
	}
	handoff_destroy(waiting.handoff);
}

Test(handoff, woken_by_the_end, .timeout = 60)
{
	for (int i = 0; i < 100; i++) {
		struct waiting waiting = {.handoff = make(16, 4)};

		begin_to_wait(&waiting);
		cr_assert_eq(handoff_close(waiting.handoff), 0);
		pthread_join(waiting.thread, NULL);
		cr_assert_eq(waiting.state, HANDOFF_END);
		handoff_destroy(waiting.handoff);
	}
}

static bool is_readable(const struct handoff *handoff)
{
	struct pollfd waited = {.fd = handoff_fd(handoff), .events = POLLIN};

	return poll(&waited, 1, 0) == 1;
}

/* A reader that waits for several things. */
Test(handoff, sleep_by_oneself)
{
	struct handoff *handoff = make(32, 4);
	struct handoff_batch batch;

	for (uint64_t number = 1; number < 100; number++) {
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		cr_assert(handoff_sleep(handoff));
		cr_assert_not(is_readable(handoff));
		/* Woken by something else, it sleeps again. */
		cr_assert(handoff_sleep(handoff));
		cr_assert_eq(put(handoff, number, 12), 0);
		cr_assert(is_readable(handoff));
		cr_assert_not(handoff_sleep(handoff));
		expect_one(handoff, number, 12);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		/* Something came between the look and the sleep: record, discarded write. */
		cr_assert_eq(put(handoff, number, 1), 0);
		cr_assert_not(handoff_sleep(handoff));
		expect_one(handoff, number, 1);
		cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
		cr_assert_eq(put(handoff, number, 29), -ENOBUFS);
		cr_assert_not(handoff_sleep(handoff));
		cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
		expect_discarded(&batch, number * 10, 1);
	}
	cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	cr_assert(handoff_sleep(handoff));
	cr_assert_eq(handoff_close(handoff), 0);
	cr_assert(is_readable(handoff));
	cr_assert_not(handoff_sleep(handoff));
	cr_assert_eq(look(handoff, &batch), HANDOFF_END);
	handoff_destroy(handoff);
}

/* Where nobody sleeps the writer makes no system call. */
Test(handoff, nobody_is_woken_who_does_not_sleep)
{
	struct handoff *handoff = make(16, 4);

	cr_assert_eq(put(handoff, 1, 12), 0);
	cr_assert_eq(put(handoff, 2, 12), -ENOBUFS);
	cr_assert_not(is_readable(handoff));
	handoff_destroy(handoff);
}

/* ---- a writer in a signal handler ---- */

enum { SIGNALS = 5000 };

static struct handoff *signalled;
static atomic_uint handled; /* signals that the handler is done with */
static atomic_uint refused;
static volatile sig_atomic_t errno_kept = 1;

static void write_in_handler(int signal)
{
	uint64_t number = atomic_load(&handled);

	(void)signal;
	errno = 77;
	if (put(signalled, number, number % 9) < 0)
		atomic_fetch_add(&refused, 1);
	errno_kept = errno_kept && errno == 77;
	atomic_store(&handled, (unsigned)number + 1);
}

/* Each signal when the one before it is done: none is merged with another. */
static void *send_signals(void *argument)
{
	pthread_t reader = *(pthread_t *)argument;

	for (unsigned i = 0; i < SIGNALS; i++) {
		pthread_kill(reader, SIGUSR1);
		while (atomic_load(&handled) == i)
			sched_yield();
	}
	return NULL;
}

/* The reader's own thread is the one that is interrupted, wherever it is, asleep too. */
Test(handoff, a_writer_in_a_signal_handler, .timeout = 120)
{
	struct sigaction action = {.sa_handler = write_in_handler};
	pthread_t self = pthread_self(), sender;
	uint64_t next = 0, discarded = 0;
	struct handoff_batch batch = {0};

	signalled = make(32, 4);
	sigaction(SIGUSR1, &action, NULL);
	cr_assert_eq(pthread_create(&sender, NULL, send_signals, &self), 0);
	while (next < SIGNALS) {
		enum handoff_state state = handoff_read(signalled, next % 3 != 0, &batch);
		const uint64_t *at = batch.data;

		if (state == HANDOFF_EMPTY) {
			sched_yield();
			continue;
		}
		cr_assert_eq(state, HANDOFF_RECORDS);
		for (size_t i = 0; i < batch.records; i++) {
			if (batch.tags[i]) {
				expect_record(at, batch.tags[i], next, next % 9);
				next++;
			} else {
				cr_assert_eq(at[1], next * 10);
				next += at[DISCARDED - 1];
				discarded += at[DISCARDED - 1];
			}
			at += at[0];
		}
	}
	pthread_join(sender, NULL);
	cr_assert_eq(next, SIGNALS);
	cr_assert_eq(discarded, atomic_load(&refused));
	cr_assert(errno_kept);
	handoff_destroy(signalled);
}

/* ---- a damaged buffer ---- */

/* Overwrites the first word of the record behind the one that is read. */
static void damage(uint64_t length)
{
	struct handoff *handoff = make(32, 4);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 4), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(put(handoff, 2, 4), 0);
	((uint64_t *)batch.data)[batch.words] = length;
	look(handoff, &batch);
}

Test(handoff, damaged_by_a_long_record, .signal = SIGABRT)
{
	damage(9);
}

Test(handoff, damaged_by_a_short_record, .signal = SIGABRT)
{
	damage(FIXED - 1);
}

Test(handoff, damaged_by_no_record, .signal = SIGABRT)
{
	damage(0);
}

Test(handoff, damaged_by_a_tag, .signal = SIGABRT)
{
	struct handoff *handoff = make(32, 1);
	struct handoff_batch batch;

	cr_assert_eq(put(handoff, 1, 0), 0);
	cr_assert_eq(look(handoff, &batch), HANDOFF_RECORDS);
	cr_assert_eq(look(handoff, &batch), HANDOFF_EMPTY);
	((void **)batch.tags)[0] = &tags[0];
	put(handoff, 2, 0);
}
