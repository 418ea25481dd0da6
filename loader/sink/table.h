/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table for people: columns as wide as what is in them. Purpose: one way to align. Owner: who
 * created it. The text of cells is printed as it is: whoever fills a cell has made it safe
 * (escape_text).
 */
#ifndef SCOPETRACE_SINK_TABLE_H
#define SCOPETRACE_SINK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table_column {
	const char *title;
	bool right; /* numbers stand to the right */
};

struct table;

/* A table without rows; `columns` must outlive it. NULL with errno ENOMEM. */
struct table *table_create(const struct table_column *columns, size_t column_count);

/* Fills the next cell, row by row, with a formatted text. 0 or -ENOMEM. */
int table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Prints titles and rows, two blanks between columns. A text of the first column that is longer
 * than `widest` gets a line of its own, so that one long C++ name does not push all figures off the
 * screen, and no name is cut.
 */
void table_print(const struct table *table, FILE *out, size_t widest, bool bold_titles);

void table_destroy(struct table *table);

#endif
