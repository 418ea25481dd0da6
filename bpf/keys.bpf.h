/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of keys that a thread holds. Purpose: a map that cannot fill with the dead, and no
 * loader to sweep it. Invariant: every key of a slot is in its thread's list, but for those marked
 * OPEN_SLOT_UNLISTED and those of stacks that migrate, which belong to no thread.
 */
#ifndef SCOPETRACE_KEYS_BPF_H
#define SCOPETRACE_KEYS_BPF_H

#include "ending.bpf.h"

#define KEYS_LOOKED_AT	8 /* of a full list, for a place */
#define NO_PLACE	(~0u)
#define ERROR_NOT_FOUND 2 /* ENOENT */

static long take_mapping(struct task_struct *task, struct vm_area_struct *mapping,
			 struct stack_range *range)
{
	range->begin = mapping->vm_start;
	range->end = mapping->vm_end;
	return 0;
}

/* Why the place of a key can be given to another; the best is taken, of those the oldest. */
enum place_rank {
	PLACE_RUNNING, /* not at all: its call may be running, or suspended */
	/* if all of a full list have uretprobes: at most 64 of them can ever return */
	PLACE_OLD,
	PLACE_DEEPER, /* the same, and its stack pointer is below the present one */
	PLACE_LEFT,   /* it lies deeper on the stack than the thread is now: it was left */
	PLACE_CLOSED,
};

struct place_search {
	struct thread_keys *keys;
	u64 sp; /* of the new key, and where its stack ends */
	u64 stack_end;
	u32 place;
	u32 rank;
	u32 by_exit;   /* it has met an open call whose return is seen by exits */
	u32 elsewhere; /* the first such that is on another stack; or NO_PLACE */
};

static __always_inline bool has_exits(struct open_slot *slot)
{
	return (slot->frames[0].flags | FRAME(slot, slot->chain_length - 1)->flags) &
	       OPEN_FRAME_BY_EXIT;
}

/*
 * Where the hits of a thread are on several stacks, two fibers may share one mapping: then what
 * lies deeper in the mapping may be suspended; but for what has a uretprobe, which nothing
 * suspends.
 */
static __always_inline u32 rank_of(const struct place_search *search, struct open_slot *slot,
				   u64 sp)
{
	bool is_deeper = sp < search->sp;
	bool is_left = is_deeper && slot->stack_end && slot->stack_end == search->stack_end;

	if (has_exits(slot))
		return is_left && search->keys->stack_count == 1 ? PLACE_LEFT : PLACE_RUNNING;
	if (is_left)
		return PLACE_LEFT;
	return is_deeper ? PLACE_DEEPER : PLACE_OLD;
}

/* bpf_loop: one key, from the oldest on. Ends at a closed slot. */
static long consider_place(u32 step, struct place_search *search)
{
	struct thread_keys *keys = search->keys;
	u32 place = keys->oldest + step, rank = PLACE_CLOSED;
	struct open_key key = {.tid = keys->tid};
	struct open_slot *slot;

	if (place >= keys->count)
		place -= keys->count;
	key.sp = listed_sp(keys, place);
	slot = slot_find(&key);
	if (slot && slot->chain_length) {
		rank = rank_of(search, slot, key.sp);
		search->by_exit |= has_exits(slot);
		if (search->elsewhere == NO_PLACE && has_exits(slot) &&
		    slot->stack_end != search->stack_end)
			search->elsewhere = place;
	}
	if (rank > search->rank) {
		search->rank = rank;
		search->place = place;
	}
	return rank == PLACE_CLOSED;
}

struct block_search {
	u32 first;
	u32 found;
};

static long take_block(u32 step, struct block_search *search)
{
	u32 place = (search->first + step) % KEY_BLOCKS;
	struct key_block *block = bpf_map_lookup_elem(&key_blocks, &place);

	if (!block || block->is_taken || __sync_val_compare_and_swap(&block->is_taken, 0, 1))
		return 0;
	search->found = place;
	return 1;
}

/* The place behind the last one of a list that is full, or NO_PLACE. */
static __noinline u32 lengthen_list(struct thread_keys *keys)
{
	u32 place = keys->count, block = (place - MAX_THREAD_KEYS) / KEY_BLOCK;
	struct block_search search = {.first = keys->tid + block, .found = NO_PLACE};

	if ((place - MAX_THREAD_KEYS) % KEY_BLOCK == 0) {
		if (block >= THREAD_BLOCKS)
			return NO_PLACE;
		bpf_loop(KEY_BLOCKS, take_block, &search, 0);
		if (search.found == NO_PLACE)
			return NO_PLACE;
		keys->blocks[block % THREAD_BLOCKS] = search.found;
	}
	keys->count = place + 1;
	return place;
}

/* True if there is a key at that place, and surely no memory where it points. */
static __noinline bool is_unmapped(struct thread_keys *keys, u32 place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct stack_range range;

	return place != NO_PLACE && bpf_find_vma(task, listed_sp(keys, place) - 1, take_mapping,
						 &range, 0) == -ERROR_NOT_FOUND;
}

/* Its call, if it is open, is told as left. */
static __always_inline u32 take_place(struct thread_keys *keys, u32 place)
{
	struct open_key key = {.sp = listed_sp(keys, place), .tid = keys->tid};
	struct open_slot *slot = slot_find(&key);

	if (slot && slot->chain_length)
		end_frames(&key, slot, bpf_ktime_get_ns());
	slot_drop(&key);
	keys->oldest = place + 1 < keys->count ? place + 1 : 0;
	return place;
}

/*
 * A place in a list without a free one. A few are looked at, for one whose slot is closed; if there
 * are open calls that are seen to return by exits, of which any number may be running or suspended,
 * the list grows. Where it cannot, only what was surely left gives way, or there is none: a call
 * that runs is never given up.
 */
SHARED u32 find_place(struct thread_keys *keys, u64 sp, u64 stack_end)
{
	struct place_search search = {.keys = keys,
				      .sp = sp,
				      .stack_end = stack_end,
				      .place = NO_PLACE,
				      .elsewhere = NO_PLACE};
	bool may_run;
	u32 longer;

	if (!keys)
		return NO_PLACE;
	if (keys->oldest >= keys->count)
		keys->oldest = 0;
	bpf_loop(KEYS_LOOKED_AT, consider_place, &search, 0);
	may_run = search.by_exit || keys->count > MAX_THREAD_KEYS;
	if (search.rank < PLACE_CLOSED && may_run) {
		longer = lengthen_list(keys);
		if (longer != NO_PLACE)
			return longer;
	}
	if (search.rank < PLACE_CLOSED && keys->count <= MAX_THREAD_KEYS)
		bpf_loop(MAX_THREAD_KEYS, consider_place, &search, 0);
	if (search.rank < PLACE_LEFT && (may_run || search.by_exit))
		search.place = is_unmapped(keys, search.elsewhere) ? search.elsewhere : NO_PLACE;
	if (search.place != NO_PLACE)
		return take_place(keys, search.place);
	keys->oldest =
		keys->oldest + KEYS_LOOKED_AT < keys->count ? keys->oldest + KEYS_LOOKED_AT : 0;
	return NO_PLACE;
}

/* Puts a key into the list: its place, or NO_PLACE. */
static __always_inline u32 list_key(struct thread_keys *keys, u64 sp, u64 stack_end)
{
	u32 place = keys->count;

	if (place < MAX_THREAD_KEYS)
		keys->count = place + 1;
	else
		place = find_place(keys, sp, stack_end);
	if (place != NO_PLACE)
		list_sp(keys, place, sp);
	return place;
}

/*
 * Remembers the mapping of a new key, and tells where its stack ends. What overlaps a known one
 * above it is that one, grown; what lies above the end of a known one is another, though they share
 * a mapping.
 */
SHARED u64 add_stack(struct thread_keys *keys, u64 begin, u64 end, u64 sp)
{
	u64 grown = 0;

	if (!keys)
		return 0;
	for (u32 i = 0; i < THREAD_STACKS; i++) {
		u64 known = keys->stacks[i].end;

		if (known < sp && known > begin)
			begin = known;
		else if (known >= sp && keys->stacks[i].begin < end && (!grown || known < grown))
			grown = known;
	}
	if (!grown) {
		keys->stacks[keys->stack_count++ % THREAD_STACKS] =
			(struct stack_range){begin, end};
		return end;
	}
	for (u32 i = 0; i < THREAD_STACKS; i++)
		if (keys->stacks[i].end == grown)
			keys->stacks[i].begin = begin;
	return grown;
}

/* The end of the stack on which a new key lies; 0: the kernel cannot look just now. */
static __noinline u64 note_stack(struct thread_keys *keys, struct task_struct *task, u64 sp)
{
	struct stack_range range = {};
	u64 signal_stack = task->sas_ss_sp, signal_stack_size = task->sas_ss_size;
	u64 known = known_stack_end(keys, sp);

	if (sp > signal_stack && sp - signal_stack <= signal_stack_size)
		return signal_stack + signal_stack_size;
	if (known)
		return known;
	if (bpf_find_vma(task, sp - 1, take_mapping, &range, 0))
		return 0;
	return add_stack(keys, range.begin, range.end, sp);
}

/*
 * The list of the current thread, made and announced at its first key. NULL when the kernel cannot
 * make one just now: another thread was preempted while it was making its own.
 */
static __noinline struct thread_keys *keys_of_thread(struct task_struct *task, u64 now)
{
	struct thread_keys *keys =
		bpf_task_storage_get(&thread_keys, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!keys)
		return NULL;
	if (!keys->tid)
		identify_thread(keys, task);
	if (!keys->announced)
		keys->announced = !emit_thread(keys, task, task->comm, EVENT_THREAD, now);
	return keys;
}

#endif
