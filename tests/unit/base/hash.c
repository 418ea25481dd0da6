// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>

#include <criterion/criterion.h>

#include "base/hash.h"

Test(hash, empty)
{
	struct hash_map map = {0};
	uint32_t value = 7;

	cr_assert(!hash_map_get(&map, 0, &value));
	cr_assert_eq(value, 7, "left alone when nothing is there");
	hash_map_clear(&map);
}

/* Keys in runs, in multiples (as ids are handed out), and all of their bits. */
Test(hash, puts_and_gets)
{
	static const uint64_t factors[] = {
		1, 4, 4096, 1ull << 32, 0x100000001ull, 0x9E3779B97F4A7C15ull};

	for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
		struct hash_map map = {0};
		uint32_t value;

		for (uint32_t i = 0; i < 20000; i++)
			cr_assert(!hash_map_put(&map, i * factors[f], i));
		cr_assert_eq(map.count, 20000);
		cr_assert_leq(map.count * 4, map.size * 3);
		for (uint32_t i = 0; i < 20000; i++) {
			cr_assert(hash_map_get(&map, i * factors[f], &value));
			cr_assert_eq(value, i);
		}
		cr_assert(!hash_map_get(&map, 20000 * factors[f], &value));
		hash_map_clear(&map);
	}
}

/*
 * Keys that all go to one place in a map whose numbers are known: each would be looked for among
 * all.
 */
Test(hash, keys_chosen_by_an_enemy, .timeout = 20)
{
	const uint64_t inverse = 0xF1DE83E19937733Dull; /* of 0x9E3779B97F4A7C15, modulo 2^64 */
	struct hash_map map = {0};
	uint32_t value;

	for (uint32_t i = 0; i < 300000; i++)
		cr_assert(!hash_map_put(&map, inverse * ((uint64_t)i << 40), i));
	for (uint32_t i = 0; i < 300000; i++)
		cr_assert(hash_map_get(&map, inverse * ((uint64_t)i << 40), &value) && value == i);
	hash_map_clear(&map);
}

/* Two maps are not alike, or what was learnt of one would be good for the other. */
Test(hash, maps_differ)
{
	struct hash_map a = {0}, b = {0};
	size_t same = 0;

	for (uint32_t i = 0; i < 1000; i++)
		cr_assert(!hash_map_put(&a, i, i) && !hash_map_put(&b, i, i));
	for (size_t i = 0; i < a.size; i++)
		same += a.used[i] && b.used[i] && a.keys[i] == b.keys[i];
	cr_assert_lt(same, 500);
	hash_map_clear(&a);
	hash_map_clear(&b);
}

/* As who goes through a map tells those in it anew. */
Test(hash, no_growth_without_a_new_key)
{
	struct hash_map map = {0};

	for (uint32_t i = 0; i < 12; i++)
		cr_assert(!hash_map_put(&map, i, i));
	cr_assert_eq(map.size, 16);
	cr_assert(!hash_map_put(&map, 5, 6));
	cr_assert_eq(map.size, 16);
	hash_map_clear(&map);
}

Test(hash, the_later_value_stays)
{
	struct hash_map map = {0};
	uint32_t value;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint64_t key = 0; key < 1000; key++)
			cr_assert(!hash_map_put(&map, key, round));
	}
	cr_assert_eq(map.count, 1000);
	for (uint64_t key = 0; key < 1000; key++)
		cr_assert(hash_map_get(&map, key, &value) && value == 2);
	hash_map_clear(&map);
	cr_assert(!hash_map_get(&map, 1, &value), "empty when cleared");
	cr_assert(!hash_map_put(&map, 1, 9), "and usable");
	cr_assert(hash_map_get(&map, 1, &value) && value == 9);
	hash_map_clear(&map);
}

/* Fowler, Noll and Vo's own test vectors. */
Test(hash, bytes)
{
	cr_assert_eq(hash_bytes("", 0), 0xcbf29ce484222325ull);
	cr_assert_eq(hash_bytes("a", 1), 0xaf63dc4c8601ec8cull);
	cr_assert_eq(hash_bytes("foobar", 6), 0x85944171f73967e8ull);
}
