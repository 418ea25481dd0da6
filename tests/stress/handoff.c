// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A writer and a reader of one small hand-off buffer: records of random lengths, so many that it begins anew
 * hundreds of thousands of times; both threads are preempted between any two accesses that they share.
 *
 *     handoff RECORDS
 *
 * Each record must come, or be told as discarded, once, in order, whole, with the time of the first right; at
 * the end delivered + discarded == written. The writer at times waits until everything is read, so that the
 * reader sleeps, and the reader at times dozes, so that the buffer is full. Prints what it found; exit
 * status 1 if that is not so.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "handoff_hooks.h"
#include "record/handoff.h"

enum {
	HEADER = 1,
	FIXED = HANDOFF_FIXED_WORDS + HEADER,
	WORDS = 512,
	TAGS = 64,
	PAYLOAD_MAX = 40,
	YIELD_ONE_IN = 128, /* of the accesses */
	DOZE_ONE_IN = 4096, /* of the reads */
	WAIT_ONE_IN = 1024, /* of the writes: until all is read */
	FULL_ONE_IN = 64,   /* of the writes: until there is room again, or not */
};

struct found {
	uint64_t next; /* the number that must come now */
	uint64_t delivered;
	uint64_t discarded;
	uint64_t entries; /* records of discarded writes */
	uint64_t reads;
	uint64_t wrong;
};

static struct handoff *handoff;
static uint64_t records;
static uint64_t refused; /* the writer's count; read when it has ended */
static _Atomic uint64_t read_up_to;
static _Thread_local uint64_t random_state;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

void handoff_hook(void)
{
	if (next_random() % YIELD_ONE_IN == 0)
		sched_yield();
}

/* Record `number` follows from its number: how long it is, and each of its words. */
static uint64_t word_of(uint64_t number, size_t index)
{
	return (number * 0x9E3779B97F4A7C15ull + index) * 0xC2B2AE3D27D4EB4Full;
}

static size_t length_of(uint64_t number)
{
	return word_of(number, 99) >> 32 & 1 ? word_of(number, 98) >> 40 & 3
					     : (word_of(number, 97) >> 40) % PAYLOAD_MAX;
}

static void *tag_of(uint64_t number)
{
	return (void *)(uintptr_t)(number * 8 + 8);
}

static void write_one(uint64_t number)
{
	uint64_t payload[PAYLOAD_MAX];
	struct handoff_record record = {.tag = tag_of(number),
					.time_ns = number,
					.header = &number,
					.header_words = HEADER,
					.payload = payload,
					.payload_words = length_of(number)};

	for (size_t i = 0; i < record.payload_words; i++)
		payload[i] = word_of(number, i);
	if (handoff_write(handoff, &record))
		refused++;
}

static void *write_all(void *argument)
{
	random_state = 88172645463325252ull;
	for (uint64_t number = 0; number < records; number++) {
		write_one(number);
		if (next_random() % FULL_ONE_IN == 0)
			sched_yield();
		if (next_random() % WAIT_ONE_IN)
			continue;
		while (__atomic_load_n(&read_up_to, __ATOMIC_RELAXED) <= number)
			sched_yield();
	}
	handoff_close(handoff);
	return argument;
}

static bool is_whole(const uint64_t *data, const void *tag, uint64_t number)
{
	if (data[0] != FIXED + length_of(number) || data[1] != number || data[2] != number ||
	    tag != tag_of(number))
		return false;
	for (size_t i = 0; i < length_of(number); i++) {
		if (data[FIXED + i] != word_of(number, i))
			return false;
	}
	return true;
}

static void take(struct found *found, const struct handoff_batch *batch)
{
	const uint64_t *data = batch->data;

	for (size_t i = 0; i < batch->records; i++, data += data[0]) {
		if (batch->tags[i]) {
			found->wrong += !is_whole(data, batch->tags[i], found->next);
			found->next++;
			found->delivered++;
			continue;
		}
		found->wrong += data[0] != FIXED + 1 || data[1] != found->next || data[2] || !data[FIXED];
		found->next += data[FIXED];
		found->discarded += data[FIXED];
		found->entries++;
	}
	found->wrong += data != batch->data + batch->words;
}

static void *read_all(void *argument)
{
	struct found *found = argument;
	struct handoff_batch batch;
	enum handoff_state state;

	random_state = 1181783497276652981ull;
	while ((state = handoff_read(handoff, next_random() % 4, &batch)) != HANDOFF_END) {
		if (state == HANDOFF_EMPTY)
			continue;
		take(found, &batch);
		found->reads++;
		__atomic_store_n(&read_up_to, found->next, __ATOMIC_RELAXED);
		if (found->wrong)
			break; /* what follows says nothing */
		if (next_random() % DOZE_ONE_IN == 0)
			nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
	}
	if (found->wrong)
		__atomic_store_n(&read_up_to, UINT64_MAX, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	struct found found = {0};
	pthread_t writer, reader;
	bool good;

	records = argc == 2 ? strtoull(argv[1], NULL, 10) : 0;
	handoff = handoff_create(HEADER, WORDS, TAGS);
	if (!records || !handoff) {
		fprintf(stderr, "usage: handoff RECORDS\n");
		return 2;
	}
	if (pthread_create(&reader, NULL, read_all, &found) || pthread_create(&writer, NULL, write_all, NULL))
		return 2;
	pthread_join(writer, NULL);
	pthread_join(reader, NULL);
	good = !found.wrong && found.next == records && found.discarded == refused &&
	       found.delivered + found.discarded == records && found.delivered && found.entries;
	printf("%" PRIu64 " written = %" PRIu64 " delivered in %" PRIu64 " reads + %" PRIu64
	       " discarded in %" PRIu64 " entries (the writer counted %" PRIu64 "), %" PRIu64 " wrong: %s\n",
	       records, found.delivered, found.reads, found.discarded, found.entries, refused, found.wrong,
	       good ? "holds" : "VIOLATED");
	handoff_destroy(handoff);
	return good ? 0 : 1;
}
