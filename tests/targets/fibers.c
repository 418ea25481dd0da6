// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two fibers (swapcontext) in one thread, each suspended inside its traced calls outer() and work()
 * while the other enters and leaves its own. "lifo": the second to enter is the first to return;
 * "fifo": the first is. With "swapped" the first fiber's stack is the upper one.
 *
 *	fibers [--wait-go] [ROUNDS] [lifo|fifo] [swapped]	1000 rounds, lifo by default
 */
#include <sys/mman.h>
#include <ucontext.h>

#include "account.h"

int outer(int me, int to);
int work(int me, int to);

enum { FIRST, SECOND, MAIN, CONTEXTS };
#define STACK_SIZE (256ul << 10)

static ucontext_t contexts[CONTEXTS];
static struct account outer_calls, work_calls;
static int rounds = 1000, fifo;
static volatile int done;

static void switch_to(int me, int to)
{
	swapcontext(&contexts[me], &contexts[to]);
}

OUT_OF_LINE int work(int me, int to)
{
	enter(&work_calls);
	switch_to(me, to);
	done++;
	leave(&work_calls);
	return me;
}

OUT_OF_LINE int outer(int me, int to)
{
	int result;

	enter(&outer_calls);
	result = work(me, to);
	leave(&outer_calls);
	return result;
}

static void run_first(void)
{
	for (int i = 0; i < rounds; i++) {
		outer(FIRST, SECOND);
		switch_to(FIRST, fifo ? SECOND : MAIN);
	}
}

static void run_second(void)
{
	for (int i = 0; i < rounds; i++) {
		outer(SECOND, fifo ? FIRST : MAIN);
		switch_to(SECOND, FIRST);
	}
}

static int make_fibers(int swapped)
{
	char *stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stacks == MAP_FAILED)
		return -1;
	for (int i = FIRST; i <= SECOND; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks + (swapped ? SECOND - i : i) * STACK_SIZE;
		contexts[i].uc_stack.ss_size = STACK_SIZE;
		contexts[i].uc_link = &contexts[MAIN];
	}
	makecontext(&contexts[FIRST], run_first, 0);
	makecontext(&contexts[SECOND], run_second, 0);
	return 0;
}

int main(int argc, char **argv)
{
	argc = wait_for_go(argc, argv);
	if (argc > 1)
		rounds = atoi(argv[1]);
	fifo = argc > 2 && !strcmp(argv[2], "fifo");
	if (make_fibers(argc > 3 && !strcmp(argv[3], "swapped")))
		return 2;
	if (fifo) {
		switch_to(MAIN, FIRST);
	} else {
		for (int i = 0; i < rounds; i++) {
			switch_to(MAIN, FIRST);	 /* both enter */
			switch_to(MAIN, SECOND); /* both return */
		}
	}
	printf("truth");
	TELL(outer);
	TELL(work);
	printf(" done=%d\n", done);
	return done != 2 * rounds;
}
