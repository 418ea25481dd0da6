// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions whose first instructions are the target of their own loop. spin(50) and
 * guarded_spin(50) are each called 10 times: 10 calls and returns, though the loop's head executes
 * 500 times. In guarded_spin the loop leaves out the endbr64 at its entry, which only calls reach.
 */
#include <stdio.h>

#include "traced.h"

long spin(long turns);
long guarded_spin(long turns);
volatile long loop_turns;

__asm__("	.text\n"
	"	.globl	spin\n"
	"	.type	spin, @function\n"
	"spin:\n"
	"	addq	$1, loop_turns(%rip)\n"
	"	subq	$1, %rdi\n"
	"	jnz	spin\n"
	"	mov	%rdi, %rax\n"
	"	ret\n"
	"	.size	spin, .-spin\n"
	"	.globl	guarded_spin\n"
	"	.type	guarded_spin, @function\n"
	"guarded_spin:\n"
	"	endbr64\n"
	"1:	addq	$1, loop_turns(%rip)\n"
	"	subq	$1, %rdi\n"
	"	jnz	1b\n"
	"	mov	%rdi, %rax\n"
	"	ret\n"
	"	.size	guarded_spin, .-guarded_spin\n");

int main(int argc, char **argv)
{
	wait_for_go(argc, argv);
	for (int i = 0; i < 10; i++) {
		spin(50);
		guarded_spin(50);
	}
	printf("truth "
	       "{\"spin\":{\"entries\":10,\"returns\":10},\"guarded_spin\":{\"entries\":10,\"returns\":10},"
	       "\"turns\":%ld}\n",
	       loop_turns);
	return loop_turns != 1000;
}
