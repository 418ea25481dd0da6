// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A stack switch that nothing imported tells of: switch_stack() is a few instructions written by hand. Two
 * coroutines are suspended inside their traced calls work() by turns, and main, too, is inside one.
 *
 *	stackswitch [--wait-go] [ROUNDS]	1000 by default
 */
#include <stdint.h>

#include "account.h"

void outer(int rounds);
void work(int me);

/* Pushes what a call must keep, stores the stack pointer in *save, takes up the other stack. */
void switch_stack(void **save, void *load);

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
	"	movq	%rsi, %rsp\n"
	"	popq	%r15\n"
	"	popq	%r14\n"
	"	popq	%r13\n"
	"	popq	%r12\n"
	"	popq	%rbx\n"
	"	popq	%rbp\n"
	"	ret\n"
	"	.size	switch_stack, . - switch_stack\n");

enum { COROUTINES = 2, SAVED_REGISTERS = 6, STACK_WORDS = 8192 };

static struct account outer_calls, work_calls;
static uintptr_t stacks[COROUTINES][STACK_WORDS] __attribute__((aligned(16)));
static void *suspended[COROUTINES], *main_stack;
static volatile long turns[COROUTINES];

OUT_OF_LINE void work(int me)
{
	enter(&work_calls);
	switch_stack(&suspended[me], main_stack);
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
	/* As if the function had been called and nothing pushed: the word above is its return address. */
	uintptr_t *top = &stacks[number][STACK_WORDS - 2];

	*--top = (uintptr_t)function;
	suspended[number] = top - SAVED_REGISTERS;
}

OUT_OF_LINE void outer(int rounds)
{
	enter(&outer_calls);
	for (int i = 0; i < rounds; i++) {
		for (int number = 0; number < COROUTINES; number++)
			switch_stack(&main_stack, suspended[number]);
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
