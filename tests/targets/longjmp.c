// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Frames that are left by longjmp. top() calls mid() calls leaf(), as often as is said; in every
 * other call
 *leaf() jumps straight out to top(), so that it and mid() never return.
 *
 *	longjmp [--wait-go] [CALLS]		1000 by default; 0: until it is killed
 */
#include <limits.h>
#include <setjmp.h>

#include "traced.h"

void leaf(int i);
void mid(int i);
void top(int i);

static jmp_buf out;
static volatile long sink;
static int leaf_entries, leaf_returns, mid_entries, mid_returns, top_entries, top_returns;

OUT_OF_LINE void leaf(int i)
{
	leaf_entries++;
	if (i & 1)
		longjmp(out, 1);
	sink += i;
	leaf_returns++;
	NOT_LAST();
}

OUT_OF_LINE void mid(int i)
{
	mid_entries++;
	leaf(i);
	mid_returns++;
	NOT_LAST();
}

OUT_OF_LINE void top(int i)
{
	top_entries++;
	if (!setjmp(out))
		mid(i);
	top_returns++;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	int calls;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atoi(argv[1]) : 1000;
	for (int i = 0; i < calls || !calls; i = (int)(((unsigned)i + 1) & INT_MAX))
		top(i);
	printf("truth top=%d/%d mid=%d/%d leaf=%d/%d\n", top_entries, top_returns, mid_entries,
	       mid_returns, leaf_entries, leaf_returns);
	return 0;
}
