// SPDX-License-Identifier: GPL-2.0-or-later
/* Truth: relocated of libtextrel-plugin.so, which has text relocations, is called 1000 times; prints "1000", exit 0. */
#include <stdio.h>

long relocated(void);

int main(void)
{
	long sum = 0;

	for (int i = 0; i < 1000; i++)
		sum = relocated();
	printf("%ld\n", sum);
	return sum != 1000;
}
