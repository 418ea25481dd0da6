/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Four threads record scopes; this program reads its own segment while they do, and checks that every scope
 * came once, in its thread's order. Built for another architecture than the tests', so it uses no test
 * library.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader.h"
#include "scope.h"

enum { THREADS = 4, EACH = 2000 };

static void *work(void *argument)
{
	(void)argument;
	for (int i = 0; i < EACH; i++) {
		SCOPE("a scope whose name does not fit into one record");
		SCOPE_HOT("hot");
	}
	return NULL;
}

struct seen {
	uint64_t kinds[SCOPE_KIND_LAST + 1];
	uint64_t gaps;
};

static int take(void *context, uint32_t ring, const struct scope_record *record)
{
	struct seen *seen = context;

	(void)ring;
	seen->kinds[record->kind]++;
	return 0;
}

static int miss(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	struct seen *seen = context;

	(void)ring;
	(void)reason;
	seen->gaps += count;
	return 0;
}

int main(void)
{
	struct seen seen = {{0}, 0};
	struct scope_reader_events events = {.context = &seen, .record = take, .gap = miss};
	struct scope_options options = {.size = sizeof(options), .rings = 3, .slots_per_ring = 65536};
	struct scope_reader_counts counts;
	pthread_t threads[THREADS];
	struct scope_reader *reader;
	int ok, err = scope_init(&options);

	reader = scope_reader_open(getpid());
	if (err || !reader) {
		printf("init %d, open: %s\n", err, strerror(errno));
		return 1;
	}
	scope_reader_capture(reader, 60000000000ull);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, NULL) != 0)
			return 1;
	for (int i = 0; i < 100; i++)
		scope_reader_drain(reader, &events, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	scope_reader_drain(reader, &events, 0);
	counts = scope_reader_counts(reader);
	ok = !seen.gaps && counts.delivered == counts.cursor &&
	     seen.kinds[SCOPE_KIND_THREAD_START] == THREADS &&
	     seen.kinds[SCOPE_KIND_START] == THREADS * EACH &&
	     seen.kinds[SCOPE_KIND_STOP] == THREADS * EACH &&
	     seen.kinds[SCOPE_KIND_CONTINUATION] == THREADS * EACH &&
	     seen.kinds[SCOPE_KIND_COMPLETE] == THREADS * EACH;
	printf("clock %u, cursor %llu, delivered %llu, gaps %llu\n", scope_reader_clock(reader),
	       (unsigned long long)counts.cursor, (unsigned long long)counts.delivered,
	       (unsigned long long)seen.gaps);
	scope_reader_close(reader);
	return !ok;
}
