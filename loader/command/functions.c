// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "command/command.h"
#include "command/functions_print.h"
#include "plan/plan.h"
#include "command/options.h"
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

struct parsed {
	struct plan_options plan;
	struct option_patterns include;
	struct option_patterns exclude;
	pid_t pid;
	const char *binary;
	bool all; /* the C library, too */
	bool json;
};

#define FIELD(name) offsetof(struct parsed, name)

static const struct option_row rows[] = {
	{"pid", 'p', required_argument, option_pid, FIELD(pid)},
	{"exclude", 'N', required_argument, option_patterns, FIELD(exclude)},
	{"all", 0, no_argument, option_switch, FIELD(all)},
	{"optimized", 0, no_argument, option_switch, FIELD(plan.optimized)},
	{"json", 0, no_argument, option_switch, FIELD(json)},
	OPTION_HELP,
};

static const struct option_table table = {"functions", rows, sizeof(rows) / sizeof(*rows),
					  false,       NULL, NULL};

/* ---- options ---- */

/* With --all a pattern that names no module means all of them, the C library too. */
static int widen_pattern(char **pattern)
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

static int read_patterns(int argc, char **argv, struct parsed *parsed)
{
	int err = 0;

	for (; optind < argc && !err; optind++)
		err = option_patterns(argv[optind], &parsed->include);
	if (!err && !parsed->include.count)
		err = option_patterns("*", &parsed->include);
	for (size_t i = 0; parsed->all && i < parsed->include.count && !err; i++)
		err = widen_pattern(&parsed->include.list[i]);
	parsed->plan.include = parsed->include.list;
	parsed->plan.include_count = parsed->include.count;
	parsed->plan.exclude = parsed->exclude.list;
	parsed->plan.exclude_count = parsed->exclude.count;
	return err;
}

/* 0, OPTIONS_HELP or -errno, logged. */
static int parse(struct parsed *parsed, int argc, char **argv)
{
	int err = options_read(&table, parsed, argc, argv);

	if (err)
		return err;
	if (!parsed->pid && optind == argc) {
		log_error("functions: which functions? Give -p PID, or a program or library; "
			  "see `scopetrace functions --help`");
		return -EINVAL;
	}
	if (!parsed->pid)
		parsed->binary = argv[optind++];
	return read_patterns(argc, argv, parsed);
}

/* ---- what is logged ---- */

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

static int make_plan(const struct parsed *parsed, struct plan *plan)
{
	struct process process;
	int err;

	if (parsed->binary)
		return plan_make(plan, &parsed->plan, 0, parsed->binary);
	err = process_open(parsed->pid, &process);
	if (!err) {
		err = plan_make(plan, &parsed->plan, process.pid, NULL);
		process_close(&process);
	}
	return err;
}

static int list_functions(const struct parsed *parsed)
{
	struct plan plan = {0};
	int err = make_plan(parsed, &plan);

	if (!err)
		err = functions_print(&plan, parsed->json);
	if (!err)
		log_verdict(&plan);
	plan_release(&plan);
	return err;
}

int command_functions(int argc, char **argv)
{
	struct parsed parsed = {.plan = {.all = true, .is_look = true}};
	int err = parse(&parsed, argc, argv), code = EXIT_DONE;

	if (err == OPTIONS_HELP)
		fputs(help, stdout);
	else if (err)
		code = EXIT_USAGE;
	else if (list_functions(&parsed))
		code = EXIT_FAILED;
	selector_free_patterns(parsed.include.list, parsed.include.count);
	selector_free_patterns(parsed.exclude.list, parsed.exclude.count);
	return code;
}
