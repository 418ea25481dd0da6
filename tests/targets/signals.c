// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Signal handlers on the thread's own stack. work() is called as often as is said and raises a
 * signal, whose handler on_signal() calls step(). In every other call ("jump" only) step() jumps
 * out to main with siglongjmp, so that step(), on_signal() and work() never return.
 *
 *	signals [--wait-go] [jump]
 */
#include <setjmp.h>
#include <signal.h>

#include "traced.h"

void step(int i);
void on_signal(int number);
void work(int i);

enum { CALLS = 200 };

static sigjmp_buf out;
static volatile int current;
static volatile int jumps;
static int step_entries, step_returns, signal_entries, signal_returns, work_entries, work_returns;

OUT_OF_LINE void step(int i)
{
	step_entries++;
	if (jumps && i & 1)
		siglongjmp(out, 1);
	step_returns++;
	NOT_LAST();
}

OUT_OF_LINE void on_signal(int number)
{
	(void)number;
	signal_entries++;
	step(current);
	signal_returns++;
	NOT_LAST();
}

OUT_OF_LINE void work(int i)
{
	work_entries++;
	current = i;
	raise(SIGUSR1);
	work_returns++;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	argc = wait_for_go(argc, argv);
	jumps = argc > 1 && strcmp(argv[1], "jump") == 0;
	signal(SIGUSR1, on_signal);
	for (volatile int i = 0; i < CALLS; i++)
		if (!sigsetjmp(out, 1))
			work(i);
	printf("truth work=%d/%d on_signal=%d/%d step=%d/%d\n", work_entries, work_returns,
	       signal_entries, signal_returns, step_entries, step_returns);
	return 0;
}
