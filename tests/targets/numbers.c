// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scopes that are counted: `numbers THREADS`. Each thread writes scopes named t<thread>n0,
 * t<thread>n1 ... while somebody records, some thousand a second. Prints "pid N", then "capture on"
 * and "capture off" as it sees them, "mark" for each line "mark" on stdin, and after any other line
 * "truth threads=T written=N".
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scope.h"

enum { THREADS_MAX = 64 };

struct work {
	pthread_t thread;
	unsigned index;
	uint64_t written;
};

static bool over;

static bool is_over(void)
{
	return __atomic_load_n(&over, __ATOMIC_RELAXED);
}

static void pause_ns(long ns)
{
	nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void *write_numbers(void *argument)
{
	struct work *work = argument;

	while (!is_over()) {
		char name[32];
		int length = snprintf(name, sizeof(name), "t%un%llu", work->index,
				      (unsigned long long)work->written);
		scope_token scope = scope_enabled() ? scope_start(name, (size_t)length) : 0;

		pause_ns(50000);
		if (scope)
			work->written++;
		scope_stop(scope);
	}
	return NULL;
}

static void *tell_capture(void *argument)
{
	bool on = false;

	while (!is_over()) {
		if (on != (bool)scope_enabled()) {
			on = !on;
			printf("capture %s\n", on ? "on" : "off");
			fflush(stdout);
		}
		pause_ns(1000000);
	}
	return argument;
}

int main(int argc, char **argv)
{
	unsigned threads = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
	struct work work[THREADS_MAX] = {0};
	uint64_t written = 0;
	pthread_t teller;
	char line[16];

	if (threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: numbers THREADS\n");
		return 2;
	}
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (pthread_create(&teller, NULL, tell_capture, NULL) != 0)
		return 1;
	for (unsigned i = 0; i < threads; i++) {
		work[i].index = i;
		if (pthread_create(&work[i].thread, NULL, write_numbers, &work[i]) != 0)
			return 1;
	}
	while (fgets(line, sizeof(line), stdin) && strcmp(line, "mark\n") == 0) {
		printf("mark\n");
		fflush(stdout);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(work[i].thread, NULL);
		written += work[i].written;
	}
	pthread_join(teller, NULL);
	printf("truth threads=%u written=%llu\n", threads, (unsigned long long)written);
	return 0;
}
