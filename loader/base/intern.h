/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A table of distinct strings. Purpose: each name once in a capture, told by a small number. Owner:
 * one thread. Invariants: ids start at 1 and follow one another; id 0 is the empty string; an id
 * never changes.
 */
#ifndef SCOPETRACE_BASE_INTERN_H
#define SCOPETRACE_BASE_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct intern_entry {
	uint64_t offset;
	size_t length;
};

struct intern {
	struct hash_map ids; /* hash of the bytes -> id; a colliding string has a later key */
	struct intern_entry *entries;
	size_t count;
	size_t entry_capacity;
	char *bytes;
	size_t byte_count;
	size_t byte_capacity;
};

/* What is done with each id that somebody holds; it may be changed. */
typedef void (*intern_visitor)(void *context, uint32_t *id);

/* *id of the string, which is added (*added) when it is new. Any bytes. 0, -ENOMEM, or -EOVERFLOW after 2^32
 * strings. */
int intern_put(struct intern *table, const char *bytes, size_t length, uint32_t *id, bool *added);

/* Frees what the table holds; it is empty and usable afterwards. */
void intern_clear(struct intern *table);

#endif
