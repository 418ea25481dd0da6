/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Growing arrays. Purpose: the three lines of realloc that every list needs, written once. The
 * owner keeps a pointer, a count and a capacity; nothing here is shared between threads.
 */
#ifndef SCOPETRACE_BASE_VEC_H
#define SCOPETRACE_BASE_VEC_H

#include <stddef.h>

/*
 * Makes room for `wanted` elements of `size` bytes in *items, at least doubling *capacity when it
 * grows. Returns 0, or -ENOMEM with everything as it was.
 */
int vec_reserve(void **items, size_t *capacity, size_t wanted, size_t size);

/*
 * Room for one more element behind `count`: vec_grow(&v->items, &v->capacity, v->count). 0 or
 * -ENOMEM.
 */
#define vec_grow(items, capacity, count) \
	vec_reserve((void **)(items), (capacity), (size_t)(count) + 1, sizeof(**(items)))

#endif
