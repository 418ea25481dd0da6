// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions whose first instruction is the target of their own loop, by a conditional jump
 * (looping) and by a plain one (bouncing): every other call of them is left by longjmp, and the
 * next one is made from the same place with the same stack pointer. All the same it is a call, and
 * no turn of the loop.
 *
 *	turnleft [--wait-go] [CALLS]		200 of either by default
 */
#include <setjmp.h>

#include "traced.h"

void looping(long turns, int leave);
void bouncing(long turns, int leave);
void escape(void);

static jmp_buf out;

OUT_OF_LINE void escape(void)
{
	longjmp(out, 1);
}

#if defined(__x86_64__)
#define END_OR_LEAVE         \
	"	test %esi, %esi\n" \
	"	jz 1f\n"           \
	"	sub $8, %rsp\n"    \
	"	call escape\n"     \
	"	add $8, %rsp\n"    \
	"1:	ret\n"
__asm__(".text\n.globl looping\n.type looping, @function\nlooping:\n"
	"	sub $1, %rdi\n	jnz looping\n" END_OR_LEAVE ".size looping, . - looping\n"
	".globl bouncing\n.type bouncing, @function\nbouncing:\n"
	"	sub $1, %rdi\n	jz 2f\n	jmp bouncing\n2:\n" END_OR_LEAVE
	".size bouncing, . - bouncing\n");
#elif defined(__aarch64__)
#define END_OR_LEAVE                   \
	"	cbz w1, 1f\n"                \
	"	stp x29, x30, [sp, #-16]!\n" \
	"	bl escape\n"                 \
	"	ldp x29, x30, [sp], #16\n"   \
	"1:	ret\n"
__asm__(".text\n.globl looping\n.type looping, %function\nlooping:\n"
	"	subs x0, x0, #1\n	b.ne looping\n" END_OR_LEAVE ".size looping, . - looping\n"
	".globl bouncing\n.type bouncing, %function\nbouncing:\n"
	"	subs x0, x0, #1\n	b.eq 2f\n	b bouncing\n2:\n" END_OR_LEAVE
	".size bouncing, . - bouncing\n");
#endif

/* How many of the calls return. */
static int call_all(void (*function)(long, int), int calls)
{
	static volatile int i, returns;

	returns = 0;
	for (i = 0; i < calls; i++) {
		if (setjmp(out))
			continue;
		function(3 + i % 3, i & 1);
		returns++;
	}
	return returns;
}

int main(int argc, char **argv)
{
	int calls, looping_returns, bouncing_returns;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atoi(argv[1]) : 200;
	looping_returns = call_all(looping, calls);
	bouncing_returns = call_all(bouncing, calls);
	printf("truth looping=%d/%d bouncing=%d/%d\n", calls, looping_returns, calls,
	       bouncing_returns);
	return 0;
}
