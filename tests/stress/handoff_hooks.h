/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Puts a hook before every atomic access of the hand-off's own code. Purpose: tests/stress/handoff_side.c
 * compiles loader/record/pending.c and handoff.c with this before them, so that their threads are preempted
 * between any two accesses; the code is the product's, to the letter. With PLAIN_EXCHANGE or UNORDERED it
 * compiles a mutant, under which the test must fail.
 */
#ifndef TESTS_STRESS_HANDOFF_HOOKS_H
#define TESTS_STRESS_HANDOFF_HOOKS_H

#include <stdatomic.h>

/* Now and then gives up the processor. */
void handoff_hook(void);

#ifdef UNORDERED
/* The mutant: atomic, but nothing else is ordered by it. */
#define HOOK_ORDER(order) __ATOMIC_RELAXED
#else
#define HOOK_ORDER(order) order
#endif

#undef atomic_load_explicit
#define atomic_load_explicit(pointer, order)                 \
	({                                                   \
		handoff_hook();                              \
		__atomic_load_n(pointer, HOOK_ORDER(order)); \
	})

#undef atomic_store_explicit
#define atomic_store_explicit(pointer, value, order)                 \
	do {                                                         \
		handoff_hook();                                      \
		__atomic_store_n(pointer, value, HOOK_ORDER(order)); \
	} while (0)

#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#ifdef PLAIN_EXCHANGE
/* The mutant: what an `if` and an assignment would be. */
#define HOOK_EXCHANGE(pointer, expected, desired, weak, success, failure)                  \
	({                                                                                 \
		bool same_ = __atomic_load_n(pointer, HOOK_ORDER(failure)) == *(expected); \
		handoff_hook();                                                            \
		if (same_)                                                                 \
			__atomic_store_n(pointer, desired, __ATOMIC_RELEASE);              \
		else                                                                       \
			*(expected) = __atomic_load_n(pointer, HOOK_ORDER(failure));       \
		same_;                                                                     \
	})
#else
#define HOOK_EXCHANGE(pointer, expected, desired, weak, success, failure)                          \
	({                                                                                         \
		handoff_hook();                                                                    \
		__atomic_compare_exchange_n(pointer, expected, desired, weak, HOOK_ORDER(success), \
					    HOOK_ORDER(failure));                                  \
	})
#endif
#define atomic_compare_exchange_strong_explicit(pointer, expected, desired, success, failure) \
	HOOK_EXCHANGE(pointer, expected, desired, false, success, failure)
#define atomic_compare_exchange_weak_explicit(pointer, expected, desired, success, failure) \
	HOOK_EXCHANGE(pointer, expected, desired, true, success, failure)

#endif
