// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names that change. A worker calls work() as "first", as "second" and as "third", and ends; main
 * calls it as it was started, names itself "main-two", calls it, and runs this program anew under
 * the file name given: that one calls it under the name that exec gives it.
 *
 *	renames [--wait-go] [PROGRAM]
 */
#include <pthread.h>
#include <sys/prctl.h>

#include "traced.h"

void work(int i);

enum { CALLS = 10 };

static volatile long sink;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

static void call_as(const char *name)
{
	if (name)
		prctl(PR_SET_NAME, name);
	for (int i = 0; i < CALLS; i++)
		work(i);
}

static void *worker(void *context)
{
	call_as("first");
	call_as("second");
	call_as("third");
	return context;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	argc = wait_for_go(argc, argv);
	if (argc < 2) {
		call_as(NULL);
		printf("truth work=%d/%d\n", 6 * CALLS, 6 * CALLS);
		return 0;
	}
	if (pthread_create(&thread, NULL, worker, NULL))
		return 1;
	pthread_join(thread, NULL);
	call_as(NULL);
	call_as("main-two");
	execl(argv[1], argv[1], NULL);
	return 1;
}
