// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * More threads, or more stacks, than any table could keep.
 *
 *	churn [--wait-go] threads N	N threads, four at a time, each calls visit() once and ends
 *	churn [--wait-go] stacks N	N stacks, one after the other and none twice: leaf() is called on each
 *					and jumps back to the thread's own, where visit() is called
 */
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "traced.h"

void visit(long i);
void leaf(long i);

enum { AT_ONCE = 4, STACK = 64 << 10, STACKS_MAPPED = 1024 };

static ucontext_t home, away;
static volatile long sink;
static long leaf_entries, visit_entries;

OUT_OF_LINE void visit(long i)
{
	sink += i; /* first: the kernel refuses a probe on a locked instruction */
	__atomic_fetch_add(&visit_entries, 1, __ATOMIC_RELAXED);
	NOT_LAST();
}

OUT_OF_LINE void leaf(long i)
{
	leaf_entries++;
	sink += i;
	setcontext(&home);
	NOT_LAST();
}

static void on_stack(int i)
{
	leaf(i);
}

/*
 * Stacks one below the other; those of the region before are given back, so that memory does not
 * grow.
 */
static int use_stacks(long count)
{
	static char *region, *before;

	for (volatile long i = 0; i < count; i++) {
		if (i % STACKS_MAPPED == 0) {
			if (before)
				munmap(before, (size_t)STACK * STACKS_MAPPED);
			before = region;
			region = mmap(NULL, (size_t)STACK * STACKS_MAPPED, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
			if (region == MAP_FAILED)
				return 1;
		}
		getcontext(&away);
		away.uc_stack.ss_sp = region + (size_t)(i % STACKS_MAPPED) * STACK;
		/* no stack pointer twice */
		away.uc_stack.ss_size = STACK - (size_t)(i / STACKS_MAPPED) * 16;
		away.uc_link = NULL;
		makecontext(&away, (void (*)(void))on_stack, 1, (int)i);
		swapcontext(&home, &away);
		visit(i);
	}
	return 0;
}

static void *visitor(void *context)
{
	visit((long)(size_t)context);
	return NULL;
}

static int use_threads(long count)
{
	pthread_t threads[AT_ONCE];

	for (long i = 0; i < count; i++) {
		if (i >= AT_ONCE)
			pthread_join(threads[i % AT_ONCE], NULL);
		if (pthread_create(&threads[i % AT_ONCE], NULL, visitor, (void *)(size_t)i))
			return 1;
	}
	for (long i = count > AT_ONCE ? count - AT_ONCE : 0; i < count; i++)
		pthread_join(threads[i % AT_ONCE], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	long count;
	int failed;

	argc = wait_for_go(argc, argv);
	if (argc != 3)
		return 2;
	count = atol(argv[2]);
	failed = strcmp(argv[1], "threads") == 0 ? use_threads(count) : use_stacks(count);
	printf("truth visit=%ld/%ld leaf=%ld/0\n", visit_entries, visit_entries, leaf_entries);
	return failed;
}
