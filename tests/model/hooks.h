/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Puts a hook before every atomic access of libscope's own code. Purpose: tests/model and tests/stress
 * compile libscope/producer.c and reader.c themselves, with this header before them, and so choose where a
 * thread is stopped; the code is the product's, to the letter. With PLAIN_STAMP or PLAIN_INCREMENT it
 * compiles a mutant, under which those tests must fail. Include it once, first, in a file that then includes
 * one of the two.
 */
#ifndef TESTS_MODEL_HOOKS_H
#define TESTS_MODEL_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "clock.h"
#include "include/scope.h"
#include "segment.h"

/* About to touch the word at `address`. */
void hook_point(const volatile void *address);
/* What was loaded from there. */
void hook_loaded(const volatile void *address, uint64_t value);
/* True if the store is done by the test, some time later. */
bool hook_delays(volatile void *address, uint64_t value);

#define __atomic_load_n(pointer, order)                                \
	({                                                             \
		hook_point(pointer);                                   \
		__auto_type loaded_ = __atomic_load_n(pointer, order); \
		hook_loaded(pointer, (uint64_t)loaded_);               \
		loaded_;                                               \
	})

#define __atomic_store_n(pointer, value, order)                    \
	do {                                                       \
		__auto_type stored_ = (value);                     \
		hook_point(pointer);                               \
		if (!hook_delays(pointer, (uint64_t)stored_))      \
			__atomic_store_n(pointer, stored_, order); \
	} while (0)

#ifdef PLAIN_INCREMENT
/* The mutant: what `cursor++` would be. */
#define __atomic_fetch_add(pointer, value, order)                              \
	({                                                                     \
		__auto_type old_ = __atomic_load_n(pointer, __ATOMIC_RELAXED); \
		__atomic_store_n(pointer, old_ + (value), __ATOMIC_RELAXED);   \
		old_;                                                          \
	})
#else
#define __atomic_fetch_add(pointer, value, order)                             \
	({                                                                    \
		hook_point(pointer);                                          \
		__auto_type old_ = __atomic_fetch_add(pointer, value, order); \
		hook_loaded(pointer, (uint64_t)old_);                         \
		old_;                                                         \
	})
#endif

#ifdef PLAIN_STAMP
/*
 * The mutant: the stamp is the claim + 1. Its reader does all that a reader could do with that: it looks at
 * the stamp again after the words, and at the cursor, whether it was lapped meanwhile.
 */
#ifdef HOOK_READER
#define scope_check(claim, word)                                                                        \
	({                                                                                              \
		(void)(word);                                                                           \
		__atomic_thread_fence(__ATOMIC_ACQUIRE);                                                \
		uint64_t again_ = __atomic_load_n(&slot->stamp, __ATOMIC_RELAXED);                      \
		uint64_t cursor_ = __atomic_load_n(&drain->ring->ring->write_cursor, __ATOMIC_RELAXED); \
		cursor_ - (claim) <= (uint64_t)mask + 1 && again_ == stamp ? (claim) + 1 : ~stamp;      \
	})
#else
#define scope_check(claim, word) ((void)(word), (claim) + 1)
#endif
#endif

#endif
