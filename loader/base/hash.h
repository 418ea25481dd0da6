/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hash map from 64-bit keys to 32-bit values, and a hash of bytes. Purpose: indexes into arrays
 * (names, lanes, functions). Open addressing, linear probing, at most three quarters full. Where a
 * key goes depends on numbers drawn for each map: who chooses the keys, as a hostile file does,
 * cannot choose many for one place. One owner, no locking.
 */
#ifndef SCOPETRACE_BASE_HASH_H
#define SCOPETRACE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_map {
	uint64_t *keys;
	uint32_t *values;
	uint8_t *used;
	size_t count;
	size_t size;	    /* a power of two, or 0 before the first insertion */
	uint64_t odds[2];   /* drawn by lot */
	unsigned int shift; /* 64 less the bits of an index */
};

/* Stores value under key, over an older one. 0 or -ENOMEM. */
int hash_map_put(struct hash_map *map, uint64_t key, uint32_t value);

/* True and *value when key is there. */
bool hash_map_get(const struct hash_map *map, uint64_t key, uint32_t *value);

/* Frees what the map holds; it is empty and usable afterwards. */
void hash_map_clear(struct hash_map *map);

/* FNV-1a over the bytes (constants: Fowler, Noll, Vo). */
uint64_t hash_bytes(const void *bytes, size_t length);

#endif
