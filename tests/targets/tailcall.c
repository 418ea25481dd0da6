// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Tail calls: frames that share one stack pointer and end at one ret instruction. a() jumps to b(),
 * a
 *thousand times; then even() and odd() jump to each other, in chains of as many calls as are given.
 *
 *	tailcall [--wait-go] [CHAIN]		chains of 6 by default
 */
#include "traced.h"

long a(long x);
long b(long x);
long even(long below);
long odd(long below);

enum { CALLS = 1000 };

static volatile long sink;
static long a_calls, b_calls, even_calls, odd_calls;

OUT_OF_LINE long b(long x)
{
	b_calls++;
	sink += x;
	return x + 1;
}

OUT_OF_LINE long a(long x)
{
	a_calls++;
	sink += x;
	return b(x * 2);
}

OUT_OF_LINE long odd(long below)
{
	odd_calls++;
	sink += below;
	return below > 0 ? even(below - 1) : 1;
}

OUT_OF_LINE long even(long below)
{
	even_calls++;
	sink += below;
	return below > 0 ? odd(below - 1) : 0;
}

int main(int argc, char **argv)
{
	long chain;

	argc = wait_for_go(argc, argv);
	chain = argc > 1 ? atol(argv[1]) : 6;
	for (long i = 0; i < CALLS; i++)
		sink += a(i);
	for (long i = 0; i < CALLS; i++)
		sink += even(chain - 1);
	printf("truth a=%ld/%ld b=%ld/%ld even=%ld/%ld odd=%ld/%ld\n", a_calls, a_calls, b_calls,
	       b_calls, even_calls, even_calls, odd_calls, odd_calls);
	return 0;
}
