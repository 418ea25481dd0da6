// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A function whose first instruction is the target of its own loop: spin() is called ten times, and
 * its entry
 *is executed once more at each turn. Elsewhere than on x86-64 its loop is an ordinary one.
 *
 *	turns [--wait-go] [TURNS]		entry executed 50 times a call by default
 */
#include "traced.h"

long spin(long turns);

enum { CALLS = 10 };

extern volatile long spin_count;
volatile long spin_count;

#if defined(__x86_64__)
__asm__(".text\n"
	".globl spin\n"
	".type spin, @function\n"
	"spin:\n"
	"	addq $1, spin_count(%rip)\n"
	"	subq $1, %rdi\n"
	"	jnz spin\n"
	"	movq %rdi, %rax\n"
	"	ret\n"
	".size spin, . - spin\n");
#else
OUT_OF_LINE long spin(long turns)
{
	while (turns-- > 0)
		spin_count++;
	return 0;
}
#endif

int main(int argc, char **argv)
{
	long turns;

	argc = wait_for_go(argc, argv);
	turns = argc > 1 ? atol(argv[1]) : 50;
	for (int i = 0; i < CALLS; i++)
		spin(turns);
	printf("truth spin=%d/%d\n", CALLS, CALLS);
	return spin_count != CALLS * turns;
}
