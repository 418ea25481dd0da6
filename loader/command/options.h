/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The options of a command as a table. Purpose: what an option is called, what it takes and where
 * its value goes stands in one row; values that several commands take are read, and refused, by the
 * same function. Owner: the command's call; stateless. Invariants: a reader writes its own field
 * alone, and has said what is wrong when it fails.
 */
#ifndef SCOPETRACE_COMMAND_OPTIONS_H
#define SCOPETRACE_COMMAND_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

struct option_row {
	const char *name;
	char letter; /* 0: it has no short form */
	int takes;   /* no_argument, required_argument, optional_argument */
	/* 0 or -errno, logged; value is NULL without one. NULL: --help, which ends the reading. */
	int (*read)(char *value, void *field);
	size_t field; /* its offset in what options_read() fills */
};

#define OPTION_ROWS_MAX 32
#define OPTION_HELP                               \
	{                                         \
		"help", 'h', no_argument, NULL, 0 \
	}

struct option_table {
	const char *command;
	const struct option_row *rows;
	size_t count;
	bool operands_end_it; /* what follows the first operand is not ours */
	/* What --help does about an option without its value, and about one that is none. */
	const char *help_on_value, *help_on_unknown;
};

#define OPTIONS_HELP 1 /* help was asked for: nothing behind it was read */

/* Into *all. 0 with optind at the first operand, OPTIONS_HELP, or -errno, logged. */
int options_read(const struct option_table *table, void *all, int argc, char **argv);

/* Says "OPTION 'VALUE': WANTED". -EINVAL. */
int option_refuse(const char *option, const char *value, const char *wanted);

/* Where a capture is to go to a terminal: -EINVAL, logged. */
int option_refuse_terminal(const char *output);

/* ---- values; the field's type behind each ---- */

int option_switch(char *value, void *on);   /* bool */
int option_text(char *value, void *text);   /* const char * */
int option_output(char *value, void *path); /* const char *; not empty */
int option_pid(char *value, void *pid);	    /* pid_t; 0 before */
int option_patterns(char *value, void *patterns);

int option_duration(char *value, void *ns);	/* uint64_t */
int option_minimum(char *value, void *ns);	/* uint64_t */
int option_ring_size(char *value, void *bytes); /* uint64_t */
int option_returns(char *value, void *mode);	/* enum return_mode */
int option_stacks(char *value, void *migrate);	/* bool */
int option_compress(char *value, void *level);	/* int */

/* int; open, and from now on closed on exec: a command that we launch must not hold it. */
int option_ready_fd(char *value, void *fd);

/* Of -f or -N, with the lines of @FILE; freed by selector_free_patterns(). */
struct option_patterns {
	char **list;
	size_t count;
};

#endif
