// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What execwait may go on with: a program that throws. At `again` a line is awaited; then getppid()
 * is called
 *ten times, each time in a function that an exception leaves.
 *
 *	execthrow again
 */
#include "traced.h"

enum { CALLS = 10 };

static volatile long sink;

OUT_OF_LINE static void raise_odd(int i)
{
	sink += getppid();
	if (i % 2)
		throw i;
	NOT_LAST();
}

OUT_OF_LINE static void raise_even(int i)
{
	raise_odd(i);
	if (i % 2 == 0)
		throw i;
	NOT_LAST();
}

int main(int argc, char **argv)
{
	int caught = 0;
	char line[16];

	if (argc < 2 || strcmp(argv[1], "again") != 0)
		return 2;
	printf("again %d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	for (int i = 0; i < CALLS; i++) {
		try {
			raise_even(i);
		} catch (int) {
			caught++;
		}
	}
	printf("truth getppid=%d/%d caught=%d\n", 2 * CALLS, 2 * CALLS, caught);
	return caught != CALLS;
}
