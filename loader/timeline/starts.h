/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Manual scopes of one thread that were started and not yet stopped. Purpose: which start a stop
 * belongs to. Owner: one thread. Stops are looked for among the nearest of the innermost scopes;
 * those further out are found through a table. Invariant: memory grows with those that are open,
 * however many were.
 */
#ifndef SCOPETRACE_TIMELINE_STARTS_H
#define SCOPETRACE_TIMELINE_STARTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct start {
	uint64_t id;
	uint64_t start_ns;
	/*
	 * If another of its name began while it was open: where it ends should it never be stopped.
	 * That is where the other began, or what it still had inside then.
	 */
	uint64_t cut_ns;
	uint32_t cut_order; /* of that record; 0: there is none */
	uint32_t name;
	uint32_t order; /* of its record */
	uint32_t place; /* the caller's */
	bool stopped;
};

struct starts {
	struct start *items; /* innermost last; stopped ones stay until they are innermost */
	size_t count, capacity;
	size_t open;	     /* not stopped */
	struct hash_map far; /* id -> index: all that were pushed out of the nearest, and others */
	struct hash_map latest; /* name -> index of its latest start, if names are tracked */
};

/* 0 or -ENOMEM. */
int starts_push(struct starts *starts, uint64_t id, uint32_t order, uint32_t place);

/*
 * The same for a start with a name: the latest of that name, if it is still open, learns where it
 * would end. Of *start: id, start_ns, order, place, name.
 */
int starts_push_named(struct starts *starts, const struct start *start);

/* The start of this id, taken out: true and *start. */
bool starts_stop(struct starts *starts, uint64_t id, struct start *start);

/* Frees what it holds; it is empty and usable afterwards. */
void starts_clear(struct starts *starts);

#endif
