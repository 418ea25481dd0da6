// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * C threads that end below traced calls: half of them by pthread_exit in deep(), half cancelled
 * while they wait in waiter(). None of the traced calls returns; every cleanup handler must run.
 *
 *	threadexit [--wait-go] [THREADS]	200 by default
 */
#include <pthread.h>
#include <semaphore.h>

#include "account.h"

void deep(void);
void waiter(void);
void tw(int cancelled);

static struct account tw_calls, deep_calls, waiter_calls;
static sem_t inside;
static int cleanups;

static void clean_up(void *context)
{
	(void)context;
	__atomic_fetch_add(&cleanups, 1, __ATOMIC_RELAXED);
}

OUT_OF_LINE void deep(void)
{
	enter(&deep_calls);
	pthread_exit(NULL);
}

OUT_OF_LINE void waiter(void)
{
	enter(&waiter_calls);
	sem_post(&inside);
	for (;;)
		pause();
}

OUT_OF_LINE void tw(int cancelled)
{
	enter(&tw_calls);
	pthread_cleanup_push(clean_up, NULL);
	if (cancelled)
		waiter();
	else
		deep();
	pthread_cleanup_pop(0);
	leave(&tw_calls);
}

static void *run(void *context)
{
	tw(context != NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads;

	argc = wait_for_go(argc, argv);
	threads = argc > 1 ? atoi(argv[1]) : 200;
	sem_init(&inside, 0, 0);
	for (long i = 0; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, (void *)(i & 1)))
			return 2;
		if (i & 1) {
			sem_wait(&inside);
			pthread_cancel(thread);
		}
		pthread_join(thread, NULL);
	}
	printf("truth");
	TELL(tw);
	TELL(deep);
	TELL(waiter);
	printf(" cleanups=%d\n", cleanups);
	return cleanups != threads;
}
