/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two coroutines, suspended inside their traced calls work() by turns while main, too, is inside
 * one; what switches the stacks is the including program's: switch_stack() pushes what a call must
 * keep, SAVED_WORDS words with the return address at RETURN_WORD, stores the stack pointer in
 * *save, and takes up the other stack, at *load. WORDS_ABOVE are left above a new stack's words,
 * for its alignment.
 */
#ifndef SCOPETRACE_TARGETS_COROUTINES_H
#define SCOPETRACE_TARGETS_COROUTINES_H

#include <stdint.h>

#include "account.h"

void outer(int rounds);
void work(int me);

void switch_stack(void **save, void **load);

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

#endif
