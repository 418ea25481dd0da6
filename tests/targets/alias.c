// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * One function with three names. Called 1000 times, by each name in turn: 1000 calls in all,
 * whichever of the names are asked for. With --wait-go it prints `pid N` and calls nothing before a
 * line comes in on stdin.
 */
#include <stdio.h>

#include "traced.h"

static volatile long sum;

void real_name(int i);
void strong_alias(int i) __attribute__((alias("real_name")));
void weak_alias(int i) __attribute__((weak, alias("real_name")));

__attribute__((noinline, noclone)) void real_name(int i)
{
	sum += i;
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	static void (*const names[])(int) = {real_name, strong_alias, weak_alias};

	wait_for_go(argc, argv);
	for (int i = 0; i < 1000; i++)
		names[i % 3](i);
	printf("truth {\"real_name\":{\"entries\":1000,\"returns\":1000}}\n");
	return sum != 499500;
}
