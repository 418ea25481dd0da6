/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The names most like one that was mistyped. Purpose: a helpful error. One owner; keeps copies.
 */
#ifndef SCOPETRACE_PROGRAM_NEAREST_H
#define SCOPETRACE_PROGRAM_NEAREST_H

#include <stddef.h>

enum { NEAREST_MOST = 5, NEAREST_LONGEST = 128 };

struct nearest {
	char wanted[NEAREST_LONGEST];
	size_t limit; /* names that differ in more letters than this are not like it */
	struct {
		char name[NEAREST_LONGEST];
		size_t distance;
	} items[NEAREST_MOST]; /* nearest first */
	size_t count;
};

void nearest_begin(struct nearest *nearest, const char *wanted);

/*
 * Offers a name (the first `length` bytes), whole and by its last component ("ns::Class::method":
 * "method").
 */
void nearest_offer(struct nearest *nearest, const char *name, size_t length);

/* The names in `text`, set off by commas; returns it. */
const char *nearest_list(const struct nearest *nearest, char *text, size_t size);

#endif
