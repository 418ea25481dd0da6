// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A fiber is suspended inside its calls holder() and suspended() when its thread ends. Between the
 * two the thread calls after() on its own stack, which lies above that of the fiber: that says
 * nothing of the fiber.
 *
 *	fiberleft [--wait-go] [CALLS [hold]]		of after(), 10 by default
 *
 * hold: when all is told, it waits for a line.
 */
#include <sys/mman.h>
#include <ucontext.h>

#include "account.h"

void holder(void);
void suspended(void);
void after(void);

enum { STACK = 64 << 10, GUARD = 4096 };

static ucontext_t own, fiber;
static struct account holder_calls, suspended_calls, after_calls;

OUT_OF_LINE void suspended(void)
{
	enter(&suspended_calls);
	swapcontext(&fiber, &own);
	leave(&suspended_calls);
}

OUT_OF_LINE void holder(void)
{
	enter(&holder_calls);
	suspended();
	leave(&holder_calls);
}

OUT_OF_LINE void after(void)
{
	enter(&after_calls);
	leave(&after_calls);
}

int main(int argc, char **argv)
{
	char *stack = mmap(NULL, STACK + 2 * GUARD, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int calls;
	volatile int holds;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atoi(argv[1]) : 10;
	holds = argc > 2;
	if (stack == MAP_FAILED || mprotect(stack + GUARD, STACK, PROT_READ | PROT_WRITE))
		return 2;
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = stack + GUARD;
	fiber.uc_stack.ss_size = STACK;
	makecontext(&fiber, holder, 0);
	swapcontext(&own, &fiber);
	for (int i = 0; i < calls; i++)
		after();
	printf("truth");
	TELL_OPEN(holder, 1l);
	TELL_OPEN(suspended, 1l);
	TELL_OPEN(after, 0l);
	printf("\n");
	if (holds)
		hold();
	return (char *)&calls < stack; /* this stack is the upper one */
}
