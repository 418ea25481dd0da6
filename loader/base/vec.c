// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/vec.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

int vec_reserve(void **items, size_t *capacity, size_t wanted, size_t size)
{
	size_t grown = *capacity * 2;
	void *moved;

	if (wanted <= *capacity)
		return 0;
	if (grown < wanted)
		grown = wanted;
	if (grown < 8)
		grown = 8;
	if (size && grown > SIZE_MAX / size)
		return -ENOMEM;
	moved = realloc(*items, grown * size);
	if (!moved)
		return -ENOMEM;
	*items = moved;
	*capacity = grown;
	return 0;
}
