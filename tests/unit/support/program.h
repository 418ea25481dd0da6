/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of loader/program/ share: real programs, run and looked at. Each failure in here
 * fails the test.
 */
#ifndef SCOPETRACE_TESTS_TARGET_SUPPORT_H
#define SCOPETRACE_TESTS_TARGET_SUPPORT_H

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "program/symbol.h"

/* A program started with --wait-go, which has printed its pid and waits. */
struct running {
	pid_t pid;
	int in;
	int out;
};

/*
 * Path of a built target, from SCOPETRACE_TARGETS, $O/targets or build/targets; static until the
 * next call.
 */
const char *target_path(const char *name);

struct running running_start(const char *path);
void running_stop(struct running *running); /* kills and reaps it */

/* A fresh directory, removed when the test's process ends. */
const char *scratch(void);

/* Runs a shell command (formatted) that must succeed. */
void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From here on what is written to stderr is kept, for messages(). */
void keep_messages(void);
const char *messages(void); /* all of it so far */

/*
 * The function of this raw name or alias in a module of this base name (NULL: any but the C
 * library). Or NULL.
 */
const struct function *find_function(const struct symbol_table *table, const char *base,
				     const char *name);
size_t count_functions(const struct symbol_table *table, const char *base, const char *name);

/* `length` bytes of the file or of the process's memory. */
void file_bytes(const char *path, uint64_t offset, void *bytes, size_t length);
void memory_bytes(pid_t pid, uint64_t address, void *bytes, size_t length);

/* What the process added to the addresses in this file when it mapped it. */
uint64_t load_bias(pid_t pid, const struct module *module);

/* Waits until the condition is true; fails the test after ten seconds. */
void wait_until(bool (*condition)(void *context), void *context);

#endif
