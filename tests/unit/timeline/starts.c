// SPDX-License-Identifier: GPL-2.0-or-later
/* Which start a stop belongs to, and that what is kept of them grows with those that are open. */
#include "timeline/starts.h"

#include <criterion/criterion.h>

enum { DEEP = 100, ROUNDS = 2000, KEPT_MAX = 8 * DEEP };

static void push(struct starts *starts, uint64_t id)
{
	cr_assert(!starts_push(starts, id, (uint32_t)id, 0));
}

static void stop(struct starts *starts, uint64_t id)
{
	struct start start;

	cr_assert(starts_stop(starts, id, &start), "%llu is open", (unsigned long long)id);
	cr_assert_eq(start.order, (uint32_t)id);
}

static void check_kept(const struct starts *starts)
{
	cr_assert_leq(starts->capacity, KEPT_MAX);
	cr_assert_leq(starts->far.size, KEPT_MAX);
}

/* A thread whose outer scopes stay open while nests come and go inside them. */
static void nests_inside(uint64_t outer)
{
	struct starts starts = {0};
	uint64_t next = outer;

	for (uint64_t id = 0; id < outer; id++)
		push(&starts, id);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < DEEP; i++)
			push(&starts, next++);
		for (uint64_t i = 1; i <= DEEP; i++)
			stop(&starts, next - i);
		check_kept(&starts);
	}
	for (uint64_t id = 0; id < outer; id++)
		stop(&starts, id);
	cr_assert_eq(starts.open, 0);
	starts_clear(&starts);
}

Test(starts, nests_inside_one_that_stays_open)
{
	nests_inside(1);
}

Test(starts, nests_inside_many_that_stay_open)
{
	nests_inside(DEEP);
}

/* Each is stopped when the next has begun: the innermost is always open. */
Test(starts, hand_over_hand)
{
	struct starts starts = {0};

	push(&starts, 0);
	for (uint64_t id = 1; id < (uint64_t)ROUNDS * DEEP; id++) {
		push(&starts, id);
		stop(&starts, id - 1);
		check_kept(&starts);
	}
	starts_clear(&starts);
}

static uint32_t draw(uint32_t *seed, uint32_t limit)
{
	*seed = *seed * 1664525 + 1013904223;
	return (*seed >> 8) % limit;
}

/* Started and stopped in any order: as a list of those that are open has it. */
Test(starts, in_any_order)
{
	struct starts starts = {0};
	uint64_t open[DEEP * 4];
	size_t count = 0;
	uint32_t seed = 1;
	struct start start;

	for (uint64_t id = 0; id < (uint64_t)ROUNDS * DEEP; id++) {
		bool rising = id / 1000 % 2;

		if (count < DEEP * 4 && (!count || draw(&seed, 10) < (rising ? 6 : 4))) {
			push(&starts, id);
			open[count++] = id;
			continue;
		}
		size_t at = draw(&seed, (uint32_t)count);

		stop(&starts, open[at]);
		cr_assert(!starts_stop(&starts, open[at], &start), "it is stopped already");
		open[at] = open[--count];
		cr_assert_eq(starts.open, count);
	}
	starts_clear(&starts);
}
