// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A file of which there are two versions: in the second other instructions lie where the first has the entry of
 * version_of, so that a probe of the one would change the other. A library; with -DPROGRAM a program. Truth of the
 * program: version_of is called 1000 times, prints "version N right 1000", exit 0.
 */
#include <stdio.h>

long version_of(long n);

/* Constants of eight bytes, all used: hardly an offset in them is that of an instruction. */
static inline long padding(void)
{
#if VERSION == 2 && defined(__x86_64__)
	long sum = 0;

	asm volatile(".rept 400; movabs $0x1122334455667788, %%rcx; add %%rcx, %0; .endr"
		     : "+r"(sum)::"rcx");
	return (long)((unsigned long)sum - 400ul * 0x1122334455667788ul);
#else
	return 0;
#endif
}

__attribute__((noinline, noclone)) long version_of(long n)
{
	asm volatile("");
	return n + VERSION + padding();
}

#ifdef PROGRAM
int main(void)
{
	int right = 0;

	for (long i = 0; i < 1000; i++)
		right += version_of(i) == i + VERSION;
	printf("version %d right %d\n", VERSION, right);
	return right != 1000;
}
#endif
