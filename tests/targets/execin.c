// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec() and a new name inside traced calls. work() is called ten times; replace() names the thread
 * "renamed"
 *and runs this program again, in which work() is called ten times more. The truth is that of both.
 *
 *	execin [--wait-go]
 */
#include <sys/prctl.h>

#include "traced.h"

void work(int i);
void replace(const char *program);

enum { CALLS = 10 };

static volatile long sink;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

OUT_OF_LINE void replace(const char *program)
{
	prctl(PR_SET_NAME, "renamed");
	execl(program, program, "again", NULL);
	NOT_LAST();
}

int main(int argc, char **argv)
{
	argc = wait_for_go(argc, argv);
	for (int i = 0; i < CALLS; i++)
		work(i);
	if (argc == 1) {
		replace("/proc/self/exe");
		return 1;
	}
	printf("truth work=%d/%d replace=1/0\n", 2 * CALLS, 2 * CALLS);
	return 0;
}
