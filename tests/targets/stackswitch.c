// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stack switch that nothing imported tells of: switch_stack() is a few instructions written by
 * hand.
 *
 *	stackswitch [--wait-go] [ROUNDS]	1000 by default
 */
__asm__("	.text\n"
	"	.globl	switch_stack\n"
	"	.type	switch_stack, @function\n"
	"switch_stack:\n"
	"	pushq	%rbp\n"
	"	pushq	%rbx\n"
	"	pushq	%r12\n"
	"	pushq	%r13\n"
	"	pushq	%r14\n"
	"	pushq	%r15\n"
	"	movq	%rsp, (%rdi)\n"
	"	movq	(%rsi), %rsi\n"
	"	movq	%rsi, %rsp\n"
	"	popq	%r15\n"
	"	popq	%r14\n"
	"	popq	%r13\n"
	"	popq	%r12\n"
	"	popq	%rbx\n"
	"	popq	%rbp\n"
	"	ret\n"
	"	.size	switch_stack, . - switch_stack\n");

enum { SAVED_WORDS = 7, RETURN_WORD = 6, WORDS_ABOVE = 3 };

#include "coroutines.h"
