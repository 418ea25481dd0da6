// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/pending.h"

#include <assert.h>

static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a signal handler writes it");

/* The next generation, with this count. */
static uint64_t next_generation(uint64_t word, uint32_t count)
{
	return ((word >> 32) + 1) << 32 | count;
}

uint64_t pending_load(const struct pending *pending)
{
	/* Acquire: pairs with the release of pending_add, before which the time was stored. */
	return atomic_load_explicit(&pending->word, memory_order_acquire);
}

void pending_add(struct pending *pending, uint64_t time_ns)
{
	/*
	 * Acquire: pairs with the release of pending_take, which has read the time that is now
	 * replaced.
	 */
	uint64_t word = atomic_load_explicit(&pending->word, memory_order_acquire);

	while (pending_count(word)) {
		if (pending_count(word) == PENDING_COUNT_MAX)
			return;
		/* Fails if the reader takes it meanwhile; then it begins anew below. */
		if (atomic_compare_exchange_strong_explicit(&pending->word, &word, word + 1,
							    memory_order_release,
							    memory_order_acquire))
			return;
	}
	/* Nobody but us changes a count of zero. */
	atomic_store_explicit(&pending->first_ns, time_ns, memory_order_relaxed);
	/* Release: pairs with the acquire of pending_load. */
	atomic_store_explicit(&pending->word, next_generation(word, 1), memory_order_release);
}

bool pending_take(struct pending *pending, uint64_t word, uint64_t *first_ns)
{
	/* It may be the time of a later entry: then the exchange fails, by its generation. */
	*first_ns = atomic_load_explicit(&pending->first_ns, memory_order_relaxed);
	/* Release: pairs with the acquire of pending_add. */
	return atomic_compare_exchange_strong_explicit(&pending->word, &word,
						       next_generation(word, 0),
						       memory_order_acq_rel, memory_order_relaxed);
}
