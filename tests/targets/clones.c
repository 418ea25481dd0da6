// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions that gcc -O2 takes apart. work() is called 1000 times, always with the same mode and
 * tag, and becomes work.constprop.0; hot() is called 1000 times and has a .cold part that is no
 * function; split() is called 1000 times, mostly inlined with its long way in split.part.0, which
 * runs 100 times.
 */
#include <stdio.h>
#include <stdlib.h>

#include "traced.h"

/* Not noclone: what the compiler makes of it is the point. */
#define CLONABLE __attribute__((noinline))

static volatile long sum;

static CLONABLE long work(long a, int mode, const char *tag)
{
	long r = a;

	for (int i = 0; i < 8; i++) {
		r = r * 31 + mode;
		__asm__ volatile("" ::"r"(r));
	}
	if (tag[0] == 'z')
		r++;
	sum += r;
	return r;
}

__attribute__((cold, noreturn, noinline)) void fail(long a);
__attribute__((cold, noreturn, noinline)) void fail(long a)
{
	fprintf(stderr, "negative: %ld\n", a);
	abort();
}

CLONABLE long hot(long a);
CLONABLE long hot(long a)
{
	if (__builtin_expect(a < 0, 0)) {
		sum += a * 3;
		fail(a);
	}
	sum += a;
	return a;
}

/* Inlined down to its test; the rest is split off. */
static long split(long a)
{
	if (a % 10 != 0)
		return a;
	for (int i = 0; i < 4; i++) {
		sum += a * i;
		fprintf(stderr, "%s", sum == -1 ? "never\n" : "");
		sum ^= a << i;
		fprintf(stderr, "%s", sum == -2 ? "never\n" : "");
	}
	for (int i = 0; i < 4; i++)
		fprintf(stderr, "%s", sum == -i - 5 ? "never\n" : "");
	return sum;
}

int main(int argc, char **argv)
{
	long result = 0;

	wait_for_go(argc, argv);
	for (int i = 0; i < 500; i++) {
		result += work(i, 7, "x") + hot(i) + split(i);
		result ^= work(i, 7, "x") + hot(i) + split(i + 500);
		result += i % 3 ? 0 : sum;
	}
	printf("truth "
	       "{\"work\":{\"entries\":1000,\"returns\":1000},\"hot\":{\"entries\":1000,\"returns\":1000},"
	       "\"split_long_way\":100}\n");
	return result == 0;
}
