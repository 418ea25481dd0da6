/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Losses of several files of one capture, of claims that are known. Purpose: each claim is told
 * once. A reader that was killed had told, or written, more than it had given back, so the next one
 * loses it again, with what was overwritten meanwhile. Owner: the join. Invariant: what an event is
 * written of is not lost, in whichever file it stands; of several losses of the same claim the last
 * file's stays, as the readers after it go on from there.
 */
#ifndef SCOPETRACE_FILE_JOIN_LOSSES_H
#define SCOPETRACE_FILE_JOIN_LOSSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One loss, and where its record stands. */
struct lost_range {
	uint64_t first; /* claims from here */
	uint64_t end;	/* to before this one are lost */
	uint64_t left;	/* of them nobody else tells */
	uint64_t offset;
	uint32_t record;
	uint32_t place; /* ring of a segment */
	uint32_t file;
};

struct written_claim {
	uint64_t claim;
	uint32_t place;
};

struct lost_ranges {
	struct lost_range *items;
	uint64_t *reach; /* once sorted: the greatest end so far in its place */
	size_t count, capacity;
	struct written_claim *written;
	size_t written_count, written_capacity;
};

/* 0 or -ENOMEM. */
int lost_ranges_add(struct lost_ranges *ranges, const struct lost_range *range);

/* When all are added, and before the next two. 0 or -ENOMEM. */
int lost_ranges_sort(struct lost_ranges *ranges);

/*
 * An event of this claim is in a file. 0, -ENOMEM, or -EFBIG: more than `most` lie within losses.
 */
int lost_ranges_written(struct lost_ranges *ranges, uint32_t place, uint64_t claim, size_t most);

/* Works out what is left of each. 0, -ENOMEM, or -EFBIG: thousands are of one claim. */
int lost_ranges_settle(struct lost_ranges *ranges);

void lost_ranges_clear(struct lost_ranges *ranges);

#endif
