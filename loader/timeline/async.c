// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/async.h"

#include <errno.h>
#include <stdlib.h>

#include "timeline/durations.h"

static int by_slice(const void *a, const void *b)
{
	const struct async_half *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static bool same_slice(const struct async_half *a, const struct async_half *b)
{
	return a->pid == b->pid && a->name == b->name && a->id == b->id;
}

static int by_start(const void *a, const void *b)
{
	const struct async_slice *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

/*
 * The halves of one process, name and id, in order of time. Slices that are open are at the end of
 * `open`.
 */
static void pair_group(struct timeline *timeline, const struct async_half *halves, size_t count,
		       size_t *open)
{
	size_t open_count = 0;

	for (size_t i = 0; i < count; i++) {
		if (halves[i].begins) {
			open[open_count++] = timeline->async_count;
			timeline->asyncs[timeline->async_count++] = (struct async_slice){
				halves[i].time_ns, timeline->end_ns, halves[i].id,
				halves[i].pid,	   halves[i].name,   SCOPE_FLAG_UNFINISHED,
			};
		} else if (open_count) {
			struct async_slice *slice = &timeline->asyncs[open[--open_count]];

			slice->end_ns = halves[i].time_ns;
			slice->flags = 0;
		} else {
			timeline->async_orphans++;
		}
	}
}

int async_pair(struct timeline *timeline, struct async_half *halves, size_t count)
{
	size_t *open = malloc((count + 1) * sizeof(*open));

	timeline->asyncs = malloc((count + 1) * sizeof(*timeline->asyncs));
	if (!open || !timeline->asyncs) {
		free(open);
		return -ENOMEM;
	}
	if (count)
		qsort(halves, count, sizeof(*halves), by_slice);
	for (size_t first = 0, end; first < count; first = end) {
		end = first + 1;
		while (end < count && same_slice(&halves[first], &halves[end]))
			end++;
		pair_group(timeline, halves + first, end - first, open);
	}
	qsort(timeline->asyncs, timeline->async_count, sizeof(*timeline->asyncs), by_start);
	free(open);
	return 0;
}

int timeline_asyncs(const struct timeline *timeline, struct async_statistics **statistics,
		    size_t *count)
{
	struct durations durations = {0};
	int err = 0;

	*count = 0;
	*statistics = calloc(timeline->async_count + 1, sizeof(**statistics));
	if (!*statistics)
		return -ENOMEM;
	for (size_t first = 0, end; first < timeline->async_count && !err; first = end) {
		struct async_statistics *one = &(*statistics)[(*count)++];

		one->pid = timeline->asyncs[first].pid;
		one->name = timeline->asyncs[first].name;
		for (end = first;
		     !err && end < timeline->async_count && timeline->asyncs[end].pid == one->pid &&
		     timeline->asyncs[end].name == one->name;
		     end++) {
			const struct async_slice *slice = &timeline->asyncs[end];

			if (slice->flags & SCOPE_FLAG_UNFINISHED)
				one->unfinished++;
			else
				err = durations_add(&durations, slice->end_ns - slice->start_ns);
		}
		durations_summary(&durations, &one->finished);
		durations_clear(&durations);
	}
	if (err) {
		free(*statistics);
		*statistics = NULL;
	}
	return err;
}
