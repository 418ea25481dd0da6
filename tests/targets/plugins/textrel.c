// SPDX-License-Identifier: GPL-2.0-or-later
/* A library with text relocations: ld.so writes into its code before anybody calls it. */
long relocated_calls;

__attribute__((noinline)) long relocated(void)
{
	relocated_calls++;
	__asm__ volatile("" ::: "memory");
	return relocated_calls;
}
