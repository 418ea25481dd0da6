// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two different local functions, both called twin (the other is in twin.s). The first is called
 * 1000 times, the second 500 times: a tool hooks both, or asks; never one of them in silence.
 */
#include <stdio.h>

#include "traced.h"

long call_second(long n); /* twin.s */

static __attribute__((noinline, noclone)) long twin(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

int main(int argc, char **argv)
{
	long sum = 0;

	wait_for_go(argc, argv);
	for (int i = 0; i < 1000; i++)
		sum += twin(i);
	for (int i = 0; i < 500; i++)
		sum += call_second(i);
	printf("truth {\"twin\":{\"entries\":1500,\"returns\":1500},\"first\":1000,\"second\":500}\n");
	return sum != 499500 + 1000 + 124750 + 1000;
}
