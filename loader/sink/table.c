// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/vec.h"
#include "sink/escape.h"

struct table {
	const struct table_column *columns;
	size_t column_count;
	char **cells;
	size_t cell_count;
	size_t cell_capacity;
};

struct table *table_create(const struct table_column *columns, size_t column_count)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	table->column_count = column_count;
	return table;
}

int table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;
	char *text;
	int length;

	if (vec_grow(&table->cells, &table->cell_capacity, table->cell_count))
		return -ENOMEM;
	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0)
		return -ENOMEM;
	table->cells[table->cell_count++] = text;
	return 0;
}

static size_t column_width(const struct table *table, size_t column, size_t widest)
{
	size_t width = escape_columns(table->columns[column].title);

	for (size_t i = column; i < table->cell_count; i += table->column_count) {
		size_t columns = escape_columns(table->cells[i]);

		if (columns > width && (column || columns <= widest))
			width = columns;
	}
	return width;
}

static void print_cell(const struct table *table, FILE *out, size_t column, size_t width,
		       const char *text)
{
	size_t columns = escape_columns(text);
	int padding = columns < width ? (int)(width - columns) : 0;
	bool last = column + 1 == table->column_count;

	if (last && !*text) {
		putc('\n', out); /* no blanks at the end of a line */
		return;
	}
	if (column)
		fputs("  ", out);
	if (table->columns[column].right)
		fprintf(out, "%*s%s", padding, "", text);
	else
		fprintf(out, "%s%*s", text, last ? 0 : padding, "");
	if (last)
		putc('\n', out);
}

static void print_row(const struct table *table, FILE *out, const size_t *widths, char *const *row)
{
	for (size_t column = 0; column < table->column_count; column++) {
		const char *text = row[column];

		if (column == 0 && escape_columns(text) > widths[0]) {
			fprintf(out, "%s\n", text);
			text = "";
		}
		print_cell(table, out, column, widths[column], text);
	}
}

void table_print(const struct table *table, FILE *out, size_t widest, bool bold_titles)
{
	size_t widths[16];

	if (table->column_count > sizeof(widths) / sizeof(widths[0]))
		abort();
	for (size_t column = 0; column < table->column_count; column++)
		widths[column] = column_width(table, column, widest);
	if (bold_titles)
		fputs("\033[1m", out);
	for (size_t column = 0; column < table->column_count; column++)
		print_cell(table, out, column, widths[column], table->columns[column].title);
	if (bold_titles)
		fputs("\033[0m", out);
	for (size_t i = 0; i + table->column_count <= table->cell_count; i += table->column_count)
		print_row(table, out, widths, &table->cells[i]);
}

void table_destroy(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->cell_count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}
