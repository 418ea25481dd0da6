// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * outer() runs into inner(), whose entry lies in its code. inner() is also called by itself, just
 * after a
 *call with the same stack pointer was left by longjmp: once of stranger(), which has nothing to do with it,
 *and once of outer(). Neither has run into it then.
 *
 *	runinto [--wait-go] [ROUNDS]		100 by default
 */
#include <setjmp.h>

#include "traced.h"

void outer(int leave);
void inner(int unused);
void stranger(int unused);
void escape(void);

static jmp_buf out;
volatile int inner_entries;

OUT_OF_LINE void escape(void)
{
	longjmp(out, 1);
}

OUT_OF_LINE void stranger(int unused)
{
	(void)unused;
	longjmp(out, 1);
}

#if defined(__x86_64__)
__asm__(".text\n.globl outer\n.type outer, @function\nouter:\n"
	"	test %edi, %edi\n"
	"	jz 1f\n"
	"	sub $8, %rsp\n"
	"	call escape\n"
	"	add $8, %rsp\n"
	"1:	nop\n"
	".globl inner\n.type inner, @function\ninner:\n"
	"	addl $1, inner_entries(%rip)\n"
	"	ret\n"
	".size inner, . - inner\n.size outer, . - outer\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl outer\n.type outer, %function\nouter:\n"
	"	cbz w0, 1f\n"
	"	stp x29, x30, [sp, #-16]!\n"
	"	bl escape\n"
	"	ldp x29, x30, [sp], #16\n"
	"1:	nop\n"
	".globl inner\n.type inner, %function\ninner:\n"
	"	adrp x1, inner_entries\n"
	"	add x1, x1, :lo12:inner_entries\n"
	"	ldr w2, [x1]\n"
	"	add w2, w2, #1\n"
	"	str w2, [x1]\n"
	"	ret\n"
	".size inner, . - inner\n.size outer, . - outer\n");
#endif

int main(int argc, char **argv)
{
	static volatile int i, rounds;

	argc = wait_for_go(argc, argv);
	rounds = argc > 1 ? atoi(argv[1]) : 100;
	for (i = 0; i < rounds; i++) {
		outer(0);
		if (!setjmp(out))
			stranger(0);
		inner(0);
		if (!setjmp(out))
			outer(1);
		inner(0);
	}
	printf("truth outer=%d/%d inner=%d/%d stranger=%d/0\n", 2 * rounds, rounds, inner_entries,
	       inner_entries, rounds);
	return inner_entries != 3 * rounds;
}
