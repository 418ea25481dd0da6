// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"
#include "command/joined.h"
#include "sink/escape.h"
#include "sink/report.h"
#include "sink/sink.h"

#define DEFAULT_FILE "scopetrace.scope"

static const char help[] =
	"usage: scopetrace report [FILE]... [OPTION]...\n"
	"Prints each function of a capture (default: " DEFAULT_FILE
	"): calls, total and self time, percentiles;\n"
	"then the threads, what was lost, and whether the numbers add up. Several files of one pinned capture, as\n"
	"its drainers left them, are read as one.\n\n"
	"  -s, --sort KEY    total (default), self, calls, mean, p50, p90, p99, max, min, name\n"
	"  -u, --unit UNIT   all times in ns, us or ms; default: each in the unit that reads best\n"
	"      --json        one JSON object instead, times in ns\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed or the numbers do not add up, 2 usage.\n";

enum { OPTION_JSON = 256 };

static const struct option long_options[] = {
	{"sort", required_argument, NULL, 's'},
	{"unit", required_argument, NULL, 'u'},
	{"json", no_argument, NULL, OPTION_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct report_options {
	struct sink_options sink;
	const char *file;
	char *const *files; /* of one capture, if there are several */
	size_t more;	    /* how many then; else 0 */
	bool json;
	bool help;
};

/* 0, or -EINVAL, logged. */
static int parse_unit(const char *text, enum time_unit *unit)
{
	static const char *const units[] = {[UNIT_NS] = "ns", [UNIT_US] = "us", [UNIT_MS] = "ms"};

	for (int i = UNIT_NS; i <= UNIT_MS; i++) {
		if (strcmp(text, units[i]) == 0) {
			*unit = (enum time_unit)i;
			return 0;
		}
	}
	log_error("--unit %s: there is no such unit; it is ns, us or ms", text);
	return -EINVAL;
}

static int parse_option(int option, char **argv, struct report_options *options)
{
	switch (option) {
	case 's':
		if (report_sort_known(optarg)) {
			options->sink.sort = optarg;
			return 0;
		}
		log_error("--sort %s: there is no such key; it is one of %s", optarg,
			  REPORT_SORT_KEYS);
		return -EINVAL;
	case 'u':
		return parse_unit(optarg, &options->sink.unit);
	case OPTION_JSON:
		options->json = true;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case ':':
		log_error("report: %s wants a value; see `scopetrace report --help`",
			  argv[optind - 1]);
		return -EINVAL;
	default:
		if (optopt > 0 && optopt < 256) /* one letter, perhaps among others */
			log_error("report: there is no option -%c; see `scopetrace report --help`",
				  optopt);
		else
			log_error("report: there is no option %s; see `scopetrace report --help`",
				  argv[optind - 1]);
		return -EINVAL;
	}
}

static int parse(int argc, char **argv, struct report_options *options)
{
	int option;

	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":s:u:h", long_options, NULL)) != -1) {
		if (parse_option(option, argv, options))
			return -EINVAL;
	}
	options->more = argc - optind > 1 ? (size_t)(argc - optind) : 0;
	options->files = argv + optind;
	options->file = optind < argc ? argv[optind] : DEFAULT_FILE;
	options->sink.colour =
		isatty(STDOUT_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
	return 0;
}

static void say_unbalanced(const struct timeline *timeline, const char *file)
{
	char *reason = escape_text(timeline->accounting.imbalance);

	if (timeline->truncated)
		log_error("%s was cut short after byte %llu, so its numbers cannot add up; record "
			  "again, and let `scopetrace record` end by itself",
			  file, (unsigned long long)timeline->truncated_at);
	else
		log_error("%s: its numbers do not add up: %s", file, reason ? reason : "");
	free(reason);
}

int command_report(int argc, char **argv)
{
	struct report_options options = {0};
	struct timeline *timeline;
	int err, status = EXIT_DONE;

	if (parse(argc, argv, &options))
		return EXIT_USAGE;
	if (options.help) {
		fputs(help, stdout);
		return EXIT_DONE;
	}
	timeline = options.more ? joined_open(options.files, options.more)
				: timeline_open(options.file);
	if (!timeline)
		return EXIT_FAILED;
	err = (options.json ? report_json : report_text)(timeline, stdout, &options.sink);
	/* Whoever reads a pipe may stop when it has seen enough. */
	if (err && err != -EPIPE && err != -EBADMSG)
		log_error("cannot write the report: %s", strerror(-err));
	/* A report that was printed still fails when the capture's numbers do not add up. */
	if (!err && (timeline->truncated || !timeline->accounting.balanced)) {
		say_unbalanced(timeline, options.file);
		status = EXIT_FAILED;
	}
	timeline_close(timeline);
	return err ? EXIT_FAILED : status;
}
