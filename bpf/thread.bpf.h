/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is kept with a traced thread. Purpose: a list of the keys it holds slots of, so that none
 * outlives it, and the ids its records carry. Made at the thread's first key; only the thread itself changes
 * it; the kernel frees it with the thread.
 */
#ifndef SCOPETRACE_THREAD_BPF_H
#define SCOPETRACE_THREAD_BPF_H

#include "slot.bpf.h"

struct thread_keys {
	u32 count;
	u32 oldest; /* once all places are taken: the one that was filled longest ago */
	u32 tid;    /* 0 until it is known; the tid of the keys */
	u32 tgid;
	u32 namespace_tid;
	u32 announced; /* 1: its EVENT_THREAD record is in the ring */
	u64 sp[MAX_THREAD_KEYS];
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

static __noinline void identify_thread(struct thread_keys *keys, struct task_struct *task)
{
	keys->tid = task->pid;
	keys->tgid = task->tgid;
	keys->namespace_tid = namespace_tid(task);
}

#endif
