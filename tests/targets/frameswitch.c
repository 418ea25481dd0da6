// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stack switch by way of the frame pointer: nothing imported tells of it, and no instruction but
 * the one that ends every frame loads the stack pointer.
 *
 *	frameswitch [--wait-go] [ROUNDS]	1000 by default
 */
#ifdef __x86_64__
__asm__("	.text\n"
	"	.globl	switch_stack\n"
	"	.type	switch_stack, @function\n"
	"switch_stack:\n"
	"	pushq	%rbx\n"
	"	pushq	%r12\n"
	"	pushq	%r13\n"
	"	pushq	%r14\n"
	"	pushq	%r15\n"
	"	pushq	%rbp\n"
	"	movq	%rsp, (%rdi)\n"
	"	movq	(%rsi), %rbp\n"
	"	leave\n"
	"	popq	%r15\n"
	"	popq	%r14\n"
	"	popq	%r13\n"
	"	popq	%r12\n"
	"	popq	%rbx\n"
	"	ret\n"
	"	.size	switch_stack, . - switch_stack\n");

enum { SAVED_WORDS = 7, RETURN_WORD = 6, WORDS_ABOVE = 3 };
#elif defined(__aarch64__)
__asm__("	.text\n"
	"	.globl	switch_stack\n"
	"	.type	switch_stack, %function\n"
	"switch_stack:\n"
	"	stp	x29, x30, [sp, #-96]!\n"
	"	stp	x19, x20, [sp, #16]\n"
	"	stp	x21, x22, [sp, #32]\n"
	"	stp	x23, x24, [sp, #48]\n"
	"	stp	x25, x26, [sp, #64]\n"
	"	stp	x27, x28, [sp, #80]\n"
	"	mov	x29, sp\n"
	"	str	x29, [x0]\n"
	"	ldr	x29, [x1]\n"
	"	mov	sp, x29\n"
	"	ldp	x19, x20, [sp, #16]\n"
	"	ldp	x21, x22, [sp, #32]\n"
	"	ldp	x23, x24, [sp, #48]\n"
	"	ldp	x25, x26, [sp, #64]\n"
	"	ldp	x27, x28, [sp, #80]\n"
	"	ldp	x29, x30, [sp], #96\n"
	"	ret\n"
	"	.size	switch_stack, . - switch_stack\n");

enum { SAVED_WORDS = 12, RETURN_WORD = 1, WORDS_ABOVE = 4 };
#else
#error "a stack switch for this machine is to be written"
#endif

#include "coroutines.h"
