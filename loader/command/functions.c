// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "command/command.h"
#include "command/quantity.h"
#include "sink/escape.h"
#include "sink/table.h"
#include "target/hazard.h"
#include "target/process.h"
#include "target/selector.h"
#include "target/symbol.h"

static const char help[] =
	"usage: scopetrace functions -p PID [PATTERN]...\n"
	"       scopetrace functions BINARY [PATTERN]...\n"
	"Prints the functions that `scopetrace record -f PATTERN` would hook, with what a hit of each "
	"costs:\n"
	"nop5 (cheapest), emulated (about 4 times as much) or stepped (about 15 times). Says then whether "
	"hooking\n"
	"is safe in this program.\n\n"
	"PATTERN is NAME, 'GLOB*', /REGEX/, LIB:PATTERN, a C++ or Rust name ('ns::Class::method'), or @FILE "
	"with\n"
	"one of these in each line. Without a PATTERN: every function outside the C library.\n\n"
	"  -p, --pid PID            of this running process\n"
	"  -N, --exclude PATTERN    but not these; repeatable\n"
	"      --all                look through the C library too\n"
	"      --optimized          as `record --optimized`: nop5 sites even if the program may fork\n"
	"      --json               a JSON array\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (nothing matches), 2 usage.\n";

enum { OPTION_ALL = 256, OPTION_OPTIMIZED, OPTION_JSON };

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"exclude", required_argument, NULL, 'N'},
	{"all", no_argument, NULL, OPTION_ALL},
	{"optimized", no_argument, NULL, OPTION_OPTIMIZED},
	{"json", no_argument, NULL, OPTION_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct functions_options {
	struct symbol_options symbols;
	pid_t pid;
	const char *binary;
	char **include;
	size_t include_count;
	char **exclude;
	size_t exclude_count;
	bool all;
	bool json;
	bool help;
};

/* ---- options ----------------------------------------------------------------------------------- */

static int usage_error(const char *text, const char *why)
{
	log_error("functions: %s %s; see `scopetrace functions --help`", text, why);
	return -EINVAL;
}

static int parse_option(int option, char **argv, struct functions_options *options)
{
	switch (option) {
	case 'p':
		if (options->pid)
			return usage_error("-p", "was given twice; one process at a time");
		return parse_pid(optarg, &options->pid) ? usage_error("-p wants a process id, not", optarg)
							: 0;
	case 'N':
		return selector_expand(optarg, &options->exclude, &options->exclude_count);
	case OPTION_ALL:
		options->all = true;
		return 0;
	case OPTION_OPTIMIZED:
		options->symbols.optimized = true;
		return 0;
	case OPTION_JSON:
		options->json = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case ':':
		return usage_error(argv[optind - 1], "wants a value");
	default:
		return usage_error(argv[optind - 1], "is no option");
	}
}

/* With --all a pattern that names no module means all of them, the C library too. */
static int widen(char **pattern)
{
	struct selector *selector = selector_parse(*pattern);
	char *wider = NULL;
	bool names_module;

	if (!selector)
		return -errno;
	names_module = selector_names_module(selector);
	selector_destroy(selector);
	if (names_module)
		return 0;
	if (asprintf(&wider, "*:%s", *pattern) < 0)
		return -ENOMEM;
	free(*pattern);
	*pattern = wider;
	return 0;
}

static int read_patterns(int argc, char **argv, struct functions_options *options)
{
	int err = 0;

	for (; optind < argc && !err; optind++)
		err = selector_expand(argv[optind], &options->include, &options->include_count);
	if (!err && !options->include_count)
		err = selector_expand("*", &options->include, &options->include_count);
	for (size_t i = 0; options->all && i < options->include_count && !err; i++)
		err = widen(&options->include[i]);
	return err;
}

static int parse(int argc, char **argv, struct functions_options *options)
{
	int option, err;

	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":p:N:h", long_options, NULL)) != -1) {
		err = parse_option(option, argv, options);
		if (err || options->help)
			return err;
	}
	if (!options->pid && optind == argc)
		return usage_error("which functions?", "Give -p PID, or a program or library");
	if (!options->pid)
		options->binary = argv[optind++];
	return read_patterns(argc, argv, options);
}

/* ---- printing ---------------------------------------------------------------------------------- */

static const char *cost_name(enum probe_cost cost)
{
	switch (cost) {
	case PROBE_COST_NOP5:
		return "nop5";
	case PROBE_COST_EMULATED:
		return "emulated";
	default:
		return "stepped";
	}
}

static int add_row(struct table *table, const struct function *function)
{
	char *name = escape_text(function->demangled), *module = escape_text(function->module->base);
	int err = -ENOMEM;

	if (name && module && !table_cell(table, "%s", name) && !table_cell(table, "%s", module) &&
	    !table_cell(table, "%#" PRIx64, function->address) &&
	    !table_cell(table, "%s", cost_name(function->cost)))
		err = 0;
	free(name);
	free(module);
	return err;
}

static int print_table(const struct function *const *functions, size_t count)
{
	static const struct table_column columns[] = {
		{"NAME", false}, {"MODULE", false}, {"ADDRESS", true}, {"COST", false}};
	struct table *table = table_create(columns, sizeof(columns) / sizeof(columns[0]));
	int err = table ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++)
		err = add_row(table, functions[i]);
	if (!err)
		table_print(table, stdout, 60, false);
	table_destroy(table);
	return err;
}

static void print_json_function(const struct function *f)
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
	       ",\"probe_offset\":%" PRIu64 ",\"cost\":\"%s\"}",
	       f->address, f->size, f->file_offset, f->probe_offset, cost_name(f->cost));
}

static int print_json(const struct function *const *functions, size_t count)
{
	putchar('[');
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "\n", stdout);
		print_json_function(functions[i]);
	}
	fputs("\n]\n", stdout);
	return 0;
}

/* Whoever reads a pipe may stop when it has seen enough: that is no failure to be told. */
static int print(const struct function *const *functions, size_t count, bool json)
{
	int err = (json ? print_json : print_table)(functions, count);

	if (!err && (fflush(stdout) || ferror(stdout)))
		err = errno ? -errno : -EIO;
	if (err && err != -EPIPE)
		log_error("cannot write the list: %s", strerror(-err));
	return err;
}

/* What record would do with this program. */
static void say_verdict(const struct symbol_table *table, const struct functions_options *options)
{
	struct hazard hazard;

	if (table->may_fork)
		log_info("%s: in a forked child an optimised nop5 site crashes, so probes %s",
			 table->fork_evidence,
			 options->symbols.optimized ? "on them are a risk (--optimized)"
						    : "go behind the nop5; --optimized puts them on it");
	if (hazard_check(&table->modules, &hazard))
		log_info("hooking would be refused: not every file could be checked (--force overrules)");
	else if (hazard.found)
		log_info("hooking would be refused (--force overrules): %s", hazard.evidence);
	else
		log_info("hooking is safe: no exceptions, thread exits or stack switches found");
}

/* ---- the command ------------------------------------------------------------------------------- */

static int open_table(const struct functions_options *options, struct symbol_table *table)
{
	struct process process;
	int err;

	if (options->binary)
		return symbol_table_of_binary(options->binary, &options->symbols, table);
	err = process_open(options->pid, &process);
	if (!err) {
		err = symbol_table_of_process(process.pid, &options->symbols, table);
		process_close(&process);
	}
	return err;
}

static int list(const struct functions_options *options)
{
	const struct function **functions = NULL;
	struct symbol_table table;
	size_t count;
	int err;

	err = open_table(options, &table);
	if (err)
		return err;
	err = selector_choose(&table, options->include, options->include_count, options->exclude,
			      options->exclude_count, true, &functions, &count);
	if (!err)
		err = print(functions, count, options->json);
	if (!err)
		say_verdict(&table, options);
	free(functions);
	symbol_table_close(&table);
	return err;
}

int command_functions(int argc, char **argv)
{
	struct functions_options options = {0};
	int code = EXIT_DONE;

	if (parse(argc, argv, &options))
		code = EXIT_USAGE;
	else if (options.help)
		fputs(help, stdout);
	else if (list(&options))
		code = EXIT_FAILED;
	selector_free_patterns(options.include, options.include_count);
	selector_free_patterns(options.exclude, options.exclude_count);
	return code;
}
