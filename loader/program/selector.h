/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What -f and -N mean. Purpose: one syntax for all commands: NAME, a glob (* ? [..]), /regex/ (POSIX
 * extended), each with LIB: before it (a glob over base names of modules, "libc.so.6:malloc",
 * "libfoo*:*"), or demangled C++/Rust names. Without LIB: every module but libc, ld.so and the vdso
 * is looked through; a plain NAME that is found nowhere else is looked for in those too.
 */
#ifndef SCOPETRACE_PROGRAM_SELECTOR_H
#define SCOPETRACE_PROGRAM_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "program/symbol.h"

struct selector;

/* Parses `text`. NULL with errno EINVAL (logged, pointing at the column) or ENOMEM. */
struct selector *selector_parse(const char *text);
void selector_destroy(struct selector *selector); /* takes NULL */

/*
 * True if it matches this function of this module (by its raw name, an alias, or its demangled
 * name).
 */
bool selector_matches(const struct selector *selector, const struct function *function);

/* True if it names the modules it means (LIB:...). */
bool selector_names_module(const struct selector *selector);

/*
 * Appends what an -f or -N argument stands for: the argument itself, or the lines of FILE if it is
 * @FILE (without blanks around them, empty lines and # comments). *patterns is malloc'ed, as are
 * its strings. 0, or with the failure logged -errno of reading the file, -EINVAL if it holds none,
 * -ENOMEM.
 */
int selector_expand(const char *argument, char ***patterns, size_t *count);
void selector_free_patterns(char **patterns, size_t count);

#define SELECTOR_MAX_WITHOUT_ALL 1000

/*
 * The functions of `table` that any of `include` matches and none of `exclude`, each once (aliases
 * at one address are one function) and demangled, in *chosen (malloc'ed array of pointers into the
 * table, in its order). With all == false more than SELECTOR_MAX_WITHOUT_ALL is an error. 0, or
 * with the failure logged: -ENOENT an include pattern that matches nothing (the nearest names are
 * given, and why a name that exists cannot be hooked), -E2BIG too many, -EINVAL bad pattern,
 * -ENOMEM.
 */
int selector_choose(const struct symbol_table *table, char *const *include, size_t include_count,
		    char *const *exclude, size_t exclude_count, bool all,
		    const struct function ***chosen, size_t *count);

#endif
