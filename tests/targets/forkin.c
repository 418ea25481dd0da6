// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fork() inside a traced call: forker() is entered in the parent and returns in both. Each child calls
 *after() once and ends. The truth is that of the parent; each child does one return of forker() and one call
 *of after() more.
 *
 *	forkin [--wait-go]
 */
#include <sys/wait.h>

#include "traced.h"

pid_t forker(void);
void after(pid_t child);

enum { FORKS = 20 };

static volatile long sink;
static int forker_entries, forker_returns, after_entries, after_returns;

OUT_OF_LINE void after(pid_t child)
{
	after_entries++;
	sink += child;
	after_returns++;
	NOT_LAST();
}

OUT_OF_LINE pid_t forker(void)
{
	pid_t child;

	forker_entries++;
	child = fork();
	forker_returns++;
	NOT_LAST();
	return child;
}

int main(int argc, char **argv)
{
	int status, killed = 0;

	wait_for_go(argc, argv);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = forker();

		after(child);
		if (child == 0)
			_exit(0);
		waitpid(child, &status, 0);
		killed += !WIFEXITED(status);
	}
	printf("truth forker=%d/%d after=%d/%d\n", forker_entries, forker_returns, after_entries,
	       after_returns);
	return killed;
}
