// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/join_losses.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"

/*
 * Losses that hold one claim: each file has one of it at most, so that more are forged, and dear.
 */
#define OPEN_MOST 4096

int lost_ranges_add(struct lost_ranges *ranges, const struct lost_range *range)
{
	if (vec_grow(&ranges->items, &ranges->capacity, ranges->count))
		return -ENOMEM;
	ranges->items[ranges->count++] = *range;
	return 0;
}

static int compare_places(uint32_t place, uint64_t claim, uint32_t other_place,
			  uint64_t other_claim)
{
	if (place != other_place)
		return place < other_place ? -1 : 1;
	return (claim > other_claim) - (claim < other_claim);
}

static int by_first(const void *left, const void *right)
{
	const struct lost_range *a = left, *b = right;

	return compare_places(a->place, a->first, b->place, b->first);
}

static int by_claim(const void *left, const void *right)
{
	const struct written_claim *a = left, *b = right;

	return compare_places(a->place, a->claim, b->place, b->claim);
}

int lost_ranges_sort(struct lost_ranges *ranges)
{
	if (!ranges->count)
		return 0;
	ranges->reach = calloc(ranges->count, sizeof(*ranges->reach));
	if (!ranges->reach)
		return -ENOMEM;
	qsort(ranges->items, ranges->count, sizeof(*ranges->items), by_first);
	for (size_t i = 0; i < ranges->count; i++) {
		bool same = i && ranges->items[i - 1].place == ranges->items[i].place;
		uint64_t before = same ? ranges->reach[i - 1] : 0, end = ranges->items[i].end;

		ranges->reach[i] = end > before ? end : before;
	}
	return 0;
}

/* True if one of them begins at or before the claim, and one that does reaches beyond it. */
static bool is_lost(const struct lost_ranges *ranges, uint32_t place, uint64_t claim)
{
	size_t low;

	SEARCH_FIRST(low, ranges->count,
		     compare_places(ranges->items[low].place, ranges->items[low].first, place,
				    claim) <= 0);
	return low && ranges->items[low - 1].place == place && ranges->reach[low - 1] > claim;
}

int lost_ranges_written(struct lost_ranges *ranges, uint32_t place, uint64_t claim, size_t most)
{
	if (!is_lost(ranges, place, claim))
		return 0;
	if (ranges->written_count == most)
		return -EFBIG;
	if (vec_grow(&ranges->written, &ranges->written_capacity, ranges->written_count))
		return -ENOMEM;
	ranges->written[ranges->written_count++] = (struct written_claim){claim, place};
	return 0;
}

/* Each claim once. */
static void sort_written(struct lost_ranges *ranges)
{
	size_t kept = 0;

	if (!ranges->written_count)
		return;
	qsort(ranges->written, ranges->written_count, sizeof(*ranges->written), by_claim);
	for (size_t i = 0; i < ranges->written_count; i++)
		if (!kept || by_claim(&ranges->written[kept - 1], &ranges->written[i]) != 0)
			ranges->written[kept++] = ranges->written[i];
	ranges->written_count = kept;
}

/* A walk over all of a place's claims, from border to border of its ranges. */
struct sweep {
	struct lost_ranges *ranges;
	struct lost_range **open; /* those that hold the claim at hand */
	size_t open_count, capacity;
	size_t next;	/* range that is not begun yet */
	size_t written; /* claim that is not passed yet */
};

/* Of those that are open the last file's. */
static struct lost_range *owner(const struct sweep *sweep)
{
	struct lost_range *owner = sweep->open[0];

	for (size_t i = 1; i < sweep->open_count; i++)
		if (sweep->open[i]->file > owner->file)
			owner = sweep->open[i];
	return owner;
}

/* How many of the claims up to `end` are written. */
static uint64_t pass_written(struct sweep *sweep, uint32_t place, uint64_t from, uint64_t end)
{
	const struct lost_ranges *ranges = sweep->ranges;
	uint64_t count = 0;

	while (sweep->written < ranges->written_count) {
		const struct written_claim *written = &ranges->written[sweep->written];

		if (compare_places(written->place, written->claim, place, end) >= 0)
			break;
		count += written->place == place && written->claim >= from;
		sweep->written++;
	}
	return count;
}

/* Up to the next border; those that end there are closed. */
static void pass_claims(struct sweep *sweep, uint64_t from, uint64_t end)
{
	struct lost_range *range = owner(sweep);
	size_t kept = 0;

	range->left += end - from - pass_written(sweep, range->place, from, end);
	for (size_t i = 0; i < sweep->open_count; i++)
		if (sweep->open[i]->end > end)
			sweep->open[kept++] = sweep->open[i];
	sweep->open_count = kept;
}

/* The next border: where a range begins or ends. */
static uint64_t border(const struct sweep *sweep)
{
	const struct lost_ranges *ranges = sweep->ranges;
	uint64_t nearest = UINT64_MAX;

	for (size_t i = 0; i < sweep->open_count; i++)
		if (sweep->open[i]->end < nearest)
			nearest = sweep->open[i]->end;
	if (sweep->next < ranges->count &&
	    ranges->items[sweep->next].place == sweep->open[0]->place &&
	    ranges->items[sweep->next].first < nearest)
		nearest = ranges->items[sweep->next].first;
	return nearest;
}

static int open_range(struct sweep *sweep)
{
	if (sweep->open_count == OPEN_MOST)
		return -EFBIG;
	if (vec_grow(&sweep->open, &sweep->capacity, sweep->open_count))
		return -ENOMEM;
	sweep->open[sweep->open_count++] = &sweep->ranges->items[sweep->next++];
	return 0;
}

int lost_ranges_settle(struct lost_ranges *ranges)
{
	struct sweep sweep = {.ranges = ranges};
	uint64_t at = 0;
	int err = 0;

	sort_written(ranges);
	while (!err && (sweep.open_count || sweep.next < ranges->count)) {
		const struct lost_range *next = &ranges->items[sweep.next];

		if (!sweep.open_count)
			at = next->first;
		if (sweep.next < ranges->count && next->first == at &&
		    (!sweep.open_count || next->place == sweep.open[0]->place)) {
			err = open_range(&sweep);
		} else {
			uint64_t end = border(&sweep);

			pass_claims(&sweep, at, end);
			at = end;
		}
	}
	free(sweep.open);
	return err;
}

void lost_ranges_clear(struct lost_ranges *ranges)
{
	free(ranges->items);
	free(ranges->reach);
	free(ranges->written);
	memset(ranges, 0, sizeof(*ranges));
}
