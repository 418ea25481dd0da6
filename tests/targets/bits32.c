// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program of 32 bits without a C library, which no multilib is needed to build. Truth: twice(n) is called 1000 times;
 * prints "499500 of 499500" and exits 0; with an argument it waits for a byte on its standard input before.
 */
static long system_call(long number, long a, long b, long c)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
	return result;
}

__attribute__((noinline, noclone)) int twice(int n)
{
	asm volatile("");
	return 2 * n;
}

__attribute__((used)) static void begin(const long *stack)
{
	static const char right[] = "499500 of 499500\n", wrong[] = "another sum\n";
	int sum = 0;
	char byte;

	if (stack[0] > 1)
		system_call(3, 0, (long)&byte, 1);
	for (int i = 0; i < 1000; i++)
		sum += twice(i) / 2;
	if (sum == 499500)
		system_call(4, 1, (long)right, sizeof(right) - 1);
	else
		system_call(4, 1, (long)wrong, sizeof(wrong) - 1);
	system_call(1, sum != 499500, 0, 0);
}

asm(".globl _start\n_start:\n	mov %esp, %eax\n	push %eax\n	call begin\n");
