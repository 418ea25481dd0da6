// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "command/command.h"
#include "command/options.h"
#include "pinned/drain.h"

#define DEFAULT_OUTPUT "scopetrace.scope"

static const char help[] =
	"usage: scopetrace drain --pin DIR [-o FILE] [OPTION]...\n"
	"Takes what the pinned capture in DIR traces into a file, until Ctrl-C, --duration, or the capture's end.\n"
	"May be killed at any moment and started again, by the same command too: `scopetrace report FILE*` joins the\n"
	"files, with nothing lost and nothing twice. Tracing goes on without it, until the kernel's ring is full.\n\n"
	"      --pin DIR            where\n"
	"  -o, --output FILE        default " DEFAULT_OUTPUT "; an older one becomes FILE.1, or\n"
	"                           the first of FILE.2, FILE.3 ... that is free\n"
	"  -d, --duration TIME      2, 2s, 500ms, 1m\n"
	"      --compress[=LEVEL]   deflate the file, from 1 (fast, the default of this option) to 9 (small)\n"
	"      --ready-fd N         write a line to file descriptor N when it drains\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (another drainer is at work, the disk is full), 2 usage.\n";

#define FIELD(name) offsetof(struct pinned_drain_options, name)

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, FIELD(dir)},
	{"output", 'o', required_argument, option_output, FIELD(output)},
	{"duration", 'd', required_argument, option_duration, FIELD(duration_ns)},
	{"compress", 0, optional_argument, option_compress, FIELD(compress)},
	{"ready-fd", 0, required_argument, option_ready_fd, FIELD(ready_fd)},
	OPTION_HELP,
};

static const struct option_table table = {"drain", rows, sizeof(rows) / sizeof(*rows),
					  false,   NULL, NULL};

static int check_together(const struct pinned_drain_options *o, int argc)
{
	if (!o->dir || optind < argc) {
		log_error("drain wants --pin DIR; `scopetrace drain --help` tells its options");
		return -EINVAL;
	}
	return option_refuse_terminal(o->output);
}

int command_drain(int argc, char **argv)
{
	struct pinned_drain_options options = {
		.output = DEFAULT_OUTPUT, .ready_fd = -1, .argc = argc, .argv = argv};
	int err = options_read(&table, &options, argc, argv);

	if (err == OPTIONS_HELP) {
		fputs(help, stdout);
		return EXIT_DONE;
	}
	if (err || check_together(&options, argc))
		return EXIT_USAGE;
	return pinned_drain(&options) ? EXIT_FAILED : EXIT_DONE;
}
