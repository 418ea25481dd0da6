// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/options.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

/* What getopt_long returns for the row of this number: no letter. */
#define ROW_VALUE 256

struct getopt_form {
	struct option longs[OPTION_ROWS_MAX + 1];
	char shorts[2 + 2 * OPTION_ROWS_MAX + 1];
};

static void make_form(const struct option_table *table, struct getopt_form *form)
{
	char *shorts = form->shorts;

	assert(table->count <= OPTION_ROWS_MAX);
	if (table->operands_end_it)
		*shorts++ = '+';
	*shorts++ = ':';
	for (size_t i = 0; i < table->count; i++) {
		const struct option_row *row = &table->rows[i];

		form->longs[i] = (struct option){row->name, row->takes, NULL, ROW_VALUE + (int)i};
		if (!row->letter)
			continue;
		*shorts++ = row->letter;
		if (row->takes == required_argument)
			*shorts++ = ':';
	}
	form->longs[table->count] = (struct option){0};
	*shorts = '\0';
}

static const struct option_row *row_of(const struct option_table *table, int option)
{
	if (option >= ROW_VALUE)
		return &table->rows[option - ROW_VALUE];
	for (size_t i = 0; i < table->count; i++) {
		if (table->rows[i].letter && table->rows[i].letter == option)
			return &table->rows[i];
	}
	return NULL;
}

static int refuse_option(const struct option_table *table, const char *text, bool lacks_value)
{
	const char *hint = lacks_value ? table->help_on_value : table->help_on_unknown;

	log_error("%s %s; `scopetrace %s --help` %s", text,
		  lacks_value ? "wants a value" : "is no option", table->command,
		  hint ? hint : "tells more");
	return -EINVAL;
}

int options_read(const struct option_table *table, void *all, int argc, char **argv)
{
	struct getopt_form form;
	int option, err = 0;

	make_form(table, &form);
	optind = 0;
	opterr = 0;
	while (!err && (option = getopt_long(argc, argv, form.shorts, form.longs, NULL)) != -1) {
		const struct option_row *row = row_of(table, option);

		if (!row)
			return refuse_option(table, argv[optind - 1], option == ':');
		if (!row->read)
			return OPTIONS_HELP;
		err = row->read(optarg, (char *)all + row->field);
	}
	return err;
}

int option_refuse(const char *option, const char *value, const char *wanted)
{
	log_error("%s '%s': %s", option, value, wanted);
	return -EINVAL;
}
