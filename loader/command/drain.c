// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"
#include "command/pinned_drain.h"
#include "command/quantity.h"

#define DEFAULT_OUTPUT "scopetrace.scope"

static const char help[] =
	"usage: scopetrace drain --pin DIR [-o FILE] [OPTION]...\n"
	"Takes what the pinned capture in DIR traces into a file, until Ctrl-C, --duration, or the capture's end.\n"
	"May be killed at any moment and started again with another file: `scopetrace report A B C` joins them, with\n"
	"nothing lost and nothing twice. Tracing goes on without it, until the kernel's ring is full.\n\n"
	"      --pin DIR            where\n"
	"  -o, --output FILE        default " DEFAULT_OUTPUT "; an older one becomes FILE.old\n"
	"  -d, --duration TIME      2, 2s, 500ms, 1m\n"
	"      --compress[=LEVEL]   deflate the file, from 1 (fast, the default of this option) to 9 (small)\n"
	"      --ready-fd N         write a line to file descriptor N when it drains\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (another drainer is at work, the disk is full), 2 usage.\n";

enum { OPTION_PIN = 256, OPTION_COMPRESS, OPTION_READY_FD };

static const struct option long_options[] = {
	{"pin", required_argument, NULL, OPTION_PIN},
	{"output", required_argument, NULL, 'o'},
	{"duration", required_argument, NULL, 'd'},
	{"compress", optional_argument, NULL, OPTION_COMPRESS},
	{"ready-fd", required_argument, NULL, OPTION_READY_FD},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
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
	*fd = (int)number;
	return 0;
}

static int parse_one(struct pinned_drain_options *o, int option, const char *value, char *const *argv)
{
	switch (option) {
	case OPTION_PIN:
		o->dir = value;
		return 0;
	case 'o':
		o->output = value;
		return *value ? 0 : bad_value("-o", value, "wants a file name");
	case 'd':
		return parse_duration(value, &o->duration_ns)
			       ? bad_value("--duration", value, "wants a time such as 2, 2s, 500ms or 1m")
			       : 0;
	case OPTION_COMPRESS:
		o->compress = value ? value[0] - '0' : 1;
		return value && (o->compress < 1 || o->compress > 9 || value[1])
			       ? bad_value("--compress", value, "wants a level from 1 (fast) to 9 (small)")
			       : 0;
	case OPTION_READY_FD:
		return parse_ready_fd(value, &o->ready_fd);
	default:
		log_error("%s %s; `scopetrace drain --help` tells more", argv[optind - 1],
			  option == ':' ? "wants a value" : "is no option");
		return -EINVAL;
	}
}

static int check_together(const struct pinned_drain_options *o, int argc)
{
	if (!o->dir || optind < argc) {
		log_error("drain wants --pin DIR; `scopetrace drain --help` tells its options");
		return -EINVAL;
	}
	if (strcmp(o->output, "-") == 0 && isatty(STDOUT_FILENO)) {
		log_error(
			"-o -: a capture is binary, and standard output is a terminal: redirect it, or name a file");
		return -EINVAL;
	}
	return 0;
}

int command_drain(int argc, char **argv)
{
	struct pinned_drain_options options = {
		.output = DEFAULT_OUTPUT, .ready_fd = -1, .argc = argc, .argv = argv};
	int option;

	optind = 0;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":o:d:h", long_options, NULL)) != -1) {
		if (option == 'h') {
			fputs(help, stdout);
			return EXIT_DONE;
		}
		if (parse_one(&options, option, optarg, argv))
			return EXIT_USAGE;
	}
	if (check_together(&options, argc))
		return EXIT_USAGE;
	return pinned_drain(&options) ? EXIT_FAILED : EXIT_DONE;
}
