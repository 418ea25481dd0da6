// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Functions that are left in every way that compilers know, for tests/unit/code/exits.c, which
 * builds this file in many ways and asks objdump for the truth.
 */
#include <stddef.h>

#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noinline, noclone))
#endif

extern int other(int value);
extern void end(void) __attribute__((noreturn, cold));
extern void use(void *memory, size_t size);
extern int (*pointer)(int value);

KEPT int leaf(int a, int b)
{
	return a * 7 + b;
}

KEPT unsigned leaf_loop(const unsigned char *text, size_t length)
{
	unsigned sum = 1;

	for (size_t i = 0; i < length; i++)
		sum = (sum << 5 ^ sum >> 3) + text[i];
	return sum;
}

KEPT int many_returns(int a, const int *b)
{
	if (a == 1)
		return other(b[0]) * 3;
	if (a == 2)
		return b[1] - 4;
	if (b[2] > 9) {
		if (other(a) & 1)
			return b[3];
		return other(b[4]) + other(b[5]);
	}
	return -a;
}

KEPT int tail_direct(int a)
{
	return other(a + 1);
}

KEPT int tail_conditional(int a)
{
	if (a > 3)
		return other(a);
	return a;
}

KEPT int tail_indirect(int (*function)(int), int a)
{
	return function(a - 2);
}

KEPT int tail_through_memory(int a)
{
	return pointer(a);
}

KEPT int tail_after_frame(int a, int b)
{
	int sum = other(a) + other(b);

	sum += other(sum);
	return other(sum + a + b);
}

KEPT int table(int a, int b)
{
	int sum = other(b);

	switch (a) {
	case 0:
		return sum + other(1);
	case 1:
		return sum * other(21);
	case 2:
		sum -= other(3) * b;
		break;
	case 3:
		sum ^= other(43);
		break;
	case 4:
		sum <<= other(5) & 3;
		break;
	case 5:
		return b - other(61);
	case 6:
		sum += b * other(7);
		break;
	case 7:
		end();
	}
	return sum + other(b);
}

KEPT int table_leaf(int a, int b)
{
	switch (a) {
	case 0:
		return b * 3;
	case 1:
		return b ^ 77;
	case 2:
		return b / 5;
	case 3:
		return b << 2 | 1;
	case 4:
		return b % 11;
	case 5:
		return ~b * b;
	case 6:
		return b >> 3;
	}
	return b;
}

KEPT int ends(int a)
{
	if (a == 9)
		end();
	return other(a) + 1;
}

KEPT void never(int a)
{
	other(a);
	end();
}

/* Its unlikely half goes to .cold (gcc). */
KEPT int has_cold(int a, int b)
{
	int sum = other(a) + b;

	if (__builtin_expect(sum == 12345, 0)) {
		sum += other(sum);
		use(&sum, sizeof(sum));
		if (sum == 54321)
			end();
		use(&b, 4);
		end();
	}
	return other(sum) * 2;
}

/* Where it goes there before its frame is built. */
KEPT int has_cold_at_entry(int a, int b)
{
	if (__builtin_expect(a < 0, 0)) {
		other(b);
		end();
	}
	return a / (b | 1);
}

KEPT int recurse(int n)
{
	return n < 2 ? n : recurse(n - 1) + recurse(n - 2);
}

KEPT int tail_recurse(int n, int sum)
{
	if (n == 0)
		return sum;
	return tail_recurse(n - 1, other(sum));
}

/* Nothing stands before its loop. */
KEPT void loop_first(volatile int *p)
{
	do {
		*p = 5;
	} while (*p);
}

KEPT int variable(int n)
{
	int sum = 0;

	for (int i = 1; i < n; i++) {
		char array[i];

		use(array, sizeof(array));
		sum += array[0];
	}
	return sum;
}

KEPT int allocates(size_t n)
{
	char *memory = __builtin_alloca(n);

	use(memory, n);
	return memory[0];
}

KEPT int aligned(int n)
{
	_Alignas(64) char block[64];

	use(block, sizeof(block));
	return other(block[n & 63]);
}

KEPT int aligned_variable(int n)
{
	_Alignas(64) char block[64];
	char array[n];

	use(block, sizeof(block));
	use(array, sizeof(array));
	return block[1] + array[0];
}

KEPT double floating(double a, double b)
{
	return a > b ? a * b : b / a;
}
