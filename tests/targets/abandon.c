// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * More stack pointers than a thread may keep. outer() stays open while visit() is called at as many
 * depths of the stack as is said and returns, and while leaf() is called at as many, each a little
 * less deep, and jumps out to outer().
 *
 *	abandon [--wait-go] [DEPTHS]		1000 by default
 */
#include <alloca.h>
#include <setjmp.h>

#include "traced.h"

void visit(int i);
void leaf(int i);
void outer(void);

enum { STEP = 32, MOST_DEPTHS = 100000 /* of a stack of 8 MiB */ };

static int depths = 1000;

static jmp_buf out;
static volatile long sink;
static int outer_entries, outer_returns, visit_entries, visit_returns, leaf_entries;

OUT_OF_LINE void visit(int i)
{
	visit_entries++;
	sink += i;
	visit_returns++;
	NOT_LAST();
}

OUT_OF_LINE void leaf(int i)
{
	leaf_entries++;
	sink += i;
	longjmp(out, 1);
}

static OUT_OF_LINE void at_depth(int i, void (*function)(int))
{
	volatile char *room = alloca((size_t)(depths - i) * STEP);

	room[0] = 1;
	function(i);
	sink += room[0];
}

OUT_OF_LINE void outer(void)
{
	outer_entries++;
	for (int i = 0; i < depths; i++)
		at_depth(i, visit);
	for (volatile int i = 0; i < depths; i++)
		if (!setjmp(out))
			at_depth(i, leaf);
	outer_returns++;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	argc = wait_for_go(argc, argv);
	if (argc > 1)
		depths = atoi(argv[1]);
	if (depths < 1 || depths > MOST_DEPTHS)
		return 2;
	outer();
	printf("truth outer=%d/%d visit=%d/%d leaf=%d/0/0\n", outer_entries, outer_returns,
	       visit_entries, visit_returns, leaf_entries);
	return 0;
}
