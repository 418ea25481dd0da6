// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "command/command.h"
#include "command/functions_print.h"
#include "plan/plan.h"
#include "command/quantity.h"
#include "program/process.h"
#include "program/selector.h"

static const char help[] =
	"usage: scopetrace functions -p PID [PATTERN]...\n"
	"       scopetrace functions BINARY [PATTERN]...\n"
	"Prints the functions that `scopetrace record -f PATTERN` would hook, with what a hit of each "
	"costs:\n"
	"nop5 (cheapest), emulated (about 4 times as much), stepped (about 15 times) or refused. Says then "
	"whether\n"
	"hooking is safe in this program.\n\n"
	"PATTERN is NAME, 'GLOB*', /REGEX/, LIB:PATTERN, a C++ or Rust name ('ns::Class::method'), or @FILE "
	"with\n"
	"one of these in each line. Without a PATTERN: every function outside the C library.\n\n"
	"  -p, --pid PID            of this running process\n"
	"  -N, --exclude PATTERN    but not these; repeatable\n"
	"      --all                look through the C library too (for `record` it means another thing)\n"
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
	struct plan_options plan;
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

/*
 * ---- options -----------------------------------------------------------------------------------
 */

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
		return parse_pid(optarg, &options->pid)
			       ? usage_error("-p wants a process id, not", optarg)
			       : 0;
	case 'N':
		return selector_expand(optarg, &options->exclude, &options->exclude_count);
	case OPTION_ALL:
		options->all = true;
		return 0;
	case OPTION_OPTIMIZED:
		options->plan.optimized = true;
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
	err = read_patterns(argc, argv, options);
	options->plan.include = options->include;
	options->plan.include_count = options->include_count;
	options->plan.exclude = options->exclude;
	options->plan.exclude_count = options->exclude_count;
	return err;
}

static void log_forks(const struct plan *plan)
{
	bool optimized = plan->options->optimized;

	if (plan->symbols.may_fork)
		log_info("%s: in a forked child an optimised nop5 site crashes, so probes %s",
			 plan->symbols.fork_evidence,
			 optimized ? "on them are a risk (--optimized)"
				   : "go behind the nop5; --optimized puts them on it");
	else if (plan->symbols.may_exec)
		log_info(
			"%s, and the program that runs then may fork: in a forked child an optimised nop5 site "
			"crashes, so probes %s",
			plan->symbols.fork_evidence,
			optimized ? "on those of libraries are a risk (--optimized)"
				  : "on libraries go behind the nop5; --optimized puts them on it");
}

/* What record would do with this program. */
static void log_verdict(const struct plan *plan)
{
	const struct hazard *hazard = &plan->hazard;

	log_forks(plan);
	for (size_t i = 0; i < hazard->count; i++)
		log_info("hazard: %s %s: %s", hazard->items[i].object, hazard->items[i].found,
			 hazard_danger(hazard->items[i].kind));
	if (hazard->left_out)
		log_info("and %zu more hazards", hazard->left_out);
	plan_log_returns(plan, true);
}

/* ---- the command ---- */

static int make_plan(const struct functions_options *options, struct plan *plan)
{
	struct process process;
	int err;

	if (options->binary)
		return plan_make(plan, &options->plan, 0, options->binary);
	err = process_open(options->pid, &process);
	if (!err) {
		err = plan_make(plan, &options->plan, process.pid, NULL);
		process_close(&process);
	}
	return err;
}

static int list_functions(const struct functions_options *options)
{
	struct plan plan = {0};
	int err = make_plan(options, &plan);

	if (!err)
		err = functions_print(&plan, options->json);
	if (!err)
		log_verdict(&plan);
	plan_release(&plan);
	return err;
}

int command_functions(int argc, char **argv)
{
	struct functions_options options = {.plan = {.all = true, .is_look = true}};
	int code = EXIT_DONE;

	if (parse(argc, argv, &options))
		code = EXIT_USAGE;
	else if (options.help)
		fputs(help, stdout);
	else if (list_functions(&options))
		code = EXIT_FAILED;
	selector_free_patterns(options.include, options.include_count);
	selector_free_patterns(options.exclude, options.exclude_count);
	return code;
}
