// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A process that ends inside traced calls. steps() is called a hundred times; then last() calls
 * bye(), which
 *calls exit(), whose handler fin() returns: last() and bye() never do.
 *
 *	exitin [--wait-go]
 */
#include "traced.h"

void fin(void);
void steps(int i);
void bye(void);
void last(void);

static volatile long sink;
static int last_entries, last_returns, bye_entries, fin_entries, steps_entries, steps_returns;

/* Its own return is still to come when it prints. */
OUT_OF_LINE void fin(void)
{
	fin_entries++;
	printf("truth last=%d/%d bye=%d/0 fin=%d/%d steps=%d/%d\n", last_entries, last_returns,
	       bye_entries, fin_entries, fin_entries, steps_entries, steps_returns);
	sink++;
	NOT_LAST();
}

OUT_OF_LINE void steps(int i)
{
	steps_entries++;
	sink += i;
	steps_returns++;
	NOT_LAST();
}

OUT_OF_LINE void bye(void)
{
	bye_entries++;
	exit(0);
}

OUT_OF_LINE void last(void)
{
	last_entries++;
	bye();
	last_returns++;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	atexit(fin);
	for (int i = 0; i < 100; i++)
		steps(i);
	last();
	return 1;
}
