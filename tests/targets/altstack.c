// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Signal handlers on a stack of their own (sigaltstack), and nothing else that a tracer could see.
 * outer() raises a signal; its handler on_signal() calls inner(). The handler's stack lies above
 * the thread's stack, in a frame of main, or below it.
 *
 *	altstack [--wait-go] [above|below] [CALLS [hold]]	above, 1000 calls by default
 *
 * hold: the last call of outer() tells all before it returns, and waits for a line.
 */
#include <signal.h>

#include "account.h"

void inner(void);
void on_signal(int number);
void outer(void);

enum { STACK_SIZE = 64 << 10 };

static struct account outer_calls, on_signal_calls, inner_calls;
static char below[STACK_SIZE];
static int holds, is_last;

static void tell(long open)
{
	printf("truth");
	TELL_OPEN(outer, open);
	TELL_OPEN(on_signal, 0l);
	TELL_OPEN(inner, 0l);
	printf("\n");
}

OUT_OF_LINE void inner(void)
{
	enter(&inner_calls);
	leave(&inner_calls);
}

OUT_OF_LINE void on_signal(int number)
{
	(void)number;
	enter(&on_signal_calls);
	inner();
	leave(&on_signal_calls);
}

OUT_OF_LINE void outer(void)
{
	enter(&outer_calls);
	inner();
	raise(SIGUSR1);
	inner();
	if (holds && is_last) {
		tell(1);
		hold();
	}
	leave(&outer_calls);
}

static OUT_OF_LINE void run(int calls)
{
	for (int i = 0; i < calls; i++) {
		is_last = i == calls - 1;
		outer();
	}
	NOT_LAST();
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	stack_t stack = {.ss_size = STACK_SIZE};
	char above[STACK_SIZE];

	argc = wait_for_go(argc, argv);
	stack.ss_sp = argc > 1 && !strcmp(argv[1], "below") ? below : above;
	if (sigaltstack(&stack, NULL) || sigaction(SIGUSR1, &action, NULL))
		return 2;
	holds = argc > 3;
	run(argc > 2 ? atoi(argv[2]) : 1000);
	if (!holds)
		tell(0);
	return 0;
}
