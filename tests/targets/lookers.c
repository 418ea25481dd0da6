// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions that look at their own return address, each in another way; a tracer that replaces it makes them wrong.
 * Truth: each look_* is called 100 times; prints "own 100 next 100 popped 100 jumped 100 profiled 100", exit 0.
 *	look_own       hands out its return address (lock debuggers, malloc tracers)
 *	look_next      ends in a tail call of dlsym(RTLD_NEXT), which asks from where it is called
 *	look_pop       pops its return address and jumps there
 *	look_set       keeps stack pointer and return address, as a setjmp written by hand; look_back goes there
 *	look_profiled  calls mcount's like through the address of its frame's return address
 */
#include <dlfcn.h>
#include <stdio.h>

#define HOOKED __attribute__((noinline, noclone))

extern char __executable_start[], etext[];
void *look_next(const char *name);
long look_pop(long value);
long look_set(void **buffer);
void look_back(void **buffer);

HOOKED void *look_own(void)
{
	asm volatile(""); /* or the compiler calls it once */
	return __builtin_return_address(0);
}

asm(".text\n"
    ".globl look_next\n.type look_next,@function\nlook_next:\n"
    "	mov %rdi, %rsi\n	mov $-1, %rdi\n	jmp dlsym@PLT\n"
    ".size look_next, .-look_next\n"
    ".globl look_pop\n.type look_pop,@function\nlook_pop:\n"
    "	lea 1(%rdi), %rax\n	pop %rdx\n	jmp *%rdx\n"
    ".size look_pop, .-look_pop\n"
    ".globl look_set\n.type look_set,@function\nlook_set:\n"
    "	mov (%rsp), %rax\n	mov %rax, (%rdi)\n	mov %rsp, 8(%rdi)\n	mov %rbx, 16(%rdi)\n"
    "	mov %rbp, 24(%rdi)\n	mov %r12, 32(%rdi)\n	mov %r13, 40(%rdi)\n	mov %r14, 48(%rdi)\n"
    "	mov %r15, 56(%rdi)\n	xor %eax, %eax\n	ret\n"
    ".size look_set, .-look_set\n"
    ".globl look_back\n.type look_back,@function\nlook_back:\n"
    "	mov 16(%rdi), %rbx\n	mov 24(%rdi), %rbp\n	mov 32(%rdi), %r12\n	mov 40(%rdi), %r13\n"
    "	mov 48(%rdi), %r14\n	mov 56(%rdi), %r15\n	mov 8(%rdi), %rsp\n	add $8, %rsp\n"
    "	mov $1, %eax\n	jmp *(%rdi)\n"
    ".size look_back, .-look_back\n");

static int is_ours(const void *address)
{
	return (const char *)address >= __executable_start && (const char *)address < etext;
}

HOOKED int look_profiled(void)
{
	void **frame = __builtin_frame_address(0);

	asm volatile("");
	return is_ours(frame[1]);
}

HOOKED static int go_there_and_back(void)
{
	void *buffer[8];

	if (look_set(buffer))
		return 1;
	look_back(buffer);
	return 0;
}

int main(void)
{
	int own = 0, next = 0, popped = 0, jumped = 0, profiled = 0;

	for (int i = 0; i < 100; i++) {
		own += is_ours(look_own());
		next += look_next("puts") != NULL;
		popped += look_pop(i) == i + 1;
		jumped += go_there_and_back();
		profiled += look_profiled();
	}
	printf("own %d next %d popped %d jumped %d profiled %d\n", own, next, popped, jumped,
	       profiled);
	return own + next + popped + jumped + profiled != 500;
}
