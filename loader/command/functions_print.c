// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/functions_print.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "sink/escape.h"
#include "sink/table.h"

static const char *cost_name(enum probe_cost cost)
{
	switch (cost) {
	case PROBE_COST_NOP5:
		return "nop5";
	case PROBE_COST_EMULATED:
		return "emulated";
	case PROBE_COST_REFUSED:
		return "refused";
	default:
		return "stepped";
	}
}

static const char *returns_name(const struct return_choice *choice)
{
	return choice->refused ? "refused" : return_mode_name(choice->mode);
}

static int add_row(struct table *table, const struct function *function,
		   const struct return_choice *choice)
{
	char *name = escape_text(function->demangled),
	     *module = escape_text(function->module->base);
	int err = -ENOMEM;

	if (name && module && !table_cell(table, "%s", name) && !table_cell(table, "%s", module) &&
	    !table_cell(table, "%#" PRIx64, function->address) &&
	    !table_cell(table, "%s", cost_name(function->cost)) &&
	    !table_cell(table, "%s", returns_name(choice)))
		err = 0;
	free(name);
	free(module);
	return err;
}

static int print_table(const struct plan *plan)
{
	static const struct table_column columns[] = {{"NAME", false},
						      {"MODULE", false},
						      {"ADDRESS", true},
						      {"COST", false},
						      {"RETURNS", false}};
	struct table *table = table_create(columns, sizeof(columns) / sizeof(columns[0]));
	int err = table ? 0 : -ENOMEM;

	for (size_t i = 0; i < plan->count && !err; i++)
		err = add_row(table, plan->functions[i], &plan->returns.choices[i]);
	if (!err)
		table_print(table, stdout, 60, false);
	table_destroy(table);
	return err;
}

static void print_json_function(const struct function *f, const struct return_choice *choice)
{
	fputs("{\"name\":", stdout);
	escape_json(stdout, f->demangled);
	fputs(",\"symbol\":", stdout);
	escape_json(stdout, f->name);
	fputs(",\"aliases\":[", stdout);
	for (const char **alias = f->aliases; alias && *alias; alias++) {
		if (alias != f->aliases)
			putchar(',');
		escape_json(stdout, *alias);
	}
	fputs("],\"module\":", stdout);
	escape_json(stdout, f->module->base);
	fputs(",\"path\":", stdout);
	escape_json(stdout, f->module->path);
	printf(",\"address\":%" PRIu64 ",\"size\":%" PRIu64 ",\"offset\":%" PRIu64
	       ",\"probe_offset\":%" PRIu64 ",\"cost\":\"%s\",\"returns\":\"%s\",\"reason\":",
	       f->address, f->size, f->file_offset, f->probe_offset, cost_name(f->cost),
	       returns_name(choice));
	escape_json(stdout, choice->refused ? choice->refused : return_reason_text(choice->reason));
	putchar('}');
}

static int print_json(const struct plan *plan)
{
	putchar('[');
	for (size_t i = 0; i < plan->count; i++) {
		fputs(i ? ",\n" : "\n", stdout);
		print_json_function(plan->functions[i], &plan->returns.choices[i]);
	}
	fputs("\n]\n", stdout);
	return 0;
}

/* Whoever reads a pipe may stop when it has seen enough: EPIPE is no failure. */
int functions_print(const struct plan *plan, bool json)
{
	int err = (json ? print_json : print_table)(plan);

	if (!err && (fflush(stdout) || ferror(stdout)))
		err = errno ? -errno : -EIO;
	if (err && err != -EPIPE)
		log_error("cannot write the list: %s", strerror(-err));
	return err;
}
