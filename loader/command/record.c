// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"
#include "program/selector.h"
#include "record/recording.h"
#include "command/command.h"
#include "command/options.h"
#include "command/quantity.h"
#include "record/flight.h"

#define DEFAULT_OUTPUT	  "scopetrace.scope"
#define FLIGHT_LONGEST_NS (24 * 3600 * 1000000000ull)
#define FLIGHT_SIZE_MOST  (1ull << 40)

static const char help[] =
	"usage: scopetrace record -p PID [OPTION]...\n"
	"       scopetrace record [OPTION]... -- COMMAND [ARGUMENT]...\n"
	"Captures a process's hooked functions (-f, needs root) and its libscope scopes (always) into one "
	"file.\n"
	"It ends with the process, with --duration, or by Ctrl-C.\n\n"
	"  -p, --pid PID            attach to this running process\n"
	"  -f, --function PATTERN   hook these functions: NAME, 'GLOB*', /REGEX/ or LIB:PATTERN;\n"
	"                           @FILE: a pattern a line; repeatable\n"
	"  -N, --exclude PATTERN    but not these; repeatable\n"
	"  -o, --output FILE        default " DEFAULT_OUTPUT "; an older one becomes FILE.old\n"
	"  -d, --duration TIME      2, 2s, 500ms, 1m; a COMMAND still running then gets SIGTERM\n"
	"      --min TIME           drop hooked calls that are shorter (they are counted)\n"
	"      --ring-size BYTES    of the kernel's ring: a power of two, such as 8M (the default) or 64M\n"
	"      --buffer BYTES       between drain and file, for each of hooked and manual scopes: a power of two,\n"
	"                           from 256K to 1G (16M is the default); what finds no room in it is lost\n"
	"      --flight TIME        keep only this much of the past, in memory, and write it at the end; SIGUSR1 and\n"
	"                           --trigger write it to FILE.1, FILE.2 ... meanwhile\n"
	"      --trigger 'NAME>TIME'\n"
	"                           with --flight: write it when a call of this hooked function or manual scope\n"
	"                           took longer; repeatable\n"
	"      --flight-size BYTES  most memory for --flight; 256M is the default\n"
	"      --all                allow the patterns to match more than 1000 functions\n"
	"      --optimized          use the cheapest probe sites even if the program may fork (see "
	"scopetrace-record(1))\n"
	"      --returns MODE       how returns are seen: auto (the default: what cannot harm the program),\n"
	"                           uretprobe, instruction, none (entries only); see HAZARDS in "
	"scopetrace-record(1)\n"
	"      --stacks migrate     a call may go from thread to thread (work-stealing fibers)\n"
	"      --force              with --returns=uretprobe: even if it may kill the program\n"
	"      --compress[=LEVEL]   deflate the file, from 1 (fast, the default of this option) to 9 (small)\n"
	"      --ready-fd N         write a line to file descriptor N when the capture is on\n"
	"      --json               print the closing account as JSON on stdout\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed or the account does not balance, 2 usage; with a COMMAND its own "
	"status\n"
	"(128 + signal if one ended it, 127 not found, 126 not executable), 125 when the capture failed.\n";

/* Options, and the lists that they build up. */
struct parsed {
	struct capture_options options;
	struct option_patterns include; /* with the patterns of @FILE */
	struct option_patterns exclude;
	struct trigger_list {
		struct capture_trigger *all;
		size_t count, capacity;
	} triggers;
};

static int read_buffer(char *text, void *field)
{
	uint64_t *bytes = field;

	if (parse_size(text, bytes) || *bytes < RELAY_BYTES_LEAST || *bytes > RELAY_BYTES_MOST ||
	    (*bytes & (*bytes - 1)))
		return option_refuse("--buffer", text,
				     "wants a power of two from 256K to 1G, such as 16M");
	return 0;
}

static int read_flight(char *text, void *field)
{
	uint64_t *ns = field;

	if (parse_duration(text, ns) || *ns > FLIGHT_LONGEST_NS)
		return option_refuse("--flight", text,
				     "wants a time up to a day, such as 5, 500ms or 2m");
	return 0;
}

static int read_flight_size(char *text, void *field)
{
	uint64_t *bytes = field;

	if (parse_size(text, bytes) || *bytes < FLIGHT_BYTES_LEAST || *bytes > FLIGHT_SIZE_MOST)
		return option_refuse("--flight-size", text,
				     "wants a size from 8M to 1024G, such as 256M");
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The last '>' is ours: names have some, too. */
static int read_trigger(char *text, void *list)
{
	struct trigger_list *triggers = list;
	struct capture_trigger trigger = {.text = text, .name = text};
	const char *mark = strrchr(text, '>'), *time = mark ? mark + 1 : NULL;

	while (time && is_blank(*time))
		time++;
	if (!time || parse_duration(time, &trigger.longer_than_ns))
		return option_refuse("--trigger", text,
				     "wants NAME>TIME in quotes, such as 'render>16ms'");
	while (is_blank(*trigger.name))
		trigger.name++;
	while (mark > trigger.name && is_blank(mark[-1]))
		mark--;
	trigger.length = (size_t)(mark - trigger.name);
	if (!trigger.length)
		return option_refuse("--trigger", text, "wants a name before the '>'");
	if (vec_grow(&triggers->all, &triggers->capacity, triggers->count))
		return -ENOMEM;
	triggers->all[triggers->count++] = trigger;
	return 0;
}

#define FIELD(name)  offsetof(struct parsed, name)
#define OPTION(name) offsetof(struct parsed, options.name)

static const struct option_row rows[] = {
	{"pid", 'p', required_argument, option_pid, OPTION(pid)},
	{"function", 'f', required_argument, option_patterns, FIELD(include)},
	{"exclude", 'N', required_argument, option_patterns, FIELD(exclude)},
	{"output", 'o', required_argument, option_output, OPTION(output)},
	{"duration", 'd', required_argument, option_duration, OPTION(duration_ns)},
	{"min", 0, required_argument, option_minimum, OPTION(minimum_ns)},
	{"ring-size", 0, required_argument, option_ring_size, OPTION(ring_bytes)},
	{"buffer", 0, required_argument, read_buffer, OPTION(buffer_bytes)},
	{"flight", 0, required_argument, read_flight, OPTION(flight_ns)},
	{"flight-size", 0, required_argument, read_flight_size, OPTION(flight_bytes)},
	{"trigger", 0, required_argument, read_trigger, FIELD(triggers)},
	{"all", 0, no_argument, option_switch, OPTION(plan.all)},
	{"optimized", 0, no_argument, option_switch, OPTION(plan.optimized)},
	{"force", 0, no_argument, option_switch, OPTION(plan.force)},
	{"returns", 0, required_argument, option_returns, OPTION(plan.returns)},
	{"stacks", 0, required_argument, option_stacks, OPTION(plan.migrate)},
	{"compress", 0, optional_argument, option_compress, OPTION(compress)},
	{"ready-fd", 0, required_argument, option_ready_fd, OPTION(ready_fd)},
	{"json", 0, no_argument, option_switch, OPTION(json)},
	OPTION_HELP,
};

static const struct option_table table = {"record", rows,	   sizeof(rows) / sizeof(*rows),
					  true,	    "tells which", "lists them"};

static int check_flight(const struct capture_options *o)
{
	if (!o->flight_ns && (o->trigger_count || o->flight_bytes)) {
		log_error("%s is for the flight recorder: give --flight TIME, too",
			  o->trigger_count ? "--trigger" : "--flight-size");
		return -EINVAL;
	}
	if (o->flight_ns && strcmp(o->output, "-") == 0) {
		log_error(
			"--flight writes several files: name the first with -o, not standard output");
		return -EINVAL;
	}
	return 0;
}

static int check_together(struct capture_options *o, int argc, char **argv)
{
	if (optind < argc)
		o->command = argv + optind;
	if (o->pid && o->command) {
		log_error("both -p and a command ('%s'): which one?", o->command[0]);
		return -EINVAL;
	}
	if (!o->pid && !o->command) {
		log_error(
			"record what? Give -p PID, or -- COMMAND; `scopetrace record --help` tells more");
		return -EINVAL;
	}
	if (option_refuse_terminal(o->output))
		return -EINVAL;
	if (o->json && strcmp(o->output, "-") == 0) {
		log_error("--json and -o - both want standard output: name a file with -o");
		return -EINVAL;
	}
	if (o->plan.exclude_count && !o->plan.include_count) {
		log_error("-N takes functions out of what -f chose, but there is no -f");
		return -EINVAL;
	}
	return check_flight(o);
}

/* 0, OPTIONS_HELP or -errno, logged. */
static int parse(struct parsed *parsed, int argc, char **argv)
{
	struct capture_options *o = &parsed->options;
	int err;

	*o = (struct capture_options){
		.output = DEFAULT_OUTPUT, .ready_fd = -1, .argc = argc, .argv = argv};
	err = options_read(&table, parsed, argc, argv);
	if (err)
		return err;
	o->plan.include = parsed->include.list;
	o->plan.include_count = parsed->include.count;
	o->plan.exclude = parsed->exclude.list;
	o->plan.exclude_count = parsed->exclude.count;
	o->triggers = parsed->triggers.all;
	o->trigger_count = parsed->triggers.count;
	return check_together(o, argc, argv);
}

/*
 * What a launched command that could not be captured, or could not be run, makes of our exit code.
 */
static int failure_code(const struct capture_options *options, const struct capture *capture,
			int err)
{
	if (!options->command)
		return EXIT_FAILED;
	if (capture->launch.exec_failed)
		return err == -ENOENT ? 127 : 126;
	return EXIT_CAPTURE_FAILED;
}

static int record(const struct capture_options *options)
{
	struct capture *capture = calloc(1, sizeof(*capture));
	int err, finished, code;

	if (!capture)
		return EXIT_FAILED;
	err = capture_open(capture, options);
	if (!err)
		err = capture_run(capture);
	finished = capture_finish(capture);
	if (!err)
		err = finished;
	if (!err && capture->rewritten)
		err = -ESTALE;
	code = err ? failure_code(options, capture, err) : EXIT_DONE;
	capture_close(capture);
	if (!err && options->command)
		code = launch_exit_code(&capture->launch); /* capture_close has waited for it */
	free(capture);
	return code;
}

int command_record(int argc, char **argv)
{
	struct parsed parsed = {0};
	int err = parse(&parsed, argc, argv), code = EXIT_DONE;

	if (err == OPTIONS_HELP)
		fputs(help, stdout);
	else if (err)
		code = EXIT_USAGE;
	else
		code = record(&parsed.options);
	selector_free_patterns(parsed.include.list, parsed.include.count);
	selector_free_patterns(parsed.exclude.list, parsed.exclude.count);
	free(parsed.triggers.all);
	return code;
}
