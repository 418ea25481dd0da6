/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exit sites of a group of functions, as one link takes them. Purpose: each instruction once,
 * whoever's it is, and its description in the map `exit_sites`. Owner: a probe session, while it
 * attaches.
 */
#ifndef SCOPETRACE_PROBE_EXIT_H
#define SCOPETRACE_PROBE_EXIT_H

#include "probe/attach.h"
#include "probe/link.h"

/* The first place of each function's exits in the map; `first[count]` is the number of all. */
struct exit_places {
	uint32_t *first;
	size_t count;
};

/*
 * Also for functions whose exits are not hooked now, so that a place stays what it is when return
 * modes are switched. 0, -ENOMEM, or -E2BIG when there are more than `most` in all (logged).
 */
int exit_places_make(struct exit_places *places, const struct probe_function *functions,
		     size_t count, size_t most);
void exit_places_clear(struct exit_places *places);

/* Place + 1 of the exit that is the instruction under the function's own entry probe; 0: there is none. It
 * has no probe of its own: the entry's program does its work, so that the two come in the right order. */
uint32_t exit_places_entry(const struct exit_places *places, const struct probe_function *function,
			   uint32_t id);

struct exit_table {
	size_t count;
	unsigned long *offsets; /* ascending */
	unsigned long long *cookies;
	int *refused;
	struct exit_owner *owners; /* by offset, several of one site one after another */
	size_t owner_count;
};

/*
 * The sites of `functions[ids[i]]` for those i that are not refused, written into `map`. 0 or
 * -errno; clear it whatever it returns.
 */
int exit_table_make(struct exit_table *table, const struct exit_places *places,
		    const struct probe_function *functions, const uint32_t *ids, const int *refused,
		    size_t count, uint32_t generation, int map);
void exit_table_clear(struct exit_table *table);

/*
 * After a link has marked sites as refused: so are the functions that have one of them, with its
 * reason.
 */
void exit_table_refuse_owners(const struct exit_table *table, int *refused);

#endif
