/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The slot of a (tid, stack pointer). Purpose: find, make and drop it without saying in which of
 * its two maps it is. Invariants: a key has one slot at most; only its own thread makes, changes
 * and drops it (or the program that runs at that thread's end). Progress: wait-free but for the
 * kernel's own locks of the HASH.
 */
#ifndef SCOPETRACE_SLOT_BPF_H
#define SCOPETRACE_SLOT_BPF_H

#include "maps.bpf.h"

/* 2^64 / phi: neighbours go far apart in the upper bits */
#define GOLDEN_RATIO 0x9E3779B97F4A7C15ull
#define TID_SHIFT    20 /* above the bits in which the stack pointers of one thread differ */

_Static_assert((NEAR_SCOPES & (NEAR_SCOPES - 1)) == 0, "masked below");

static __always_inline struct near_slot *near_place(const struct open_key *key)
{
	u64 mixed = ((key->sp >> 3) + ((u64)key->tid << TID_SHIFT)) * GOLDEN_RATIO;
	u32 place = (mixed >> 40) & (NEAR_SCOPES - 1);

	return bpf_map_lookup_elem(&near_scopes, &place);
}

/*
 * Only the thread itself writes its tid into a place, so no other can take a half-made slot for its
 * own.
 */
static __always_inline bool is_of(const struct near_slot *near, const struct open_key *key)
{
	return near->key.sp == key->sp && near->key.tid == key->tid;
}

static __always_inline struct open_slot *slot_find(const struct open_key *key)
{
	struct near_slot *near = near_place(key);

	if (near && is_of(near, key))
		return &near->slot;
	return bpf_map_lookup_elem(&open_scopes, key);
}

/* For a key that has none. 0, or non-zero when there is no room. */
static __always_inline long slot_make(const struct open_key *key, const struct open_slot *slot)
{
	struct near_slot *near = near_place(key);
	struct pairing_settings *set = current_settings();

	/* The setting is asked for here, where it costs a thread's first calls, and not where it finds its
	 * slots. A place of the ARRAY is safe among threads only because no other has the same key.tid. */
	if (!near || near->key.tid || key->of_process || (set && set->flags & SETTING_HASH_ONLY) ||
	    __sync_val_compare_and_swap(&near->key.tid, 0, key->tid))
		return bpf_map_update_elem(&open_scopes, key, slot, BPF_NOEXIST);
	near->key.sp = key->sp;
	near->slot = *slot;
	return 0;
}

static __always_inline void slot_drop(const struct open_key *key)
{
	struct near_slot *near = near_place(key);

	if (near && is_of(near, key))
		/* A full barrier: pairs with the exchange in slot_make, by which another thread takes the
		 * place. */
		__sync_lock_test_and_set(&near->key.tid, 0);
	else
		bpf_map_delete_elem(&open_scopes, key);
}

#endif
