// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "command/command.h"
#include "command/pinned_attach.h"
#include "command/quantity.h"

static const char help[] =
	"usage: scopetrace attach --pin DIR -p PID -f PATTERN... [OPTION]...\n"
	"Hooks functions of a process and leaves: tracing goes on without a loader, pinned in DIR, a directory\n"
	"below /sys/fs/bpf. Uses the programs and maps that `bpftool prog loadall` has pinned there, or loads and\n"
	"pins its own. `drain` takes what was traced, `set` changes it, `status` tells how it stands, `detach`\n"
	"ends it; see scopetrace-pinned(7).\n\n"
	"      --pin DIR            where\n"
	"  -p, --pid PID            hook this running process\n"
	"  -f, --function PATTERN   these functions: NAME, 'GLOB*', /REGEX/ or LIB:PATTERN;\n"
	"                           @FILE: a pattern a line; repeatable\n"
	"  -N, --exclude PATTERN    but not these; repeatable\n"
	"      --min TIME           drop calls that are shorter (they are counted)\n"
	"      --ring-size BYTES    of the kernel's ring: a power of two, such as 8M (the default) or 64M\n"
	"      --all                allow the patterns to match more than 1000 functions\n"
	"      --optimized          use the cheapest probe sites even if the program may fork\n"
	"      --returns MODE       auto (the default), uretprobe, instruction or none: as `record`\n"
	"      --stacks migrate     a call may go from thread to thread (work-stealing fibers)\n"
	"      --force              with --returns=uretprobe: even if it may kill the program\n"
	"      --group NAME         who is of this group may drain\n"
	"      --near               a little cheaper, and the map open_scopes does not show every open call\n"
	"      --watch              leave a small process by which manual scopes are captured, too\n"
	"  -h, --help\n\n"
	"Exit status: 0 attached, 1 failed (nothing of it is left), 2 usage.\n";

enum {
	OPTION_PIN = 256,
	OPTION_MIN,
	OPTION_RING,
	OPTION_ALL,
	OPTION_OPTIMIZED,
	OPTION_RETURNS,
	OPTION_STACKS,
	OPTION_FORCE,
	OPTION_GROUP,
	OPTION_NEAR,
	OPTION_WATCH,
};

static const struct option long_options[] = {
	{"pin", required_argument, NULL, OPTION_PIN},
	{"pid", required_argument, NULL, 'p'},
	{"function", required_argument, NULL, 'f'},
	{"exclude", required_argument, NULL, 'N'},
	{"min", required_argument, NULL, OPTION_MIN},
	{"ring-size", required_argument, NULL, OPTION_RING},
	{"all", no_argument, NULL, OPTION_ALL},
	{"optimized", no_argument, NULL, OPTION_OPTIMIZED},
	{"returns", required_argument, NULL, OPTION_RETURNS},
	{"stacks", required_argument, NULL, OPTION_STACKS},
	{"force", no_argument, NULL, OPTION_FORCE},
	{"group", required_argument, NULL, OPTION_GROUP},
	{"near", no_argument, NULL, OPTION_NEAR},
	{"watch", no_argument, NULL, OPTION_WATCH},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct parsed {
	struct pinned_attach_options options;
	char **include;
	char **exclude;
	bool help;
};

static int bad_value(const char *option, const char *value, const char *wanted)
{
	log_error("%s '%s': %s", option, value, wanted);
	return -EINVAL;
}

static int parse_ring_size(const char *text, uint64_t *bytes)
{
	if (parse_size(text, bytes) || *bytes < 4096 || *bytes > 1u << 30 || (*bytes & (*bytes - 1)))
		return bad_value("--ring-size", text, "wants a power of two from 4K to 1G, such as 8M");
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

/* Those without a value. */
static void parse_switch(struct pinned_attach_options *o, int option)
{
	switch (option) {
	case OPTION_ALL:
		o->capture.all = true;
		break;
	case OPTION_OPTIMIZED:
		o->capture.optimized = true;
		break;
	case OPTION_FORCE:
		o->capture.force = true;
		break;
	case OPTION_NEAR:
		o->near = true;
		break;
	default:
		o->watch = true;
	}
}

static int parse_one(struct parsed *parsed, int option, const char *value, char *const *argv)
{
	struct pinned_attach_options *o = &parsed->options;

	switch (option) {
	case OPTION_PIN:
		o->dir = value;
		return 0;
	case 'p':
		return parse_pid(value, &o->capture.pid) ? bad_value("-p", value, "wants a process id") : 0;
	case 'f':
		return selector_expand(value, &parsed->include, &o->capture.include_count);
	case 'N':
		return selector_expand(value, &parsed->exclude, &o->capture.exclude_count);
	case OPTION_MIN:
		return parse_duration(value, &o->capture.minimum_ns)
			       ? bad_value("--min", value, "wants a time such as 50us")
			       : 0;
	case OPTION_RING:
		return parse_ring_size(value, &o->capture.ring_bytes);
	case OPTION_RETURNS:
		return parse_returns(value, &o->capture.returns);
	case OPTION_STACKS:
		o->capture.migrate = strcmp(value, "migrate") == 0;
		return o->capture.migrate || strcmp(value, "stay") == 0
			       ? 0
			       : bad_value("--stacks", value, "wants migrate, or stay");
	case OPTION_GROUP:
		o->group = value;
		return 0;
	case 'h':
		parsed->help = true;
		return 0;
	case ':':
	case '?':
		log_error("%s %s; `scopetrace attach --help` tells more", argv[optind - 1],
			  option == ':' ? "wants a value" : "is no option");
		return -EINVAL;
	default:
		parse_switch(o, option);
		return 0;
	}
}

static int check_together(const struct pinned_attach_options *o, int argc, char **argv)
{
	const char *lacks = !o->dir			? "--pin DIR"
			    : !o->capture.pid		? "-p PID"
			    : !o->capture.include_count ? "-f PATTERN"
							: NULL;

	if (optind < argc) {
		log_error("attach: what is '%s'? `scopetrace attach --help` tells its options", argv[optind]);
		return -EINVAL;
	}
	if (!lacks)
		return 0;
	log_error("attach wants --pin DIR, -p PID and -f PATTERN; %s is not there", lacks);
	return -EINVAL;
}

static int parse(struct parsed *parsed, int argc, char **argv)
{
	int option, err;

	parsed->options.capture = (struct capture_options){.ready_fd = -1, .argc = argc, .argv = argv};
	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":p:f:N:h", long_options, NULL)) != -1) {
		err = parse_one(parsed, option, optarg, argv);
		if (err || parsed->help)
			return err;
	}
	parsed->options.capture.include = parsed->include;
	parsed->options.capture.exclude = parsed->exclude;
	return check_together(&parsed->options, argc, argv);
}

int command_attach(int argc, char **argv)
{
	struct parsed parsed = {0};
	int code = EXIT_DONE;

	if (parse(&parsed, argc, argv))
		code = EXIT_USAGE;
	else if (parsed.help)
		fputs(help, stdout);
	else if (pinned_attach(&parsed.options))
		code = EXIT_FAILED;
	selector_free_patterns(parsed.include, parsed.options.capture.include_count);
	selector_free_patterns(parsed.exclude, parsed.options.capture.exclude_count);
	return code;
}
