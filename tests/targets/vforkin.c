// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vfork() inside a traced call: the child runs on the stack and in the memory of vforker(), calls
 * step() there, and ends by _exit or, every other one, by exec. The truth is that of the parent.
 *
 *	vforkin [--wait-go]
 */
#include <sys/wait.h>

#include "traced.h"

void step(int i);
void vforker(int i);

enum { FORKS = 20 };

static volatile long sink;
static int vforker_entries, vforker_returns, step_entries, step_returns, failures;

OUT_OF_LINE void step(int i)
{
	sink += i;
	NOT_LAST();
}

OUT_OF_LINE void vforker(int i)
{
	int status;
	pid_t child;

	vforker_entries++;
	child = vfork();
	if (child == 0) {
		step(i);
		if (i & 1)
			execl("/bin/true", "true", NULL);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
	    WEXITSTATUS(status))
		failures++;
	step_entries++;
	step(i);
	step_returns++;
	vforker_returns++;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	for (int i = 0; i < FORKS; i++)
		vforker(i);
	printf("truth vforker=%d/%d step=%d/%d\n", vforker_entries, vforker_returns, step_entries,
	       step_returns);
	return failures != 0;
}
