// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Threads made after the probes, and gone before they are: two waves of threads call fn() a
 * thousand times
 *each. The second wave has the stacks of the first under other ids.
 *
 *	threads [--wait-go] [THREADS]		16 a wave by default
 */
#include <pthread.h>

#include "traced.h"

void fn(long i);

enum { CALLS = 1000, WAVES = 2, MAX_THREADS = 256 };

static volatile long sink;

OUT_OF_LINE void fn(long i)
{
	sink += i;
	NOT_LAST();
}

static void *caller(void *context)
{
	long *calls = context;

	for (long i = 0; i < CALLS; i++) {
		fn(i);
		++*calls;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	long calls[WAVES][MAX_THREADS] = {{0}}, sum = 0;
	int count;

	argc = wait_for_go(argc, argv);
	count = argc > 1 ? atoi(argv[1]) : 16;
	if (count < 1 || count > MAX_THREADS)
		return 2;
	for (int wave = 0; wave < WAVES; wave++) {
		for (int i = 0; i < count; i++)
			if (pthread_create(&threads[i], NULL, caller, &calls[wave][i]))
				return 1;
		for (int i = 0; i < count; i++) {
			pthread_join(threads[i], NULL);
			sum += calls[wave][i];
		}
	}
	printf("truth fn=%ld/%ld\n", sum, sum);
	return 0;
}
