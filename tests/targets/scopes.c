// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Manual scopes only: `scopes THREADS COUNT [--wait-go]`. Each thread runs COUNT times outer > 2
 * middle > 3 inner each. Prints "pid N" first, with --wait-go waits for a line on stdin then, and
 * in the end prints what it truly did, and from when to when: "truth outer=N middle=N inner=N
 * threads=T begin_ns=T end_ns=T".
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "scope.h"

struct work {
	pthread_t thread;
	unsigned long count;
	uint64_t outer, middle, inner;
};

static void inner(struct work *work)
{
	SCOPE("inner");
	work->inner++;
}

static void middle(struct work *work)
{
	scope_token scope;

	SCOPE_BEGIN(scope, "middle");
	work->middle++;
	for (int i = 0; i < 3; i++)
		inner(work);
	SCOPE_END(scope);
}

static void outer(struct work *work)
{
	SCOPE_FUNCTION();
	work->outer++;
	for (int i = 0; i < 2; i++)
		middle(work);
}

static void *run(void *argument)
{
	struct work *work = argument;

	SCOPE_THREAD_NAME("worker");
	for (unsigned long i = 0; i < work->count; i++)
		outer(work);
	return NULL;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static bool wait_for_go(void)
{
	char line[64];

	return fgets(line, sizeof(line), stdin) != NULL;
}

static int run_all(unsigned long threads, unsigned long count)
{
	struct work *work = calloc(threads, sizeof(*work));
	struct work sum = {0};
	uint64_t begin_ns = now_ns();
	unsigned long made = 0;

	while (work && made < threads) {
		work[made].count = count;
		if (pthread_create(&work[made].thread, NULL, run, &work[made]) != 0)
			break;
		made++;
	}
	for (unsigned long i = 0; i < made; i++) {
		pthread_join(work[i].thread, NULL);
		sum.outer += work[i].outer;
		sum.middle += work[i].middle;
		sum.inner += work[i].inner;
	}
	free(work);
	printf("truth outer=%" PRIu64 " middle=%" PRIu64 " inner=%" PRIu64
	       " threads=%lu begin_ns=%" PRIu64 " end_ns=%" PRIu64 "\n",
	       sum.outer, sum.middle, sum.inner, made, begin_ns, now_ns());
	return made == threads ? 0 : 1;
}

int main(int argc, char **argv)
{
	bool wait = argc == 4 && strcmp(argv[3], "--wait-go") == 0;
	unsigned long threads, count;

	if (argc != 3 && !wait) {
		fprintf(stderr, "usage: scopes THREADS COUNT [--wait-go]\n");
		return 2;
	}
	threads = strtoul(argv[1], NULL, 10);
	count = strtoul(argv[2], NULL, 10);
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	if (wait && !wait_for_go())
		return 1;
	return run_all(threads, count);
}
