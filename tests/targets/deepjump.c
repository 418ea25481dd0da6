// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Leaves 70 calls by longjmp, each from deeper in the stack than the one before, so that no later call of theirs lies where
 * one of them lay. Truth: left is entered 70 times and never returns, after is called 100 times and returns.
 */
#include <setjmp.h>
#include <stdio.h>

#define HOOKED __attribute__((noinline, noclone))

static jmp_buf out;
static volatile int calls;

HOOKED void left(void)
{
	if (++calls)
		longjmp(out, 1);
}

HOOKED int after(int n)
{
	asm volatile("");
	return n + 1;
}

/* Stack without hooks: one frame more for each round. */
HOOKED static void descend(int depth)
{
	volatile char room[64];

	room[0] = (char)depth;
	if (depth)
		descend(depth - 1);
	else
		left();
	calls += room[0] != (char)depth;
}

int main(void)
{
	volatile int sum = 0;

	for (volatile int i = 0; i < 70; i++) {
		if (!setjmp(out))
			descend(i);
	}
	for (int i = 0; i < 100; i++)
		sum += after(i) - i;
	printf("left %d after %d\n", calls, sum);
	return calls != 70 || sum != 100;
}
