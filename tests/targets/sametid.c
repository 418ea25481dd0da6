// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two threads, one after the other, of one tid and on one stack. The first calls step() a hundred
 * times and then leave(), in which it ends; the second calls only leave(), and ends in it too.
 * Between them `first` is printed and, with "wait", a line is read. Needs root, as any choice of a
 * tid does.
 *
 *	sametid [--wait-go] [wait]
 */
#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "traced.h"

void step(long i);
void leave(void);
void in_thread(void);

enum { CALLS = 100, STACK = 64 << 10 };

static _Alignas(16) char stack[STACK];
static volatile long sink;
static volatile int steps, step_entries, leave_entries;

OUT_OF_LINE void step(long i)
{
	sink += i;
	step_entries++;
	NOT_LAST();
}

OUT_OF_LINE void leave(void)
{
	leave_entries++;
	syscall(SYS_exit, 0); /* the C library knows nothing of this thread */
	NOT_LAST();
}

/* Both functions are called at one stack pointer. */
__attribute__((used)) OUT_OF_LINE void in_thread(void)
{
	for (int i = 0; i < steps; i++)
		step(i);
	leave();
}

/* The new thread goes to in_thread and never comes back. Its tid, or -errno. */
static long clone_thread(struct clone_args *args)
{
#if defined(__x86_64__)
	long tid;

	__asm__ volatile("syscall\n\t"
			 "test %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "call in_thread\n"
			 "1:"
			 : "=a"(tid)
			 : "0"((long)SYS_clone3), "D"(args), "S"(sizeof(*args))
			 : "rcx", "r11", "memory", "cc");
	return tid;
#elif defined(__aarch64__)
	register long tid __asm__("x0") = (long)args;
	register long size __asm__("x1") = sizeof(*args);
	register long number __asm__("x8") = SYS_clone3;

	__asm__ volatile("svc 0\n\t"
			 "cbnz x0, 1f\n\t"
			 "bl in_thread\n"
			 "1:"
			 : "+r"(tid)
			 : "r"(size), "r"(number)
			 : "x30", "memory", "cc");
	return tid;
#endif
}

/* Runs a thread to its end. Its tid, which is `tid` unless that is 0. */
static pid_t run_thread(pid_t tid)
{
	struct clone_args args = {
		.flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_SYSVSEM |
			 CLONE_THREAD,
		.stack = (uintptr_t)stack,
		.stack_size = sizeof(stack),
		.set_tid = tid ? (uintptr_t)&tid : 0,
		.set_tid_size = tid ? 1 : 0,
	};
	long made;

	/* a tid is free a little later than its thread */
	while ((made = clone_thread(&args)) == -EEXIST)
		sched_yield();
	if (made < 0) {
		fprintf(stderr, "clone3: %s\n", strerror((int)-made));
		exit(1);
	}
	while (syscall(SYS_tgkill, getpid(), made, 0) == 0)
		sched_yield();
	return (pid_t)made;
}

int main(int argc, char **argv)
{
	char line[16];
	pid_t tid;

	argc = wait_for_go(argc, argv);
	steps = CALLS;
	tid = run_thread(0);
	printf("first\n");
	fflush(stdout);
	if (argc > 1 && !fgets(line, sizeof(line), stdin))
		return 2;
	steps = 0;
	run_thread(tid);
	printf("truth leave=%d/0 step=%d/%d\n", leave_entries, step_entries, step_entries);
	return 0;
}
