// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names at known times. A worker calls work() as "first" and as "second"; main calls it as it was
 * started,
 *and as "main-two", and then runs PROGRAM (this one, under another file name) in its place, which waits for a
 *line before it calls it. A child, which calls it too, names itself "child". Each name comes with the times
 *between which it was given:
 *
 *	name TID NAME BEFORE_NS AFTER_NS
 *
 *	namesteps [--wait-go] PROGRAM
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "traced.h"

void work(void);

enum { CALLS = 10, STEPS = 5 };

static volatile long sink;

OUT_OF_LINE void work(void)
{
	sink++;
	NOT_LAST();
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void call(void)
{
	for (int i = 0; i < CALLS; i++)
		work();
}

static void tell(const char *name, uint64_t before)
{
	printf("name %d %s %" PRIu64 " %" PRIu64 "\n", gettid(), name, before, now_ns());
	fflush(stdout);
}

static void call_as(const char *name)
{
	uint64_t before = now_ns();

	prctl(PR_SET_NAME, name);
	tell(name, before);
	call();
}

static void *worker(void *context)
{
	call_as("first");
	call_as("second");
	return context;
}

static int make_child(void)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_NAME, "child");
		call();
		_exit(0);
	}
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? 0 : 1;
}

static int go_on(const char *program, const char *before)
{
	const char *slash = strrchr(program, '/');
	char line[16];

	tell(slash ? slash + 1 : program, strtoull(before, NULL, 10));
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	call();
	printf("truth work=%d/%d\n", STEPS * CALLS, STEPS * CALLS);
	return 0;
}

int main(int argc, char **argv)
{
	char before[32];
	pthread_t thread;

	argc = wait_for_go(argc, argv);
	if (argc == 3)
		return go_on(argv[0], argv[2]);
	call();
	if (argc != 2 || pthread_create(&thread, NULL, worker, NULL))
		return 1;
	pthread_join(thread, NULL);
	if (make_child())
		return 1;
	call_as("main-two");
	snprintf(before, sizeof(before), "%" PRIu64, now_ns());
	execl(argv[1], argv[1], "since", before, NULL);
	return 1;
}
