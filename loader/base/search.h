/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A binary search in anything sorted that has indexes. Stateless. */
#ifndef SCOPETRACE_BASE_SEARCH_H
#define SCOPETRACE_BASE_SEARCH_H

#include <stddef.h>

/*
 * Sets `index`, a variable of type size_t, to the first index below `count` for which `precedes`
 * is false, or to `count`: `precedes` is an expression of `index`, true up to some index and false
 * from there on. With `a[i] < x` the result is the lower bound of x; with `a[i] <= x` the upper one.
 */
#define SEARCH_FIRST(index, count, precedes)                                      \
	do {                                                                      \
		size_t search_low_ = 0, search_high_ = (count);                   \
                                                                                  \
		while (search_low_ < search_high_) {                              \
			(index) = search_low_ + (search_high_ - search_low_) / 2; \
			if (precedes)                                             \
				search_low_ = (index) + 1;                        \
			else                                                      \
				search_high_ = (index);                           \
		}                                                                 \
		(index) = search_low_;                                            \
	} while (0)

#endif
