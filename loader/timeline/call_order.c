// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/call_order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define DIGIT_BITS 11
#define DIGITS	   (1u << DIGIT_BITS)
#define FEW	   64 /* not worth the counting */

/*
 * By start; the outer before the inner: it ends later or, ending at the same time, was completed
 * later.
 */
static int outer_first(const void *a, const void *b)
{
	const struct raw_call *x = a, *y = b;
	uint64_t x_end = x->flags & SCOPE_FLAG_UNFINISHED ? UINT64_MAX : x->end_ns;
	uint64_t y_end = y->flags & SCOPE_FLAG_UNFINISHED ? UINT64_MAX : y->end_ns;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x_end != y_end)
		return x_end > y_end ? -1 : 1;
	return x->order > y->order ? -1 : 1;
}

/* One digit of the keys, the lowest first; the order of equal digits stays. */
static void sort_digit(const struct call_key *from, struct call_key *to, size_t count,
		       unsigned shift)
{
	size_t at[DIGITS] = {0}, sum = 0;

	for (size_t i = 0; i < count; i++)
		at[from[i].start >> shift & (DIGITS - 1)]++;
	for (size_t i = 0; i < DIGITS; i++) {
		size_t here = at[i];

		at[i] = sum;
		sum += here;
	}
	for (size_t i = 0; i < count; i++)
		to[at[from[i].start >> shift & (DIGITS - 1)]++] = from[i];
}

/* Calls with the same start are put in order among themselves. */
static void sort_equals(struct raw_call *calls, size_t count)
{
	for (size_t first = 0, end; first < count; first = end) {
		end = first + 1;
		while (end < count && calls[end].start_ns == calls[first].start_ns)
			end++;
		if (end - first > 1)
			qsort(calls + first, end - first, sizeof(*calls), outer_first);
	}
}

static int reserve(struct call_room *room, size_t count)
{
	if (vec_reserve((void **)&room->calls, &room->call_capacity, count, sizeof(*room->calls)))
		return -ENOMEM;
	for (int i = 0; i < 2; i++) {
		if (vec_reserve((void **)&room->keys[i], &room->key_capacity[i], count,
				sizeof(*room->keys[i])))
			return -ENOMEM;
	}
	return 0;
}

static int sort_many(struct raw_call *calls, size_t count, uint64_t least, uint64_t most,
		     struct call_room *room)
{
	struct call_key *keys, *other;

	if (reserve(room, count))
		return -ENOMEM;
	keys = room->keys[0];
	other = room->keys[1];
	for (size_t i = 0; i < count; i++)
		keys[i] = (struct call_key){calls[i].start_ns - least, (uint32_t)i};
	for (unsigned shift = 0; shift < 64 && (most - least) >> shift; shift += DIGIT_BITS) {
		struct call_key *sorted = other;

		sort_digit(keys, other, count, shift);
		other = keys;
		keys = sorted;
	}
	memcpy(room->calls, calls, count * sizeof(*calls));
	for (size_t i = 0; i < count; i++)
		calls[i] = room->calls[keys[i].index];
	sort_equals(calls, count);
	return 0;
}

int call_order(struct raw_call *calls, size_t count, struct call_room *room)
{
	uint64_t least = UINT64_MAX, most = 0;
	bool sorted = true;

	for (size_t i = 0; i < count; i++) {
		least = calls[i].start_ns < least ? calls[i].start_ns : least;
		most = calls[i].start_ns > most ? calls[i].start_ns : most;
		sorted = sorted && (!i || outer_first(&calls[i - 1], &calls[i]) < 0);
	}
	if (sorted)
		return 0;
	if (count < FEW || count > UINT32_MAX) {
		qsort(calls, count, sizeof(*calls), outer_first);
		return 0;
	}
	return sort_many(calls, count, least, most, room);
}

void call_room_clear(struct call_room *room)
{
	free(room->calls);
	free(room->keys[0]);
	free(room->keys[1]);
	memset(room, 0, sizeof(*room));
}
