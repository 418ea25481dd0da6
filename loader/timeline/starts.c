// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/starts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define NEAREST 64
#define SPARE	(2 * NEAREST) /* so many more than are open are kept before they are tidied up */

static void pop_stopped(struct starts *starts)
{
	while (starts->count && starts->items[starts->count - 1].stopped)
		starts->count--;
}

/* Items are stopped below one that stays open, and the table keeps what is gone. */
static bool is_untidy(const struct starts *starts)
{
	size_t limit = 2 * starts->open + SPARE;

	return starts->count > limit || starts->far.count > limit;
}

static int put_far(struct starts *starts, size_t index)
{
	if (starts->items[index].stopped)
		return 0;
	return hash_map_put(&starts->far, starts->items[index].id, (uint32_t)index);
}

static int map_names(struct starts *starts)
{
	int err = 0;

	hash_map_clear(&starts->latest);
	for (size_t i = 0; i < starts->count && !err; i++)
		err = hash_map_put(&starts->latest, starts->items[i].name, (uint32_t)i);
	return err;
}

/* Leaves what is open. It costs as much as there was, which is as many starts and stops ago. */
static int tidy(struct starts *starts)
{
	size_t kept = 0;
	int err = 0;

	for (size_t i = 0; i < starts->count; i++) {
		if (!starts->items[i].stopped)
			starts->items[kept++] = starts->items[i];
	}
	starts->count = kept;
	hash_map_clear(&starts->far);
	if (starts->latest.count)
		err = map_names(starts);
	for (size_t i = 0; i + NEAREST < kept && !err; i++)
		err = put_far(starts, i);
	return err;
}

int starts_push(struct starts *starts, uint64_t id, uint32_t order, uint32_t place)
{
	pop_stopped(starts);
	if (is_untidy(starts) && tidy(starts))
		return -ENOMEM;
	if (vec_grow(&starts->items, &starts->capacity, starts->count))
		return -ENOMEM;
	if (starts->count >= NEAREST && put_far(starts, starts->count - NEAREST))
		return -ENOMEM;
	starts->items[starts->count++] = (struct start){.id = id, .order = order, .place = place};
	starts->open++;
	return 0;
}

/*
 * The latest of the name, if it is still open, is followed by one of its name. What it has inside
 * may be stopped behind that one: each start looks for the first of that once.
 */
static void cut_latest(struct starts *starts, const struct start *next)
{
	const struct start *inside;
	struct start *start;
	uint32_t latest;
	size_t i;

	if (!hash_map_get(&starts->latest, next->name, &latest) || latest >= starts->count)
		return;
	start = &starts->items[latest];
	/* What was stopped may have left its slot to another. */
	if (start->name != next->name || start->stopped || start->cut_order)
		return;
	for (i = latest + 1; i < starts->count && starts->items[i].stopped;)
		i++;
	inside = i < starts->count ? &starts->items[i] : next;
	start->cut_ns = inside->start_ns;
	start->cut_order = inside->order;
}

int starts_push_named(struct starts *starts, const struct start *start)
{
	cut_latest(starts, start);
	if (starts_push(starts, start->id, start->order, start->place))
		return -ENOMEM;
	starts->items[starts->count - 1].name = start->name;
	starts->items[starts->count - 1].start_ns = start->start_ns;
	return hash_map_put(&starts->latest, start->name, (uint32_t)starts->count - 1);
}

static struct start *find(const struct starts *starts, uint64_t id)
{
	size_t near = starts->count < NEAREST ? starts->count : NEAREST;
	uint32_t far;

	for (size_t i = 1; i <= near; i++) {
		struct start *start = &starts->items[starts->count - i];

		if (!start->stopped && start->id == id)
			return start;
	}
	if (hash_map_get(&starts->far, id, &far) && far < starts->count &&
	    !starts->items[far].stopped && starts->items[far].id == id)
		return &starts->items[far];
	return NULL;
}

bool starts_stop(struct starts *starts, uint64_t id, struct start *start)
{
	struct start *found = find(starts, id);

	if (!found)
		return false;
	*start = *found;
	found->stopped = true;
	starts->open--;
	pop_stopped(starts);
	return true;
}

void starts_clear(struct starts *starts)
{
	free(starts->items);
	hash_map_clear(&starts->far);
	hash_map_clear(&starts->latest);
	memset(starts, 0, sizeof(*starts));
}
