// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A leaf function that keeps its data below the stack pointer, where it may by the ABI, with a
 * 5-byte nop in its middle (leaf_mid, a symbol of its own). A tracer that has the kernel turn that
 * nop into a call overwrites the data.
 *
 *	redzone [--wait-go] [CALLS]	100000 by default
 */
#include "traced.h"

long leaf(long value);

__asm__("	.text\n"
	"	.globl	leaf\n"
	"	.type	leaf, @function\n"
	"leaf:\n"
	"	movq	%rdi, -8(%rsp)\n"
	"	movq	%rdi, -16(%rsp)\n"
	"	.globl	leaf_mid\n"
	"	.type	leaf_mid, @function\n"
	"leaf_mid:\n"
	"	.byte	0x0f, 0x1f, 0x44, 0x00, 0x00\n"
	"	movq	-8(%rsp), %rax\n"
	"	subq	-16(%rsp), %rax\n"
	"	ret\n"
	"	.size	leaf_mid, . - leaf_mid\n"
	"	.size	leaf, . - leaf\n");

int main(int argc, char **argv)
{
	long calls, bad = 0;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atol(argv[1]) : 100000;
	for (long i = 1; i <= calls; i++)
		bad += leaf(i) != 0;
	printf("truth leaf=%ld/%ld leaf_mid=%ld/%ld bad=%ld\n", calls, calls, calls, calls, bad);
	return bad != 0;
}
