// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include <criterion/criterion.h>

#include "base/vec.h"

/* Under AddressSanitizer too, too much memory is an answer and not the end. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "allocator_may_return_null=1";
}

Test(vec, grows_and_keeps)
{
	uint64_t *items = NULL;
	size_t capacity = 0;

	for (size_t i = 0; i < 10000; i++) {
		size_t before = capacity;

		cr_assert(!vec_grow(&items, &capacity, i));
		cr_assert_gt(capacity, i);
		cr_assert(capacity == before || capacity >= 2 * before, "it at least doubles");
		items[i] = i;
	}
	for (size_t i = 0; i < 10000; i++)
		cr_assert_eq(items[i], i);
	free(items);
}

Test(vec, reserve_what_is_there_does_nothing)
{
	uint32_t *items = NULL;
	size_t capacity = 0;
	void *before;

	cr_assert(!vec_reserve((void **)&items, &capacity, 100, sizeof(*items)));
	cr_assert_geq(capacity, 100);
	before = items;
	cr_assert(!vec_reserve((void **)&items, &capacity, 100, sizeof(*items)));
	cr_assert_eq(items, before);
	free(items);
}

/* Too much: -ENOMEM, and everything as it was. */
Test(vec, too_much)
{
	uint64_t *items = NULL;
	size_t capacity = 0, kept;

	cr_assert(!vec_grow(&items, &capacity, 0));
	items[0] = 42;
	kept = capacity;
	cr_assert_eq(vec_reserve((void **)&items, &capacity, SIZE_MAX / 4, sizeof(*items)),
		     -ENOMEM);
	cr_assert_eq(vec_reserve((void **)&items, &capacity, SIZE_MAX / 8, sizeof(*items)),
		     -ENOMEM);
	cr_assert_eq(vec_reserve((void **)&items, &capacity, SIZE_MAX, sizeof(*items)), -ENOMEM);
	cr_assert_eq(capacity, kept);
	cr_assert_eq(items[0], 42);
	free(items);
}
