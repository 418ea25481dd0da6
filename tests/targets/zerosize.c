// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hand-written functions whose symbols say little: sizeless is a function of size 0, untyped has
 * neither type nor size. Each is called 1000 times and returns 1000 times. label_inside is no
 * function but a place inside one.
 */
#include <stdio.h>

#include "traced.h"

long sizeless(long n);
long untyped(long n);
long with_label(long n);

__asm__("	.text\n"
	"	.globl	sizeless\n"
	"	.type	sizeless, @function\n"
	"sizeless:\n"
	"	lea	1(%rdi), %rax\n"
	"	ret\n"
	"	.globl	untyped\n"
	"untyped:\n"
	"	lea	2(%rdi), %rax\n"
	"	ret\n"
	"	.globl	with_label\n"
	"	.type	with_label, @function\n"
	"with_label:\n"
	"	mov	%rdi, %rax\n"
	"	.globl	label_inside\n"
	"label_inside:\n"
	"	add	$3, %rax\n"
	"	ret\n"
	"	.size	with_label, .-with_label\n");

int main(int argc, char **argv)
{
	long sum = 0;

	wait_for_go(argc, argv);
	for (int i = 0; i < 1000; i++)
		sum += sizeless(i) + untyped(i) + with_label(i);
	printf("truth "
	       "{\"sizeless\":{\"entries\":1000,\"returns\":1000},\"untyped\":{\"entries\":1000,\"returns\":"
	       "1000},"
	       "\"with_label\":{\"entries\":1000,\"returns\":1000}}\n");
	return sum != 3 * 499500 + 6000;
}
