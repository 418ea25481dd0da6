// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Many fibers (swapcontext) in one thread, all suspended inside their calls outer() and work()
 * before the
 *first of them is resumed, in the order in which they were suspended; all() is called for each round of this.
 *Their stacks are "apart", a mapping each, or in one "pool".
 *
 *	manyfibers [--wait-go] [FIBERS [apart|pool [ROUNDS]]]		300 fibers, apart, 2 rounds by default
 */
#include <sys/mman.h>
#include <ucontext.h>

#include "account.h"

void outer(int me);
void work(int me);
void all(int count);

enum { STACK = 64 << 10, GUARD = 4096, MOST = 10000 };

static ucontext_t own, fibers[MOST];
static struct account outer_calls, work_calls, all_calls;
static int rounds = 2;

OUT_OF_LINE void work(int me)
{
	enter(&work_calls);
	swapcontext(&fibers[me], &own);
	leave(&work_calls);
}

OUT_OF_LINE void outer(int me)
{
	enter(&outer_calls);
	work(me);
	leave(&outer_calls);
}

static void run_fiber(int me)
{
	for (;;) {
		outer(me);
		swapcontext(&fibers[me], &own);
	}
}

OUT_OF_LINE void all(int count)
{
	enter(&all_calls);
	for (int turn = 0; turn < 2; turn++)
		for (int i = 0; i < count; i++)
			swapcontext(&own, &fibers[i]);
	leave(&all_calls);
}

static int make_fibers(int count, int is_pool)
{
	size_t distance = STACK + (is_pool ? 0 : GUARD), length = (size_t)count * distance + GUARD;
	char *stacks = mmap(NULL, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (stacks == MAP_FAILED)
		return -1;
	for (int i = 0; i < count; i++) {
		char *stack = stacks + i * distance;

		if (!is_pool && mprotect(stack + STACK, GUARD, PROT_NONE))
			return -1;
		getcontext(&fibers[i]);
		fibers[i].uc_stack.ss_sp = stack;
		fibers[i].uc_stack.ss_size = STACK;
		makecontext(&fibers[i], (void (*)(void))run_fiber, 1, i);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int count;

	argc = wait_for_go(argc, argv);
	count = argc > 1 ? atoi(argv[1]) : 300;
	if (argc > 3)
		rounds = atoi(argv[3]);
	if (count < 1 || count > MOST ||
	    make_fibers(count, argc > 2 && strcmp(argv[2], "pool") == 0))
		return 2;
	for (int i = 0; i < rounds; i++)
		all(count);
	printf("truth");
	TELL_OPEN(outer, 0l);
	TELL_OPEN(work, 0l);
	TELL_OPEN(all, 0l);
	printf("\n");
	return 0;
}
