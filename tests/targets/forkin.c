// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * fork() inside a traced call: forker() is entered in the parent and returns in both. Each child
 * calls
 *after() once, and ends with 0 if it came back from both. The truth is that of the parent; each child does
 *one return of forker() and one call of after() more. The exit status is 1 if a child did otherwise.
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
	int status, wrong = 0;

	wait_for_go(argc, argv);
	for (int i = 0; i < FORKS; i++) {
		pid_t child = forker();

		after(child);
		if (child == 0)
			_exit(forker_returns == i + 1 && after_returns == i + 1 ? 0 : 3);
		wrong += waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
			 WEXITSTATUS(status);
	}
	printf("truth forker=%d/%d after=%d/%d\n", forker_entries, forker_returns, after_entries,
	       after_returns);
	return wrong != 0;
}
