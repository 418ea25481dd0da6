/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Strings that live and die together. Purpose: the names of a symbol table, a million of them,
 * without a million frees. One owner; what it gave stays where it is until arena_close.
 */
#ifndef SCOPETRACE_PROGRAM_ARENA_H
#define SCOPETRACE_PROGRAM_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
	struct arena_block *newest;
};

/* Aligned for a pointer; NULL when memory is out. */
void *arena_alloc(struct arena *arena, size_t size);

/* A copy of the first `length` bytes of text, NUL-terminated; NULL when memory is out. */
char *arena_copy(struct arena *arena, const char *text, size_t length);

void arena_close(struct arena *arena); /* takes a zeroed one too */

#endif
