// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/arena.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 256 * 1024 };

struct arena_block {
	struct arena_block *older;
	size_t used;
	size_t size;
	char bytes[];
};

static struct arena_block *block_with_room(struct arena *arena, size_t size)
{
	size_t bytes = size > BLOCK_BYTES ? size : BLOCK_BYTES;
	struct arena_block *block = arena->newest;

	if (block && block->size - block->used >= size)
		return block;
	block = malloc(sizeof(*block) + bytes);
	if (!block)
		return NULL;
	block->older = arena->newest;
	block->used = 0;
	block->size = bytes;
	arena->newest = block;
	return block;
}

void *arena_alloc(struct arena *arena, size_t size)
{
	size_t rounded = (size + sizeof(void *) - 1) & ~(sizeof(void *) - 1);
	struct arena_block *block = block_with_room(arena, rounded);
	char *p;

	if (!block)
		return NULL;
	p = block->bytes + block->used;
	block->used += rounded;
	return p;
}

char *arena_copy(struct arena *arena, const char *text, size_t length)
{
	char *copy = arena_alloc(arena, length + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}

void arena_close(struct arena *arena)
{
	while (arena->newest) {
		struct arena_block *older = arena->newest->older;

		free(arena->newest);
		arena->newest = older;
	}
}
