// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>

#include "base/search.h"

/* Against a walk from the beginning: each bound in arrays of all small lengths, with repeats. */
Test(search, finds_what_a_walk_finds)
{
	for (size_t count = 0; count < 20; count++) {
		for (int wanted = -1; wanted < 12; wanted++) {
			int values[20];
			size_t lower = 99, upper = 99, below = 0, up_to = 0;

			for (size_t i = 0; i < count; i++) {
				values[i] = (int)(i * 5 / 9);
				below += values[i] < wanted;
				up_to += values[i] <= wanted;
			}
			SEARCH_FIRST(lower, count, values[lower] < wanted);
			SEARCH_FIRST(upper, count, values[upper] <= wanted);
			cr_assert_eq(lower, below, "%d among %zu", wanted, count);
			cr_assert_eq(upper, up_to, "%d among %zu", wanted, count);
		}
	}
}
