// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads that end inside traced calls. Each of 16 calls step() a hundred times and then leave(),
 * which calls pthread_exit: leave() never returns. With "killed" leave() waits instead until the
 * whole process ends.
 *
 *	threadend [--wait-go] [killed]
 */
#include <pthread.h>
#include <semaphore.h>

#include "traced.h"

void step(long i);
void leave(void);

enum { THREADS = 16, CALLS = 100 };

static volatile long sink;
static volatile int killed;
static sem_t inside;
static int leave_entries, step_entries;

OUT_OF_LINE void step(long i)
{
	sink += i; /* first: the kernel refuses a probe on a locked instruction */
	__atomic_fetch_add(&step_entries, 1, __ATOMIC_RELAXED);
	NOT_LAST();
}

OUT_OF_LINE void leave(void)
{
	int now = killed;

	__atomic_fetch_add(&leave_entries, 1, __ATOMIC_RELAXED);
	if (!now)
		pthread_exit(NULL);
	sem_post(&inside);
	for (;;)
		pause();
}

static void *caller(void *context)
{
	for (long i = 0; i < CALLS; i++)
		step(i);
	leave();
	return context;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	argc = wait_for_go(argc, argv);
	killed = argc > 1 && strcmp(argv[1], "killed") == 0;
	sem_init(&inside, 0, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, caller, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		if (killed)
			sem_wait(&inside);
		else
			pthread_join(threads[i], NULL);
	printf("truth leave=%d/0 step=%d/%d\n", leave_entries, step_entries, step_entries);
	return 0;
}
