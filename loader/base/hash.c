// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static size_t slot_of(const struct hash_map *map, uint64_t key)
{
	uint64_t mixed = key * map->odds[0];
	size_t slot = (size_t)((mixed ^ mixed >> 32) * map->odds[1] >> map->shift);

	while (map->used[slot] && map->keys[slot] != key)
		slot = (slot + 1) & (map->size - 1);
	return slot;
}

/* Where the kernel gives no random numbers yet, the place of the map in memory must do. */
static void draw(struct hash_map *map)
{
	if (getrandom(map->odds, sizeof(map->odds), GRND_NONBLOCK) != sizeof(map->odds)) {
		map->odds[0] = (uintptr_t)map->keys * 0x9E3779B97F4A7C15ull;
		map->odds[1] = (uintptr_t)map->values * 0x9E3779B97F4A7C15ull;
	}
	map->odds[0] |= 1;
	map->odds[1] |= 1;
}

static int grow(struct hash_map *map)
{
	struct hash_map larger = {.size = map->size ? map->size * 2 : 16};

	larger.keys = calloc(larger.size, sizeof(*larger.keys));
	larger.values = calloc(larger.size, sizeof(*larger.values));
	larger.used = calloc(larger.size, 1);
	if (!larger.keys || !larger.values || !larger.used) {
		hash_map_clear(&larger);
		return -ENOMEM;
	}
	larger.shift = 64 - (unsigned int)__builtin_ctzll(larger.size);
	draw(&larger);
	for (size_t i = 0; i < map->size; i++) {
		if (map->used[i])
			hash_map_put(&larger, map->keys[i], map->values[i]);
	}
	hash_map_clear(map);
	*map = larger;
	return 0;
}

int hash_map_put(struct hash_map *map, uint64_t key, uint32_t value)
{
	size_t slot = map->size ? slot_of(map, key) : 0;

	if (!map->size || !map->used[slot]) {
		if ((map->count + 1) * 4 > map->size * 3) {
			int err = grow(map);

			if (err)
				return err;
			slot = slot_of(map, key);
		}
		map->used[slot] = 1;
		map->keys[slot] = key;
		map->count++;
	}
	map->values[slot] = value;
	return 0;
}

bool hash_map_get(const struct hash_map *map, uint64_t key, uint32_t *value)
{
	size_t slot;

	if (!map->size)
		return false;
	slot = slot_of(map, key);
	if (!map->used[slot])
		return false;
	*value = map->values[slot];
	return true;
}

void hash_map_clear(struct hash_map *map)
{
	free(map->keys);
	free(map->values);
	free(map->used);
	memset(map, 0, sizeof(*map));
}

uint64_t hash_bytes(const void *bytes, size_t length)
{
	const unsigned char *p = bytes;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < length; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}
