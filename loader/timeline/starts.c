// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/starts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define NEAREST 64

static void pop_stopped(struct starts *starts)
{
	while (starts->count && starts->items[starts->count - 1].stopped)
		starts->count--;
	if (!starts->count && starts->far.count)
		hash_map_clear(&starts->far);
}

int starts_push(struct starts *starts, uint64_t id, uint32_t order, uint32_t place)
{
	pop_stopped(starts);
	if (vec_grow(&starts->items, &starts->capacity, starts->count))
		return -ENOMEM;
	if (starts->count >= NEAREST) {
		size_t index = starts->count - NEAREST;

		if (!starts->items[index].stopped &&
		    hash_map_put(&starts->far, starts->items[index].id, (uint32_t)index))
			return -ENOMEM;
	}
	starts->items[starts->count++] = (struct start){.id = id, .order = order, .place = place};
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
	if (hash_map_get(&starts->far, id, &far) && far < starts->count && !starts->items[far].stopped &&
	    starts->items[far].id == id)
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
	pop_stopped(starts);
	return true;
}

void starts_clear(struct starts *starts)
{
	free(starts->items);
	hash_map_clear(&starts->far);
	memset(starts, 0, sizeof(*starts));
}
