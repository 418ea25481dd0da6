// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const struct hash_map *map, uint64_t key)
{
	size_t slot = (size_t)((key * 0x9E3779B97F4A7C15ull) >> 20) & (map->size - 1);

	while (map->used[slot] && map->keys[slot] != key)
		slot = (slot + 1) & (map->size - 1);
	return slot;
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
	size_t slot;

	if ((map->count + 1) * 4 > map->size * 3) {
		int err = grow(map);

		if (err)
			return err;
	}
	slot = slot_of(map, key);
	if (!map->used[slot]) {
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
