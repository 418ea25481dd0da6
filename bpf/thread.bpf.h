/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is kept with a traced thread. Purpose: a list of the keys it holds slots of, so that none
 * outlives it, and the ids its records carry. Made at the thread's first key; only the thread itself changes
 * it; the kernel frees it with the thread.
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
	u32 oldest; /* once all places are taken: the one that was filled longest ago */
	u32 tid;    /* 0 until it is known; the tid of the keys */
	u32 tgid;
	u32 namespace_tid;
	u32 announced; /* 1: its EVENT_THREAD record is in the ring */
	u64 sp[MAX_THREAD_KEYS];
	/* The mappings that they lie in: what is in two is on two stacks (fibers, signal stacks). */
	struct stack_range stacks[THREAD_STACKS];
	u64 stack_count; /* that were met */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_keys);
} thread_keys __weak SEC(".maps");

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

/* A key's stack pointer is that behind the return address, and so may be the end of the mapping. */
static __always_inline struct stack_range *stack_of(struct thread_keys *keys, u64 sp)
{
	for (u32 i = 0; i < THREAD_STACKS; i++)
		if (sp > keys->stacks[i].begin && sp <= keys->stacks[i].end)
			return &keys->stacks[i];
	return NULL;
}

static __noinline void identify_thread(struct thread_keys *keys, struct task_struct *task)
{
	keys->tid = task->pid;
	keys->tgid = task->tgid;
	keys->namespace_tid = namespace_tid(task);
}

#endif
