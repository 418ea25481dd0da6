/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is kept with a traced thread. Purpose: a list of the keys it holds slots of, so that none
 * outlives it, and the ids its records carry. Made at the thread's first key; only the thread
 * itself changes it; the kernel frees it with the thread.
 */
#ifndef SCOPETRACE_THREAD_BPF_H
#define SCOPETRACE_THREAD_BPF_H

#include "slot.bpf.h"

#define THREAD_STACKS 8 /* of one thread that are told apart: those met last */

struct stack_range {
	u64 begin;
	u64 end;
};

struct thread_keys {
	u32 count;
	u32 oldest; /* once all places are taken: where to look first for one to give up */
	u32 tid;    /* 0 until it is known; the tid of the keys */
	u32 tgid;
	u32 namespace_tid;
	u32 announced; /* 1: its EVENT_THREAD record is in the ring */
	u64 sp[MAX_THREAD_KEYS];
	u8 blocks[THREAD_BLOCKS]; /* in key_blocks, of the places from MAX_THREAD_KEYS on */
	/*
	 * The mappings that they lie in: what is in two is on two stacks (fibers, signal stacks).
	 */
	struct stack_range stacks[THREAD_STACKS];
	u64 stack_count; /* that were met */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_keys);
} thread_keys __weak SEC(".maps");

struct key_block {
	u32 is_taken;
	u32 reserved;
	u64 sp[KEY_BLOCK];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, KEY_BLOCKS);
	__type(key, u32);
	__type(value, struct key_block);
} key_blocks __weak SEC(".maps");

_Static_assert(KEY_BLOCKS <= 256, "a u8 numbers them");
_Static_assert(2 * KEY_BLOCKS * KEY_BLOCK <= MAX_OPEN_SCOPES, "half of the room is for other keys");

/* Where the list of a thread goes on beyond its MAX_THREAD_KEYS places. */
static __always_inline struct key_block *block_of(const struct thread_keys *keys, u32 place)
{
	u32 block = keys->blocks[(place - MAX_THREAD_KEYS) / KEY_BLOCK % THREAD_BLOCKS];

	return bpf_map_lookup_elem(&key_blocks, &block);
}

/* The stack pointer at a place of the list. */
SHARED u64 listed_sp(const struct thread_keys *keys, u32 place)
{
	struct key_block *block;

	if (!keys)
		return 0;
	if (place < MAX_THREAD_KEYS)
		return keys->sp[place];
	block = block_of(keys, place);
	return block ? block->sp[(place - MAX_THREAD_KEYS) % KEY_BLOCK] : 0;
}

SHARED int list_sp(struct thread_keys *keys, u32 place, u64 sp)
{
	struct key_block *block;

	if (!keys)
		return 0;
	if (place < MAX_THREAD_KEYS) {
		keys->sp[place] = sp;
		return 0;
	}
	block = block_of(keys, place);
	if (block)
		block->sp[(place - MAX_THREAD_KEYS) % KEY_BLOCK] = sp;
	return 0;
}

/* Gives the last place of the list back, and the block that begins with it. */
static __noinline int unlist_last(struct thread_keys *keys)
{
	u32 last = keys->count - 1;
	struct key_block *block;

	keys->count = last;
	if (last < MAX_THREAD_KEYS || (last - MAX_THREAD_KEYS) % KEY_BLOCK)
		return 0;
	block = block_of(keys, last);
	if (block)
		__sync_lock_test_and_set(&block->is_taken, 0);
	return 0;
}

static __noinline u32 namespace_tid(struct task_struct *task)
{
	struct pid *pid = task->thread_pid;
	u32 tid = 0;

	if (pid)
		bpf_probe_read_kernel(&tid, sizeof(tid),
				      (void *)&pid->numbers[0].nr +
					      pid->level * bpf_core_type_size(struct upid));
	return tid;
}

/* The last of the list. */
static __always_inline struct open_key last_key(const struct thread_keys *keys)
{
	struct open_key key = {.sp = listed_sp(keys, keys->count - 1), .tid = keys->tid};

	return key;
}

/* A key's stack pointer is that behind the return address, and so may be the end of the mapping. */
SHARED u64 known_stack_end(const struct thread_keys *keys, u64 sp)
{
	if (!keys)
		return 0;
	for (u32 i = 0; i < THREAD_STACKS; i++)
		if (sp > keys->stacks[i].begin && sp <= keys->stacks[i].end)
			return keys->stacks[i].end;
	return 0;
}

static __noinline void identify_thread(struct thread_keys *keys, struct task_struct *task)
{
	keys->tid = task->pid;
	keys->tgid = task->tgid;
	keys->namespace_tid = namespace_tid(task);
}

#endif
