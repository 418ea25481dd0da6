// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "command/command.h"
#include "command/options.h"
#include "pinned/attach.h"
#include "program/selector.h"

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

struct parsed {
	struct pinned_attach_options options;
	struct option_patterns include;
	struct option_patterns exclude;
};

#define FIELD(name) offsetof(struct parsed, name)

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, FIELD(options.dir)},
	{"pid", 'p', required_argument, option_pid, FIELD(options.pid)},
	{"function", 'f', required_argument, option_patterns, FIELD(include)},
	{"exclude", 'N', required_argument, option_patterns, FIELD(exclude)},
	{"min", 0, required_argument, option_minimum, FIELD(options.minimum_ns)},
	{"ring-size", 0, required_argument, option_ring_size, FIELD(options.ring_bytes)},
	{"all", 0, no_argument, option_switch, FIELD(options.plan.all)},
	{"optimized", 0, no_argument, option_switch, FIELD(options.plan.optimized)},
	{"returns", 0, required_argument, option_returns, FIELD(options.plan.returns)},
	{"stacks", 0, required_argument, option_stacks, FIELD(options.plan.migrate)},
	{"force", 0, no_argument, option_switch, FIELD(options.plan.force)},
	{"group", 0, required_argument, option_text, FIELD(options.group)},
	{"near", 0, no_argument, option_switch, FIELD(options.near)},
	{"watch", 0, no_argument, option_switch, FIELD(options.watch)},
	OPTION_HELP,
};

static const struct option_table table = {"attach", rows, sizeof(rows) / sizeof(*rows),
					  false,    NULL, NULL};

static int check_together(const struct pinned_attach_options *o, int argc, char **argv)
{
	const char *lacks = !o->dir		     ? "--pin DIR"
			    : !o->pid		     ? "-p PID"
			    : !o->plan.include_count ? "-f PATTERN"
						     : NULL;

	if (optind < argc) {
		log_error("attach: what is '%s'? `scopetrace attach --help` tells its options",
			  argv[optind]);
		return -EINVAL;
	}
	if (!lacks)
		return 0;
	log_error("attach wants --pin DIR, -p PID and -f PATTERN; %s is not there", lacks);
	return -EINVAL;
}

/* 0, OPTIONS_HELP or -errno, logged. */
static int parse(struct parsed *parsed, int argc, char **argv)
{
	struct plan_options *plan = &parsed->options.plan;
	int err = options_read(&table, parsed, argc, argv);

	if (err)
		return err;
	plan->include = parsed->include.list;
	plan->include_count = parsed->include.count;
	plan->exclude = parsed->exclude.list;
	plan->exclude_count = parsed->exclude.count;
	return check_together(&parsed->options, argc, argv);
}

int command_attach(int argc, char **argv)
{
	struct parsed parsed = {0};
	int err = parse(&parsed, argc, argv), code = EXIT_DONE;

	if (err == OPTIONS_HELP)
		fputs(help, stdout);
	else if (err)
		code = EXIT_USAGE;
	else if (pinned_attach(&parsed.options))
		code = EXIT_FAILED;
	selector_free_patterns(parsed.include.list, parsed.include.count);
	selector_free_patterns(parsed.exclude.list, parsed.exclude.count);
	return code;
}
