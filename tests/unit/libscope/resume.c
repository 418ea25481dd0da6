// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Readers that are killed and followed by others: nothing lost, nothing repeated. The readers write each
 * record to a file as it comes, with its ring and claim; a reader passes over records that the file has
 * already, which its predecessors wrote and could not take: of one ring, so they are among the latest.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"

enum { WRITERS = 3, KILLS = 50, TAIL = 4096, SLOTS = 8192 };

struct entry {
	uint64_t ring;
	uint64_t claim;
	uint64_t tid;
	uint64_t number;
};

struct consumer {
	struct scope_reader *reader;
	struct entry tail[TAIL]; /* what the file ended with */
	size_t tail_count;
	size_t kept;
	int file;
};

static int file;

static int keep(void *context, uint32_t ring, const struct scope_record *record)
{
	struct consumer *consumer = context;
	struct entry entry = {
		.ring = ring, .claim = scope_reader_claim(consumer->reader), .tid = record->tid};

	if (record->kind != SCOPE_KIND_INSTANT)
		entry.number = UINT64_MAX;
	else
		memcpy(&entry.number, record->name, sizeof(entry.number));
	for (size_t i = 0; i < consumer->tail_count; i++)
		if (consumer->tail[i].claim == entry.claim)
			return 0;
	/* Ours do not come twice, and those before them not after so many others. */
	if (++consumer->kept > TAIL)
		consumer->tail_count = 0;
	return write(consumer->file, &entry, sizeof(entry)) == sizeof(entry) ? 0 : -1;
}

static int refuse_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context;
	(void)ring;
	(void)reason;
	(void)count;
	return -1;
}

static void load_tail(struct consumer *consumer)
{
	struct stat status;
	off_t size = sizeof(consumer->tail), got;

	if (fstat(consumer->file, &status) != 0)
		_exit(1);
	if (size > status.st_size)
		size = status.st_size;
	got = pread(consumer->file, consumer->tail, (size_t)size, status.st_size - size);
	if (got != size)
		_exit(1);
	consumer->tail_count = (size_t)size / sizeof(consumer->tail[0]);
}

static void run_reader(int from_parent, int to_parent)
{
	static struct consumer consumer;
	struct scope_reader_events events = {.context = &consumer, .record = keep, .gap = refuse_gap};

	(void)from_parent;
	consumer = (struct consumer){.reader = scope_reader_open(getppid()), .file = file};
	if (!consumer.reader)
		_exit(1);
	load_tail(&consumer);
	scope_reader_capture(consumer.reader, LONG_CAPTURE_NS);
	step(to_parent);
	for (;;)
		if (scope_reader_drain(consumer.reader, &events, 0) < 0)
			_exit(2);
}

struct writer {
	pthread_t thread;
	uint64_t written;
	int stop;
};

/* What the readers have not taken yet, by the positions that they leave in the segment. */
static uint64_t backlog(void)
{
	const struct scope_ring_position *saved = (const struct scope_ring_position *)(own_control() + 1);
	uint64_t current = __atomic_load_n(&saved->current, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&own_ring(0)->write_cursor, __ATOMIC_RELAXED) -
	       __atomic_load_n(&saved->position[current & 1].next, __ATOMIC_RELAXED);
}

/* Waits where the ring would lap: exactness over a killed reader holds while it does not. */
static void *write_numbers(void *argument)
{
	struct writer *writer = argument;

	while (!__atomic_load_n(&writer->stop, __ATOMIC_RELAXED)) {
		if (backlog() > SLOTS / 2 || !scope_enabled()) {
			sched_yield();
			continue;
		}
		scope_instant((const char *)&writer->written, sizeof(writer->written));
		writer->written++;
	}
	return NULL;
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

struct tally {
	uint64_t tid[WRITERS];
	uint64_t next[WRITERS];
	uint64_t threads;
	uint64_t entries;
};

static uint64_t *next_of(struct tally *tally, uint64_t tid)
{
	uint64_t i = 0;

	while (i < tally->threads && tally->tid[i] != tid)
		i++;
	if (i == tally->threads) {
		cr_assert(tally->threads < WRITERS);
		tally->tid[tally->threads++] = tid;
	}
	return &tally->next[i];
}

static struct tally read_tally(void)
{
	struct tally tally = {0};
	struct entry entry;
	unsigned char *seen = calloc(1, 1 << 26);

	cr_assert_eq(lseek(file, 0, SEEK_SET), 0);
	while (read(file, &entry, sizeof(entry)) == sizeof(entry)) {
		cr_assert(entry.claim < 1 << 26 && !seen[entry.claim], "claim %llu twice",
			  (unsigned long long)entry.claim);
		seen[entry.claim] = 1;
		tally.entries++;
		if (entry.number == UINT64_MAX)
			continue;
		cr_assert_eq(*next_of(&tally, entry.tid), entry.number, "out of a thread's order, or lost");
		++*next_of(&tally, entry.tid);
	}
	free(seen);
	return tally;
}

static void check_entries(uint64_t written)
{
	struct tally tally = read_tally();
	uint64_t sum = 0;

	for (int i = 0; i < WRITERS; i++)
		sum += tally.next[i];
	cr_assert_eq(sum, written);
	cr_assert_eq(tally.entries, written + WRITERS, "each thread's start once");
}

Test(resume, over_killed_readers_nothing_is_lost_or_repeated)
{
	struct scope_options options = {.size = sizeof(options), .rings = 1, .slots_per_ring = SLOTS};
	struct writer writers[WRITERS] = {0};
	uint64_t written = 0;
	struct child child;
	FILE *log = tmpfile();

	file = fcntl(fileno(log), F_DUPFD, 100);
	cr_assert(fcntl(file, F_SETFL, O_APPEND) == 0);
	cr_assert_eq(scope_init(&options), 0);
	child = start_child(run_reader);
	wait_step(child.from);
	for (int i = 0; i < WRITERS; i++)
		cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_numbers, &writers[i]), 0);
	for (int i = 0; i < KILLS; i++) {
		pause_ns(200000 + random() % 3000000);
		end_child(&child, SIGKILL);
		child = start_child(run_reader);
		wait_step(child.from);
	}
	for (int i = 0; i < WRITERS; i++) {
		__atomic_store_n(&writers[i].stop, 1, __ATOMIC_RELAXED);
		pthread_join(writers[i].thread, NULL);
		written += writers[i].written;
	}
	while (backlog())
		pause_ns(100000);
	/* The position is taken after the record is written, so the file is whole now. */
	end_child(&child, SIGKILL);
	cr_assert(written > KILLS);
	check_entries(written);
	fclose(log);
}
