// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/command.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static const struct command commands[] = {
	{"record", command_record, "capture a process, or a command, into a file"},
	{"report", command_report, "per function: calls, total, self, percentiles"},
	{"export", command_export, "write a capture as perfetto or csv"},
	{"functions", command_functions, "what a pattern matches in a process or binary"},
	{"attach", command_attach, "hook functions and leave: pinned in a BPF file system"},
	{"drain", command_drain, "take what a pinned capture has traced into a file"},
	{"set", command_set, "change a pinned capture while it runs"},
	{"status", command_status, "how a pinned capture stands, and what is open now"},
	{"detach", command_detach, "end a pinned capture"},
	{NULL, NULL, NULL},
};

static void print_help(FILE *out)
{
	fputs("usage: scopetrace COMMAND [OPTION]...\n"
	      "What a process is doing, call by call: functions hooked by name in a running program,\n"
	      "and the scopes its authors wrote with libscope, on one timeline.\n\n",
	      out);
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-10s %s\n", c->name, c->help);
	fputs("\n`scopetrace COMMAND --help` tells a command's options; `man scopetrace` the rest.\n"
	      "First steps:\n"
	      "  scopetrace functions -p PID 'render*'\n"
	      "  sudo scopetrace record -p PID -f 'render*' --duration 2s\n"
	      "  scopetrace report\n",
	      out);
}

static const struct command *find(const char *name)
{
	for (const struct command *c = commands; c->name; c++) {
		if (strcmp(c->name, name) == 0)
			return c;
	}
	return NULL;
}

int command_main(int argc, char **argv)
{
	const struct command *command;

	if (argc < 2) {
		print_help(stderr);
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0) {
		command = argc > 2 ? find(argv[2]) : NULL;
		if (command)
			return command->run(2, (char *[]){argv[2], "--help", NULL});
		print_help(stdout);
		return EXIT_DONE;
	}
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
		puts("scopetrace " SCOPETRACE_VERSION);
		return EXIT_DONE;
	}
	command = find(argv[1]);
	if (!command) {
		log_error("there is no command '%s'; `scopetrace --help` lists them", argv[1]);
		return EXIT_USAGE;
	}
	return command->run(argc - 1, argv + 1);
}
