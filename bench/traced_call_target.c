// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The traced side of bench/traced_call: for each number on stdin calls traced_function() as often,
 * and prints how many ns of cpu time that took, so that what else the machine does stays out of it.
 * Built plain, and with a 5-byte nop at the entry that the kernel can optimise.
 */
#include <stdio.h>
#include <time.h>

void traced_function(long i);

static volatile long sink;

__attribute__((noinline, noclone)) void traced_function(long i)
{
	sink += i;
	__asm__ volatile("" ::: "memory");
}

static long long spent_ns(void)
{
	struct timespec spent;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
	return spent.tv_sec * 1000000000ll + spent.tv_nsec;
}

int main(void)
{
	long calls;

	while (scanf("%ld", &calls) == 1) {
		long long start = spent_ns();

		for (long i = 0; i < calls; i++)
			traced_function(i);
		printf("%lld\n", spent_ns() - start);
		fflush(stdout);
	}
	return 0;
}
