// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An exception out of a comparison, through the C library's qsort(), a hundred times. A program
 * that ends like this must live through hooks on the C library which were made when its process
 * still ran another program.
 */
#include <cstdio>
#include <cstdlib>

static int compare(const void *, const void *)
{
	throw 1;
}

int main()
{
	int caught = 0;

	for (int i = 0; i < 100; i++) {
		int numbers[] = {3, 1, 2};

		try {
			qsort(numbers, 3, sizeof(*numbers), compare);
		} catch (int) {
			caught++;
		}
	}
	std::printf("truth qsort=100/0 caught=%d\n", caught);
	return caught == 100 ? 0 : 1;
}
