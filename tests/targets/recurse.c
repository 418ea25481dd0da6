// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Recursion deeper than the kernel keeps return probes for (64). rec() calls itself to the given
 * depth, in as
 *many rounds.
 *
 *	recurse [--wait-go] [DEPTH [ROUNDS]]		70 deep and 1 round by default
 */
#include "traced.h"

long rec(long below);

static volatile long sink;
static long entries, returns;

OUT_OF_LINE __attribute__((optimize("no-optimize-sibling-calls"))) long rec(long below)
{
	long sum = below;

	entries++;
	if (below > 0)
		sum += rec(below - 1);
	sink += sum;
	returns++;
	NOT_LAST();
	return sum + 1;
}

int main(int argc, char **argv)
{
	long depth, rounds;

	argc = wait_for_go(argc, argv);
	depth = argc > 1 ? atol(argv[1]) : 70;
	rounds = argc > 2 ? atol(argv[2]) : 1;
	for (long i = 0; i < rounds; i++)
		rec(depth - 1);
	printf("truth rec=%ld/%ld\n", entries, returns);
	return 0;
}
