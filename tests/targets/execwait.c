// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec() by a thread that is not the first and calls nothing traced, or (`main`) by the first; then
 * a line is awaited, on which the new program goes on. work() and getppid() are called ten times
 * before and ten times
 *after, by call().
 *
 *	execwait [--wait-go] thread|main [PROGRAM] [ROUNDS]
 *
 * PROGRAM is this one by default. ROUNDS: so often ten calls before.
 */
#include <pthread.h>

#include "traced.h"

void work(int i);

enum { CALLS = 10 };

static volatile long sink;
static char *const *next;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

static void *replace(void *context)
{
	execv(next[0], next);
	return context;
}

OUT_OF_LINE static void call(void)
{
	for (int i = 0; i < CALLS; i++) {
		work(i);
		sink += getppid();
	}
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char line[16];

	argc = wait_for_go(argc, argv);
	if (argc < 2)
		return 2;
	if (strcmp(argv[1], "again") == 0) {
		printf("again %d\n", getpid());
		fflush(stdout);
		if (!fgets(line, sizeof(line), stdin))
			return 2;
		call();
		printf("truth work=%d/%d getppid=%d/%d\n", 2 * CALLS, 2 * CALLS, 2 * CALLS,
		       2 * CALLS);
		return 0;
	}
	for (int rounds = argc > 3 ? atoi(argv[3]) : 1; rounds; rounds--)
		call();
	next = (char *const[]){argc > 2 ? argv[2] : "/proc/self/exe", "again", NULL};
	if (strcmp(argv[1], "main") == 0)
		replace(NULL);
	else if (!pthread_create(&thread, NULL, replace, NULL))
		pthread_join(thread, NULL);
	return 1;
}
