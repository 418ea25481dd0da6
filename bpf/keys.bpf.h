/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The list of keys that a thread holds. Purpose: a map that cannot fill with the dead, and no loader to sweep
 * it. Invariant: every key of a slot is in its thread's list, but for those marked OPEN_SLOT_UNLISTED and
 * those of stacks that migrate, which belong to no thread.
 */
#ifndef SCOPETRACE_KEYS_BPF_H
#define SCOPETRACE_KEYS_BPF_H

#include "ending.bpf.h"

struct eviction {
	struct thread_keys *keys;
	u64 sp;
	u32 victim;
	u32 found_deeper;
};

/* bpf_loop: one key, from the oldest on. Ends at a closed slot; else remembers the first that is surely gone.
 */
static long consider_victim(u32 step, struct eviction *eviction)
{
	struct thread_keys *keys = eviction->keys;
	u32 place = (keys->oldest + step) % MAX_THREAD_KEYS;
	struct open_key key = {.sp = keys->sp[place], .tid = keys->tid};
	struct open_slot *slot = slot_find(&key);

	if (!slot || !slot->chain_length) {
		eviction->victim = place;
		return 1;
	}
	if (!eviction->found_deeper && key.sp < eviction->sp) {
		eviction->victim = place;
		eviction->found_deeper = 1;
	}
	return 0;
}

/*
 * Frees a place in a full list: the oldest closed slot. If all are open then at most 64 of their frames can
 * ever return and the others were abandoned: the oldest that lies deeper than the stack is now, or else the
 * oldest.
 */
static __noinline u32 evict_key(struct thread_keys *keys, u64 sp)
{
	struct eviction eviction = {.keys = keys, .sp = sp, .victim = keys->oldest};
	struct open_key key = {.tid = keys->tid};
	struct open_slot *slot;

	bpf_loop(MAX_THREAD_KEYS, consider_victim, &eviction, 0);
	key.sp = keys->sp[eviction.victim % MAX_THREAD_KEYS];
	slot = slot_find(&key);
	if (slot && slot->chain_length)
		end_frames(&key, slot, bpf_ktime_get_ns());
	slot_drop(&key);
	keys->oldest = (eviction.victim + 1) % MAX_THREAD_KEYS;
	return eviction.victim;
}

SHARED int list_key(struct thread_keys *keys, u64 sp)
{
	u32 place;

	if (!keys)
		return 0;
	place = keys->count;
	if (place < MAX_THREAD_KEYS)
		keys->count = place + 1;
	else
		place = evict_key(keys, sp);
	keys->sp[place % MAX_THREAD_KEYS] = sp;
	return 0;
}

static long take_mapping(struct task_struct *task, struct vm_area_struct *mapping, struct stack_range *range)
{
	range->begin = mapping->vm_start;
	range->end = mapping->vm_end;
	return 0;
}

/*
 * Remembers on which stack a new key lies. One that overlaps a known one is that, grown. If the kernel cannot
 * look just now, it is not known.
 */
static __noinline void note_stack(struct thread_keys *keys, struct task_struct *task, u64 sp)
{
	struct stack_range range = {};

	if (stack_of(keys, sp) || bpf_find_vma(task, sp - 1, take_mapping, &range, 0))
		return;
	for (u32 i = 0; i < THREAD_STACKS; i++) {
		struct stack_range *known = &keys->stacks[i];

		if (range.begin >= known->end || known->begin >= range.end)
			continue;
		known->begin = range.begin < known->begin ? range.begin : known->begin;
		known->end = range.end > known->end ? range.end : known->end;
		return;
	}
	keys->stacks[keys->stack_count++ % THREAD_STACKS] = range;
}

/*
 * The list of the current thread, made and announced at its first key. NULL when the kernel cannot make one
 * just now: another thread was preempted while it was making its own.
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
