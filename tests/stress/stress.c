// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads that are preempted by force within the write path, on one ring, under a reader that is too:
 * producer.c and reader.c with a hook before each access to the ring, where a thread now and then gives up
 * its processor or waits. Purpose: what the model shows of a few records, for hundreds of thousands and on
 * real processors.
 *
 *     stress lap    four writers of eight slots, so that writers are lapped in the middle of a record: no
 * torn record is believed, each thread's order holds, the counts add up stress slots  eight writers of a ring
 * with room for all: each event has a slot of its own
 *
 * Prints what it found; exit status 1 if that is not so.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hooks.h"
#include "sides.h"

#undef __atomic_load_n
#undef __atomic_store_n
#undef __atomic_fetch_add

enum { WRITERS_MAX = 8, FIRST_TID = 1000, SLOTS_MAX = 131072, NAME_WORDS = 4 };

struct shape {
	const char *name;
	unsigned writers;
	unsigned each;
	uint32_t slots;
	unsigned yield_one_in; /* of the accesses to the ring */
	unsigned wait_one_in;
	bool all_delivered;
};

static const struct shape shapes[] = {
	{"lap", 4, 100000, 8, 32, 1024, false},
	{"slots", 8, 15000, SLOTS_MAX, 64, 4096, true},
};

struct found {
	uint64_t delivered;
	uint64_t lost;
	uint64_t written_off;
	uint64_t torn;
	uint64_t disordered;
	uint64_t twice;
	int64_t newest[WRITERS_MAX];
	unsigned char *seen; /* by claim */
};

static struct {
	struct scope_ring ring;
	struct scope_slot slot[SLOTS_MAX];
} memory;
static struct scope_ring_position saved;
static const uint64_t capture_until = UINT64_MAX;
static const struct shape *shape;
static struct scope_reader *reader;
static _Thread_local uint64_t random_state; /* 0: a thread that is left alone */

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 11;
}

void hook_point(const volatile void *address)
{
	uintptr_t at = (uintptr_t)address, ring = (uintptr_t)&memory;

	if (!random_state || at < ring || at >= ring + sizeof(memory))
		return;
	if (next_random() % shape->wait_one_in == 0)
		nanosleep(&(struct timespec){.tv_nsec = 1000}, NULL);
	else if (next_random() % shape->yield_one_in == 0)
		sched_yield();
}

void hook_loaded(const volatile void *address, uint64_t value)
{
	(void)address, (void)value;
}

bool hook_delays(volatile void *address, uint64_t value)
{
	(void)address, (void)value;
	return false;
}

/* Each word of a name says whose it is and which. */
static uint64_t word_of(uint32_t tid, uint64_t number, unsigned index)
{
	return index ? (tid * 0x9E3779B97F4A7C15ull + number) * 0xC2B2AE3D27D4EB4Full + index : number;
}

struct writer {
	pthread_t thread;
	unsigned index;
};

static void *write_records(void *argument)
{
	uint32_t tid = FIRST_TID + ((struct writer *)argument)->index;

	random_state = tid * 0x9E3779B97F4A7C15ull;
	side_thread_begin(tid, &memory.ring, shape->slots, &capture_until);
	for (uint64_t number = 0; number < shape->each; number++) {
		uint64_t name[NAME_WORDS];

		for (unsigned i = 0; i < NAME_WORDS; i++)
			name[i] = word_of(tid, number, i);
		scope_instant((const char *)name, sizeof(name));
	}
	return NULL;
}

static bool whole(const struct scope_record *record, uint64_t claim, const uint64_t *name)
{
	if (record->scope_id != claim || record->tid - FIRST_TID >= shape->writers ||
	    record->name_length != 32 || name[0] >= shape->each)
		return false;
	for (unsigned i = 0; i < NAME_WORDS; i++)
		if (name[i] != word_of(record->tid, name[0], i))
			return false;
	return true;
}

static int take_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct found *found = context;
	uint64_t claim = scope_reader_claim(reader), name[NAME_WORDS];
	int64_t *newest;

	(void)ring;
	memcpy(name, record->name, sizeof(name));
	found->delivered++;
	if (!whole(record, claim, name)) {
		found->torn++;
		return 0;
	}
	found->twice += found->seen[claim];
	found->seen[claim] = 1;
	newest = &found->newest[record->tid - FIRST_TID];
	found->disordered += (int64_t)name[0] <= *newest;
	*newest = (int64_t)name[0];
	return 0;
}

static int take_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	struct found *found = context;

	(void)ring;
	*(reason == SCOPE_GAP_LAPPED ? &found->lost : &found->written_off) += count;
	return 0;
}

struct reading {
	struct found *found;
	int stop;
};

static void *read_records(void *argument)
{
	struct reading *reading = argument;
	struct scope_reader_events events = {reading->found, take_record, take_gap};

	random_state = 88172645463325252ull;
	while (!__atomic_load_n(&reading->stop, __ATOMIC_RELAXED))
		scope_reader_drain(reader, &events, 0);
	random_state = 0;
	scope_reader_drain(reader, &events, 0);
	return NULL;
}

static void run_all(struct found *found)
{
	struct writer writers[WRITERS_MAX];
	struct reading reading = {.found = found};
	pthread_t thread;

	if (pthread_create(&thread, NULL, read_records, &reading) != 0)
		exit(2);
	for (unsigned i = 0; i < shape->writers; i++) {
		writers[i].index = i;
		if (pthread_create(&writers[i].thread, NULL, write_records, &writers[i]) != 0)
			exit(2);
	}
	for (unsigned i = 0; i < shape->writers; i++)
		pthread_join(writers[i].thread, NULL);
	__atomic_store_n(&reading.stop, 1, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
}

static bool judge(const struct found *found)
{
	struct scope_reader_counts counts = scope_reader_counts(reader);
	uint64_t written = (uint64_t)shape->writers * shape->each;
	uint64_t sum = found->delivered + found->lost + found->written_off + counts.holes;
	bool good = !found->torn && !found->twice && !found->disordered && sum == written &&
		    counts.cursor == written && !counts.backlog &&
		    (!shape->all_delivered || found->delivered == written);

	printf("%s: %u writers, %u slots: %" PRIu64 " written, cursor %" PRIu64 " = %" PRIu64
	       " delivered + %" PRIu64 " lost + %" PRIu64 " written off + %" PRIu64 " holes\n",
	       shape->name, shape->writers, shape->slots, written, counts.cursor, found->delivered,
	       found->lost, found->written_off, counts.holes);
	printf("%s: torn and believed %" PRIu64 ", twice %" PRIu64 ", out of order %" PRIu64 ": %s\n",
	       shape->name, found->torn, found->twice, found->disordered, good ? "holds" : "VIOLATED");
	return good;
}

int main(int argc, char **argv)
{
	struct side_segment segment = {&memory.ring, &saved, 0};
	struct found found = {0};

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		if (argc == 2 && strcmp(argv[1], shapes[i].name) == 0)
			shape = &shapes[i];
	if (!shape) {
		fprintf(stderr, "usage: stress lap|slots\n");
		return 2;
	}
	for (unsigned i = 0; i < WRITERS_MAX; i++)
		found.newest[i] = -1;
	segment.slots = shape->slots;
	reader = side_reader_open(&segment);
	found.seen = calloc(shape->writers, shape->each);
	if (!reader || !found.seen)
		return 2;
	run_all(&found);
	free(found.seen);
	return judge(&found) ? 0 : 1;
}
