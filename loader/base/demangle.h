/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * C++ and Rust names for people, by libiberty, kept within bounds. Purpose: the same name in a
 * pattern, on the timeline and in the report. Stateless; any thread.
 */
#ifndef SCOPETRACE_BASE_DEMANGLE_H
#define SCOPETRACE_BASE_DEMANGLE_H

#include <stdbool.h>

/* True for what a C++ or Rust compiler made of a longer name. */
bool is_mangled(const char *symbol);

/*
 * What a person calls the function with this symbol: the C++ or Rust name with its parameters and
 * without its return type; malloc'ed. NULL if it is to be shown as it is (not mangled, out of
 * memory, or longer than 16 KiB when demangled).
 */
char *demangle(const char *symbol);

#endif
