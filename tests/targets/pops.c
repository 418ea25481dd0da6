// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A function that takes its arguments off the stack as it returns: `ret $16`, as Windows code and Pascal's have it. After
 * the return the stack pointer is not where the entry's would tell. Truth: pop_sum is called 3000 times and returns 3000
 * times; prints "3000 sums 13495500".
 */
#include <stdio.h>

long pop_sum(void);

__asm__("	.text\n"
	"	.globl	pop_sum\n"
	"	.type	pop_sum, @function\n"
	"pop_sum:\n"
	"	mov	8(%rsp), %rax\n"
	"	add	16(%rsp), %rax\n"
	"	ret	$16\n"
	"	.size	pop_sum, .-pop_sum\n");

/* Below the red zone, which the call must not overwrite. */
static long call_pop_sum(long a, long b)
{
	long sum;

	__asm__ volatile("sub	$128, %%rsp\n"
			 "	push	%1\n"
			 "	push	%2\n"
			 "	call	pop_sum\n"
			 "	add	$128, %%rsp\n"
			 : "=&a"(sum)
			 : "r"(a), "r"(b)
			 : "memory", "cc");
	return sum;
}

int main(void)
{
	long sum = 0;

	for (long i = 0; i < 3000; i++)
		sum += call_pop_sum(i, 2 * i);
	printf("3000 sums %ld\n", sum);
	return sum != 3 * (2999L * 3000 / 2);
}
