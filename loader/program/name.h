/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbol names as compilers and linkers write them. Purpose: what people call a function, from what
 * the symbol table calls it. Stateless; any thread.
 */
#ifndef SCOPETRACE_PROGRAM_NAME_H
#define SCOPETRACE_PROGRAM_NAME_H

#include <stdbool.h>
#include <stddef.h>

/* True if the first `length` bytes of `name` are one of `names`, which end with NULL. */
bool name_is_among(const char *const *names, const char *name, size_t length);

/* True if `name` matches one of these globs, which end with NULL. */
bool name_matches_any(const char *const *globs, const char *name);

/* True for a function by which a process goes on with another program. */
bool name_is_exec(const char *name, size_t length);

/* Length of the name without a symbol version ("memcpy@@GLIBC_2.14"). */
size_t name_without_version(const char *raw);

/*
 * Length without the suffixes of compiler-made clones and parts (.constprop.0, .isra.0, .part.0,
 * .llvm.123, ...).
 */
size_t name_without_clone(const char *raw);

/* True for the out-of-line cold part of a function: jumped to, never called. */
bool name_is_cold(const char *raw);

/*
 * True for a part split off by partial inlining (.part.N): called, but only on some paths through
 * its function.
 */
bool name_is_part(const char *raw);

/* Length of a demangled name without the " [clone ...]" notes behind it. */
size_t name_without_clone_note(const char *demangled);

/*
 * Length of the first `length` bytes of a demangled name without its parameter list (and what
 * follows it: const, &).
 */
size_t name_without_parameters(const char *demangled, size_t length);

/* True for what the linker adds to every program: no pattern means it, only its exact name does. */
bool name_is_start_up(const char *raw);

/*
 * Why a function of this name can never be hooked, though it has an address (it is entered without
 * a call, or keeps its return address for later); NULL for all others.
 */
const char *name_unhookable(const char *raw);

#endif
