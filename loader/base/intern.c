// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static bool entry_equals(const struct intern *table, uint32_t id, const char *bytes, size_t length)
{
	const struct intern_entry *entry = &table->entries[id - 1];

	return entry->length == length && !memcmp(table->bytes + entry->offset, bytes, length);
}

/* Appends the string under `key`. Nothing has changed when it fails. */
static int add(struct intern *table, uint64_t key, const char *bytes, size_t length, uint32_t *id)
{
	int err;

	if (table->count >= UINT32_MAX - 1)
		return -EOVERFLOW;
	err = vec_grow(&table->entries, &table->entry_capacity, table->count);
	if (!err)
		err = vec_reserve((void **)&table->bytes, &table->byte_capacity,
				  table->byte_count + length, 1);
	if (!err)
		err = hash_map_put(&table->ids, key, (uint32_t)table->count + 1);
	if (err)
		return err;
	memcpy(table->bytes + table->byte_count, bytes, length);
	table->entries[table->count].offset = table->byte_count;
	table->entries[table->count].length = length;
	table->byte_count += length;
	table->count++;
	*id = (uint32_t)table->count;
	return 0;
}

int intern_put(struct intern *table, const char *bytes, size_t length, uint32_t *id, bool *added)
{
	uint64_t key;

	*added = false;
	*id = 0;
	if (!length)
		return 0;
	key = hash_bytes(bytes, length);
	while (hash_map_get(&table->ids, key, id)) {
		if (entry_equals(table, *id, bytes, length))
			return 0;
		key++;
	}
	*added = true;
	return add(table, key, bytes, length, id);
}

void intern_clear(struct intern *table)
{
	hash_map_clear(&table->ids);
	free(table->entries);
	free(table->bytes);
	memset(table, 0, sizeof(*table));
}
