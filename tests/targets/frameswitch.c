// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stack switch by way of the frame pointer: nothing imported tells of it, and no instruction but the one
 *that ends every frame loads the stack pointer. Two coroutines are suspended inside their traced calls work()
 *by turns, and main, too, is inside one.
 *
 *	frameswitch [--wait-go] [ROUNDS]	1000 by default
 */
#include <stdint.h>

#include "account.h"

void outer(int rounds);
void work(int me);

/* Pushes what a call must keep, stores the stack pointer in *save, takes up the other stack, at *load. */
void switch_stack(void **save, void **load);

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

enum { COROUTINES = 2, STACK_WORDS = 8192 };

static struct account outer_calls, work_calls;
static uintptr_t stacks[COROUTINES][STACK_WORDS] __attribute__((aligned(16)));
static void *suspended[COROUTINES], *main_stack;
static volatile long turns[COROUTINES];

OUT_OF_LINE void work(int me)
{
	enter(&work_calls);
	switch_stack(&suspended[me], &main_stack);
	leave(&work_calls);
}

/* Two functions, so that a return into the other coroutine's code would be noticed. */
static void run_even(void)
{
	for (;;) {
		work(0);
		turns[0]++;
	}
}

static void run_odd(void)
{
	for (;;) {
		turns[1]++;
		work(1);
		turns[1]++;
	}
}

static void make_coroutine(int number, void (*function)(void))
{
	/* As if the function had called switch_stack() at its very beginning. */
	uintptr_t *saved = &stacks[number][STACK_WORDS - WORDS_ABOVE - SAVED_WORDS];

	saved[RETURN_WORD] = (uintptr_t)function;
	suspended[number] = saved;
}

OUT_OF_LINE void outer(int rounds)
{
	enter(&outer_calls);
	for (int i = 0; i < rounds; i++) {
		for (int number = 0; number < COROUTINES; number++)
			switch_stack(&main_stack, &suspended[number]);
	}
	leave(&outer_calls);
}

int main(int argc, char **argv)
{
	int rounds;

	argc = wait_for_go(argc, argv);
	rounds = argc > 1 ? atoi(argv[1]) : 1000;
	make_coroutine(0, run_even);
	make_coroutine(1, run_odd);
	outer(rounds);
	printf("truth");
	TELL(outer);
	TELL(work);
	printf(" turns=%ld,%ld\n", turns[0], turns[1]);
	return turns[0] != rounds - 1 || turns[1] != 2 * rounds - 1;
}
