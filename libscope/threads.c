// SPDX-License-Identifier: BSD-2-Clause
#include "threads.h"

#include "platform.h"

/* An entry: thread id (22 bits, all that Linux gives out), copy (20), start time (22). Zero: free. */
enum { TID_BITS = 22, COPY_BITS = 20, START_BITS = 22, PROBES = 32 };

static uint64_t low_bits(uint64_t value, unsigned bits)
{
	return value & ((1ull << bits) - 1);
}

static uint64_t make_entry(uint32_t tid, const void *copy, uint64_t start)
{
	return low_bits(tid, TID_BITS) << (COPY_BITS + START_BITS) |
	       low_bits((uintptr_t)copy >> 6, COPY_BITS) << START_BITS | low_bits(start, START_BITS);
}

static uint64_t tid_of(uint64_t entry)
{
	return entry >> (COPY_BITS + START_BITS);
}

static bool same_life(uint64_t entry, uint64_t mine)
{
	bool same_copy = low_bits(entry >> START_BITS, COPY_BITS) == low_bits(mine >> START_BITS, COPY_BITS);

	return !same_copy && low_bits(mine, START_BITS) &&
	       low_bits(entry, START_BITS) == low_bits(mine, START_BITS);
}

bool scope_threads_enter(struct scope_header *header, uint32_t tid, const void *copy)
{
	uint64_t *entries = (uint64_t *)((char *)header + header->threads_offset);
	uint64_t mine = make_entry(tid, copy, scope_platform_thread_start());
	uint32_t first = scope_ring_of(tid, SCOPE_THREAD_ENTRIES);

	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t *at = &entries[(first + i) % SCOPE_THREAD_ENTRIES];
		uint64_t entry = __atomic_load_n(at, __ATOMIC_RELAXED);

		if (!entry &&
		    __atomic_compare_exchange_n(at, &entry, mine, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return false;
		if (tid_of(entry) != tid_of(mine))
			continue;
		if (same_life(entry, mine))
			return true;
		/* Of a dead thread; nobody else has this id now. */
		__atomic_store_n(at, mine, __ATOMIC_RELAXED);
		return false;
	}
	/* Full: the dead have filled this stretch. */
	__atomic_store_n(&entries[first], mine, __ATOMIC_RELAXED);
	return false;
}
