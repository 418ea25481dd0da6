/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The subcommands. Purpose: options are parsed here and nowhere else; each returns the exit code of
 * the program.
 */
#ifndef SCOPETRACE_COMMAND_COMMAND_H
#define SCOPETRACE_COMMAND_COMMAND_H

#define SCOPETRACE_VERSION "0.1.0"

/* Exit codes: 0 done, 1 failed, 2 usage. `record -- COMMAND` gives the command's, or 125 when the capture
 * failed. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CAPTURE_FAILED = 125 };

/* Dispatches argv[1]; knows --help and --version. */
int command_main(int argc, char **argv);

/* Each gets argv from its own name on (argv[0] = "record"). */
int command_record(int argc, char **argv);
int command_report(int argc, char **argv);
int command_export(int argc, char **argv);
int command_functions(int argc, char **argv);
int command_attach(int argc, char **argv);
int command_drain(int argc, char **argv);
int command_set(int argc, char **argv);
int command_status(int argc, char **argv);
int command_detach(int argc, char **argv);

#endif
