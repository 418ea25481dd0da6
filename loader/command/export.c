// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"
#include "command/joined.h"
#include "sink/output.h"
#include "sink/sink.h"

#define DEFAULT_FILE "scopetrace.scope"

static const char help[] =
	"usage: scopetrace export [FILE]... -t FORMAT [-o OUT]\n"
	"Writes a capture (default: " DEFAULT_FILE
	") in another format. Several files of one pinned\n"
	"capture, as its drainers left them, are read as one.\n\n"
	"  -t, --to FORMAT   one of those below\n"
	"  -o, --output OUT  a file, which appears only when it is whole; - (the default) "
	"is standard output\n"
	"  -h, --help\n\n"
	"Formats:\n";

static const char help_end[] = "\nExit status: 0 done, 1 failed, 2 usage.\n";

static const struct option long_options[] = {
	{"to", required_argument, NULL, 't'},
	{"output", required_argument, NULL, 'o'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

struct export_options {
	const struct sink *sink;
	const char *file;
	char *const *files; /* of one capture, if there are several */
	size_t more;	    /* how many then; else 0 */
	const char *output;
	bool help;
};

static void print_formats(FILE *out)
{
	for (const struct sink *sink = sinks; sink->name; sink++)
		fprintf(out, "  %-10s %s (%s)\n", sink->name, sink->help, sink->extension);
}

static int parse_option(int option, char **argv, struct export_options *options)
{
	switch (option) {
	case 't':
		options->sink = sink_find(optarg);
		if (options->sink)
			return 0;
		log_error("--to %s: there is no such format; these are:", optarg);
		print_formats(stderr);
		return -EINVAL;
	case 'o':
		options->output = optarg;
		return 0;
	case 'h':
		options->help = true;
		return 0;
	case ':':
		log_error("export: %s wants a value; see `scopetrace export --help`",
			  argv[optind - 1]);
		return -EINVAL;
	default:
		if (optopt > 0 && optopt < 256) /* one letter, perhaps among others */
			log_error("export: there is no option -%c; see `scopetrace export --help`",
				  optopt);
		else
			log_error("export: there is no option %s; see `scopetrace export --help`",
				  argv[optind - 1]);
		return -EINVAL;
	}
}

/* What is only wrong in combination. */
static int check_options(const struct export_options *options)
{
	if (!options->sink) {
		log_error("export: which format? Give -t with one of these:");
		print_formats(stderr);
		return -EINVAL;
	}
	if (options->sink->binary && strcmp(options->output, "-") == 0 && isatty(STDOUT_FILENO)) {
		log_error("export: %s is binary and not for a terminal; give it a file: -o trace%s",
			  options->sink->name, options->sink->extension);
		return -EINVAL;
	}
	return 0;
}

static int parse(int argc, char **argv, struct export_options *options)
{
	int option;

	opterr = 0;
	optind = 0;
	while ((option = getopt_long(argc, argv, ":t:o:h", long_options, NULL)) != -1) {
		if (parse_option(option, argv, options))
			return -EINVAL;
	}
	if (options->help)
		return 0;
	options->more = argc - optind > 1 ? (size_t)(argc - optind) : 0;
	options->files = argv + optind;
	if (optind < argc)
		options->file = argv[optind];
	return check_options(options);
}

static bool same_file(const char *left, const char *right)
{
	struct stat a, b;

	return stat(left, &a) == 0 && stat(right, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static void say_failure(const char *path, int err)
{
	const char *cure = "";

	/* whoever reads a pipe may stop when it has seen enough */
	if (err == -EPIPE || err == -EBADMSG)
		return;
	if (err == -ENOSPC || err == -EDQUOT)
		cure = "; make room there, or choose another place with -o";
	else if (err == -EACCES || err == -EPERM || err == -EROFS || err == -ENOENT ||
		 err == -EISDIR)
		cure = "; choose another place with -o";
	log_error("cannot write %s: %s%s", strcmp(path, "-") ? path : "to standard output",
		  strerror(-err), cure);
}

static int write_timeline(const struct timeline *timeline, const struct export_options *options)
{
	const struct sink_options sink_options = {0};
	struct output *output = output_open(options->output);
	int err;

	if (!output)
		return -errno;
	err = options->sink->write(timeline, output_stream(output), &sink_options);
	if (!err)
		return output_commit(output);
	output_discard(output);
	return err;
}

int command_export(int argc, char **argv)
{
	struct export_options options = {.file = DEFAULT_FILE, .output = "-"};
	struct timeline *timeline;
	int err;

	if (parse(argc, argv, &options))
		return EXIT_USAGE;
	if (options.help) {
		fputs(help, stdout);
		print_formats(stdout);
		fputs(help_end, stdout);
		return EXIT_DONE;
	}
	if (same_file(options.file, options.output)) {
		log_error("export: %s is the capture itself; choose another file with -o",
			  options.output);
		return EXIT_USAGE;
	}
	timeline = options.more ? joined_open(options.files, options.more)
				: timeline_open(options.file);
	if (!timeline)
		return EXIT_FAILED;
	err = write_timeline(timeline, &options);
	if (err)
		say_failure(options.output, err);
	else if (timeline->truncated)
		log_warning(
			"%s was cut short: exported up to its last whole chunk, at byte %llu, %.6f s after its start; what came later is missing",
			options.file, (unsigned long long)timeline->truncated_at,
			(double)(timeline->end_ns - timeline->start_ns) / 1e9);
	timeline_close(timeline);
	return err ? EXIT_FAILED : EXIT_DONE;
}
