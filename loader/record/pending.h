/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes that a hand-off had no room for and that no record tells of yet: how many, and the time of
 * the first. Owner: one hand-off; only its writer adds, its writer and its reader may take.
 * Invariants: the time is stored before the count leaves zero, so that whoever sees a count can
 * read its time; the generation grows each time the count goes to or from zero, so that a taker who
 * read the time of an older entry fails to take the newer one, even of the same count. Progress:
 * lock-free (an add is tried again only after a take).
 */
#ifndef SCOPETRACE_RECORD_PENDING_H
#define SCOPETRACE_RECORD_PENDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define PENDING_COUNT_MAX UINT32_MAX /* the count stays here: so many, or more */

/* Zero to begin with. */
struct pending {
	_Atomic uint64_t word; /* generation << 32 | count */
	_Atomic uint64_t first_ns;
};

static inline uint32_t pending_count(uint64_t word)
{
	return (uint32_t)word;
}

/* As it stands now: to look at the count, and to name what pending_take shall take. */
uint64_t pending_load(const struct pending *pending);

/* One more, at this time. For the writer. */
void pending_add(struct pending *pending, uint64_t time_ns);

/*
 * Takes what `word`, whose count is not zero, stands for: the count is then zero, *first_ns the
 * time of its first. False if it has changed since `word` was loaded: nothing was taken.
 */
bool pending_take(struct pending *pending, uint64_t word, uint64_t *first_ns);

#endif
