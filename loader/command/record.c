// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vec.h"
#include "command/capture.h"
#include "command/command.h"
#include "command/quantity.h"
#include "timeline/flight.h"

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

enum {
	OPTION_MIN = 256,
	OPTION_RING,
	OPTION_BUFFER,
	OPTION_FLIGHT,
	OPTION_FLIGHT_SIZE,
	OPTION_TRIGGER,
	OPTION_ALL,
	OPTION_OPTIMIZED,
	OPTION_FORCE,
	OPTION_RETURNS,
	OPTION_STACKS,
	OPTION_COMPRESS,
	OPTION_READY_FD,
	OPTION_JSON
};

static const struct option long_options[] = {
	{"pid", required_argument, NULL, 'p'},
	{"function", required_argument, NULL, 'f'},
	{"exclude", required_argument, NULL, 'N'},
	{"output", required_argument, NULL, 'o'},
	{"duration", required_argument, NULL, 'd'},
	{"min", required_argument, NULL, OPTION_MIN},
	{"ring-size", required_argument, NULL, OPTION_RING},
	{"buffer", required_argument, NULL, OPTION_BUFFER},
	{"flight", required_argument, NULL, OPTION_FLIGHT},
	{"flight-size", required_argument, NULL, OPTION_FLIGHT_SIZE},
	{"trigger", required_argument, NULL, OPTION_TRIGGER},
	{"all", no_argument, NULL, OPTION_ALL},
	{"optimized", no_argument, NULL, OPTION_OPTIMIZED},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"returns", required_argument, NULL, OPTION_RETURNS},
	{"stacks", required_argument, NULL, OPTION_STACKS},
	{"compress", optional_argument, NULL, OPTION_COMPRESS},
	{"ready-fd", required_argument, NULL, OPTION_READY_FD},
	{"json", no_argument, NULL, OPTION_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Options, and the lists that they build up. */
struct parsed {
	struct capture_options options;
	char **include; /* with the patterns of @FILE */
	char **exclude;
	struct capture_trigger *triggers;
	size_t trigger_capacity;
	char **argv;
	bool help;
};

static int bad_value(const char *option, const char *value, const char *wanted)
{
	log_error("%s '%s': %s", option, value, wanted);
	return -EINVAL;
}

static int parse_ready_fd(const char *text, int *fd)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*end || end == text || number < 0 || number > 1 << 20 || fcntl((int)number, F_GETFD) < 0)
		return bad_value("--ready-fd", text, "not an open file descriptor");
	/* A command that we launch must not hold it open. */
	fcntl((int)number, F_SETFD, FD_CLOEXEC);
	*fd = (int)number;
	return 0;
}

static int parse_ring_size(const char *text, uint64_t *bytes)
{
	if (parse_size(text, bytes) || *bytes < 4096 || *bytes > 1u << 30 || (*bytes & (*bytes - 1)))
		return bad_value("--ring-size", text, "wants a power of two from 4K to 1G, such as 8M");
	return 0;
}

static int parse_buffer(const char *text, uint64_t *bytes)
{
	if (parse_size(text, bytes) || *bytes < RELAY_BYTES_LEAST || *bytes > RELAY_BYTES_MOST ||
	    (*bytes & (*bytes - 1)))
		return bad_value("--buffer", text, "wants a power of two from 256K to 1G, such as 16M");
	return 0;
}

static int parse_flight(const char *text, uint64_t *ns)
{
	if (parse_duration(text, ns) || *ns > FLIGHT_LONGEST_NS)
		return bad_value("--flight", text, "wants a time up to a day, such as 5, 500ms or 2m");
	return 0;
}

static int parse_flight_size(const char *text, uint64_t *bytes)
{
	if (parse_size(text, bytes) || *bytes < FLIGHT_BYTES_LEAST || *bytes > FLIGHT_SIZE_MOST)
		return bad_value("--flight-size", text, "wants a size from 8M to 1024G, such as 256M");
	return 0;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* The last '>' is ours: names have some, too. */
static int parse_trigger(struct parsed *parsed, const char *text)
{
	struct capture_options *o = &parsed->options;
	struct capture_trigger trigger = {.text = text, .name = text};
	const char *mark = strrchr(text, '>'), *time = mark ? mark + 1 : NULL;

	while (time && is_blank(*time))
		time++;
	if (!time || parse_duration(time, &trigger.longer_than_ns))
		return bad_value("--trigger", text, "wants NAME>TIME in quotes, such as 'render>16ms'");
	while (is_blank(*trigger.name))
		trigger.name++;
	while (mark > trigger.name && is_blank(mark[-1]))
		mark--;
	trigger.length = (size_t)(mark - trigger.name);
	if (!trigger.length)
		return bad_value("--trigger", text, "wants a name before the '>'");
	if (vec_grow(&parsed->triggers, &parsed->trigger_capacity, o->trigger_count))
		return -ENOMEM;
	parsed->triggers[o->trigger_count++] = trigger;
	return 0;
}

static int parse_returns(const char *text, enum return_way *returns)
{
	for (enum return_way way = RETURN_AUTO; way <= RETURN_NONE; way++) {
		if (strcmp(text, return_way_name(way)) == 0) {
			*returns = way;
			return 0;
		}
	}
	return bad_value("--returns", text, "wants auto, uretprobe, instruction or none");
}

static int parse_stacks(const char *text, bool *migrate)
{
	*migrate = strcmp(text, "migrate") == 0;
	return *migrate || strcmp(text, "stay") == 0 ? 0
						     : bad_value("--stacks", text, "wants migrate, or stay");
}

static int parse_compress(const char *text, int *level)
{
	*level = text ? text[0] - '0' : 1;
	if (text && (*level < 1 || *level > 9 || text[1]))
		return bad_value("--compress", text, "wants a level from 1 (fast) to 9 (small)");
	return 0;
}

static int parse_one(struct parsed *parsed, int option, const char *value)
{
	struct capture_options *o = &parsed->options;

	switch (option) {
	case 'p':
		if (o->pid)
			return bad_value("-p", value, "one process at a time: -p was given before");
		return parse_pid(value, &o->pid) ? bad_value("-p", value, "wants a process id") : 0;
	case 'f':
		return selector_expand(value, &parsed->include, &o->include_count);
	case 'N':
		return selector_expand(value, &parsed->exclude, &o->exclude_count);
	case 'o':
		o->output = value;
		return *value ? 0 : bad_value("-o", value, "wants a file name");
	case 'd':
		return parse_duration(value, &o->duration_ns)
			       ? bad_value("--duration", value, "wants a time such as 2, 2s, 500ms or 1m")
			       : 0;
	case OPTION_MIN:
		return parse_duration(value, &o->minimum_ns)
			       ? bad_value("--min", value, "wants a time such as 50us")
			       : 0;
	case OPTION_RING:
		return parse_ring_size(value, &o->ring_bytes);
	case OPTION_BUFFER:
		return parse_buffer(value, &o->buffer_bytes);
	case OPTION_FLIGHT:
		return parse_flight(value, &o->flight_ns);
	case OPTION_FLIGHT_SIZE:
		return parse_flight_size(value, &o->flight_bytes);
	case OPTION_TRIGGER:
		return parse_trigger(parsed, value);
	case OPTION_COMPRESS:
		return parse_compress(value, &o->compress);
	case OPTION_READY_FD:
		return parse_ready_fd(value, &o->ready_fd);
	case OPTION_ALL:
		o->all = true;
		return 0;
	case OPTION_OPTIMIZED:
		o->optimized = true;
		return 0;
	case OPTION_RETURNS:
		return parse_returns(value, &o->returns);
	case OPTION_STACKS:
		return parse_stacks(value, &o->migrate);
	case OPTION_FORCE:
		o->force = true;
		return 0;
	case OPTION_JSON:
		o->json = true;
		return 0;
	case 'h':
		parsed->help = true;
		return 0;
	case ':':
		log_error("%s wants a value; `scopetrace record --help` tells which",
			  parsed->argv[optind - 1]);
		return -EINVAL;
	default:
		log_error("%s is no option; `scopetrace record --help` lists them", parsed->argv[optind - 1]);
		return -EINVAL;
	}
}

static int check_flight(const struct capture_options *o)
{
	if (!o->flight_ns && (o->trigger_count || o->flight_bytes)) {
		log_error("%s is for the flight recorder: give --flight TIME, too",
			  o->trigger_count ? "--trigger" : "--flight-size");
		return -EINVAL;
	}
	if (o->flight_ns && strcmp(o->output, "-") == 0) {
		log_error("--flight writes several files: name the first with -o, not standard output");
		return -EINVAL;
	}
	return 0;
}

static int check_together(struct parsed *parsed, int argc, char **argv)
{
	struct capture_options *o = &parsed->options;

	if (optind < argc)
		o->command = argv + optind;
	if (o->pid && o->command) {
		log_error("both -p and a command ('%s'): which one?", o->command[0]);
		return -EINVAL;
	}
	if (!o->pid && !o->command) {
		log_error("record what? Give -p PID, or -- COMMAND; `scopetrace record --help` tells more");
		return -EINVAL;
	}
	if (strcmp(o->output, "-") == 0 && isatty(STDOUT_FILENO)) {
		log_error(
			"-o -: a capture is binary, and standard output is a terminal: redirect it, or name a file");
		return -EINVAL;
	}
	if (o->json && strcmp(o->output, "-") == 0) {
		log_error("--json and -o - both want standard output: name a file with -o");
		return -EINVAL;
	}
	if (o->exclude_count && !o->include_count) {
		log_error("-N takes functions out of what -f chose, but there is no -f");
		return -EINVAL;
	}
	return check_flight(o);
}

static int parse(struct parsed *parsed, int argc, char **argv)
{
	int option, err;

	parsed->options = (struct capture_options){
		.output = DEFAULT_OUTPUT, .ready_fd = -1, .argc = argc, .argv = argv};
	parsed->argv = argv;
	optind = 0;
	opterr = 0;
	/* '+': options end where the command begins. */
	while ((option = getopt_long(argc, argv, "+:p:f:N:o:d:h", long_options, NULL)) != -1) {
		err = parse_one(parsed, option, optarg);
		if (err || parsed->help)
			return err;
	}
	parsed->options.include = parsed->include;
	parsed->options.exclude = parsed->exclude;
	parsed->options.triggers = parsed->triggers;
	return check_together(parsed, argc, argv);
}

/* What a launched command that could not be captured, or could not be run, makes of our exit code. */
static int failure_code(const struct capture_options *options, const struct capture *capture, int err)
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
	int err = parse(&parsed, argc, argv);
	int code = EXIT_DONE;

	if (err)
		code = EXIT_USAGE;
	else if (parsed.help)
		fputs(help, stdout);
	else
		code = record(&parsed.options);
	selector_free_patterns(parsed.include, parsed.options.include_count);
	selector_free_patterns(parsed.exclude, parsed.options.exclude_count);
	free(parsed.triggers);
	return code;
}
