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
	memset(starts, 0, sizeof(*starts));
}
