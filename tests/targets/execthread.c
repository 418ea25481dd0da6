// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec() by a thread that is not the first, while the first is inside a traced call: the first
 * ends, and the other goes on under its id. wait_inside() never returns, nor does replace(); work()
 * is called ten times before and ten times after.
 *
 *	execthread [--wait-go]
 */
#include <pthread.h>

#include "traced.h"

void work(int i);
void replace(void);
void wait_inside(pthread_t thread);

enum { CALLS = 10 };

static volatile long sink;
static volatile int waiting;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

OUT_OF_LINE void replace(void)
{
	execl("/proc/self/exe", "execthread", "again", NULL);
	NOT_LAST();
}

static void *replacer(void *context)
{
	while (!waiting)
		usleep(100);
	replace();
	return context;
}

OUT_OF_LINE void wait_inside(pthread_t thread)
{
	waiting = 1;
	pthread_join(thread, NULL);
	NOT_LAST();
}

int main(int argc, char **argv)
{
	pthread_t thread;

	argc = wait_for_go(argc, argv);
	for (int i = 0; i < CALLS; i++)
		work(i);
	if (argc == 1) {
		if (!pthread_create(&thread, NULL, replacer, NULL))
			wait_inside(thread);
		return 1;
	}
	printf("truth work=%d/%d replace=1/0 wait_inside=1/0\n", 2 * CALLS, 2 * CALLS);
	return 0;
}
