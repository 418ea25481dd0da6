// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fibers that are stolen: each yields inside its traced calls outer() and work(), and is always
 * taken up again by another thread than the one that it yielded on, so that every such call begins
 * on one thread and ends on another.
 *
 *	steal [--wait-go] [FIBERS] [ROUNDS]	2 threads; 16 fibers, 100 rounds by default
 */
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "account.h"

void outer(void);
void step(void);
void work(void);

enum { THREADS = 2, MAX_FIBERS = 256 };
#define STACK_SIZE (64ul << 10)

struct fiber {
	ucontext_t context;
	int last; /* the thread that it ran on; the other one takes it up */
	int is_ready;
	int is_done;
};

struct worker {
	pthread_t thread;
	int number;
	ucontext_t context;
	struct fiber *running;
};

static struct account outer_calls, work_calls, step_calls;
static struct worker workers[THREADS];
static struct fiber fibers[MAX_FIBERS];
static int fiber_count = 16, rounds = 100, left, moves;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Out of line, and without thread-local variables: their address may be kept across a switch. */
static OUT_OF_LINE struct worker *current_worker(void)
{
	pthread_t self = pthread_self();

	__asm__ volatile("" : "+r"(self));
	for (int i = 0; i < THREADS; i++)
		if (pthread_equal(workers[i].thread, self))
			return &workers[i];
	abort();
}

/* Comes back on another thread. */
static OUT_OF_LINE void yield(void)
{
	struct worker *before = current_worker(), *after;

	swapcontext(&before->running->context, &before->context);
	after = current_worker();
	if (after != before)
		__atomic_fetch_add(&moves, 1, __ATOMIC_RELAXED);
}

OUT_OF_LINE void step(void)
{
	enter(&step_calls);
	leave(&step_calls);
}

OUT_OF_LINE void work(void)
{
	enter(&work_calls);
	step();
	yield();
	step();
	leave(&work_calls);
}

OUT_OF_LINE void outer(void)
{
	enter(&outer_calls);
	work();
	yield();
	leave(&outer_calls);
}

static void run_fiber(void)
{
	struct worker *worker;

	for (int i = 0; i < rounds; i++)
		outer();
	worker = current_worker();
	worker->running->is_done = 1;
	swapcontext(&worker->running->context, &worker->context);
}

/* A fiber that last ran elsewhere, or NULL when all are done. The lock is held. */
static struct fiber *take(const struct worker *worker)
{
	for (;;) {
		if (!left)
			return NULL;
		for (int i = 0; i < fiber_count; i++) {
			struct fiber *fiber = &fibers[i];

			if (fiber->is_ready && fiber->last != worker->number) {
				fiber->is_ready = 0;
				return fiber;
			}
		}
		pthread_cond_wait(&changed, &lock);
	}
}

static void *run_worker(void *context)
{
	struct worker *worker = context;
	struct fiber *fiber;

	pthread_mutex_lock(&lock); /* main holds it until all workers are known */
	while ((fiber = take(worker))) {
		pthread_mutex_unlock(&lock);
		worker->running = fiber;
		swapcontext(&worker->context, &fiber->context);
		pthread_mutex_lock(&lock);
		/* Only now is its context whole, and it may be taken. */
		fiber->last = worker->number;
		fiber->is_ready = !fiber->is_done;
		left -= fiber->is_done;
		pthread_cond_broadcast(&changed);
	}
	pthread_mutex_unlock(&lock);
	return NULL;
}

static int make_fibers(void)
{
	size_t size = (size_t)fiber_count * STACK_SIZE;
	char *stacks = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stacks == MAP_FAILED)
		return -1;
	for (int i = 0; i < fiber_count; i++) {
		getcontext(&fibers[i].context);
		fibers[i].context.uc_stack.ss_sp = stacks + (size_t)i * STACK_SIZE;
		fibers[i].context.uc_stack.ss_size = STACK_SIZE;
		fibers[i].last = i % THREADS;
		fibers[i].is_ready = 1;
		makecontext(&fibers[i].context, run_fiber, 0);
	}
	left = fiber_count;
	return 0;
}

int main(int argc, char **argv)
{
	argc = wait_for_go(argc, argv);
	if (argc > 1)
		fiber_count = atoi(argv[1]);
	if (argc > 2)
		rounds = atoi(argv[2]);
	if (fiber_count < 1 || fiber_count > MAX_FIBERS || make_fibers())
		return 2;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < THREADS; i++) {
		workers[i].number = i;
		if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]))
			return 2;
	}
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	printf("truth");
	TELL(outer);
	TELL(work);
	TELL(step);
	printf(" moves=%d\n", moves);
	return moves != 2 * fiber_count * rounds;
}
