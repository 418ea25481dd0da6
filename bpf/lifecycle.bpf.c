// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ends, new programs, new names and child processes of traced threads: those that hold a list of keys. These
 * programs run for every thread of the machine, so each first asks for that list and leaves.
 */
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct thread_end {
	struct thread_keys *keys;
	u64 now;
	u64 sp;		  /* of the slot that is being judged */
	u64 latest_above; /* time of the latest hit at a stack pointer above it */
};

static __always_inline struct open_slot *slot_of(struct thread_keys *keys, u32 place, struct open_key *key)
{
	key->sp = keys->sp[place % MAX_THREAD_KEYS];
	key->tid = keys->tid;
	key->reserved = 0;
	return slot_find(key);
}

static long note_hit_above(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);

	if (slot && key.sp > end->sp && slot->last_ns > end->latest_above)
		end->latest_above = slot->last_ns;
	return 0;
}

/*
 * Innermost first: a frame after whose begin a function further out was entered or returned is gone; any
 * other was still running when its thread ended. One that finds no room in the ring stays open, and those
 * further out with it: the loader finds them, or the next thread of this tid.
 */
static __noinline int end_frames(struct thread_end *end, struct open_key *key, struct open_slot *slot)
{
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		u32 length = slot->chain_length;
		struct open_frame *frame = FRAME(slot, length - 1);
		struct function_counters *count;

		if (!length)
			break;
		count = counters_of(frame->function);
		if (!count)
			break;
		if (frame->start_ns < end->latest_above) {
			COUNT(count->discarded);
		} else {
			if (emit_unfinished(key, slot, frame, end->now, end->now))
				break;
			COUNT(count->unfinished);
		}
		slot->chain_length = length - 1;
	}
	return 0;
}

static long end_slot(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);

	if (!slot || !slot->chain_length)
		return 0;
	end->sp = key.sp;
	end->latest_above = 0;
	bpf_loop(end->keys->count, note_hit_above, end, 0);
	end_frames(end, &key, slot);
	return 0;
}

/* After all are judged, since each slot is evidence on the others. */
static long drop_ended_slot(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);

	if (!slot)
		return 0;
	if (slot->chain_length) {
		slot->state |= OPEN_SLOT_ENDED;
		slot->last_ns = end->now;
		return 0;
	}
	slot_drop(&key);
	return 0;
}

static long drop_slot(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);

	if (!slot)
		return 0;
	discard_frames(slot, 0);
	slot_drop(&key);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);
	struct thread_end end = {.keys = keys, .now = bpf_ktime_get_ns()};

	if (!keys)
		return 0;
	bpf_loop(keys->count, end_slot, &end, 0);
	bpf_loop(keys->count, drop_ended_slot, &end, 0);
	keys->count = 0;
	emit_thread(keys, task, task->comm, EVENT_EXIT, end.now);
	return 0;
}

/* The thread may have taken over its leader's tid by now: the list still has the one that its keys were made
 * with. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);
	struct thread_end end = {.keys = keys, .now = bpf_ktime_get_ns()};

	if (!keys)
		return 0;
	bpf_loop(keys->count, drop_slot, &end, 0);
	keys->count = 0;
	keys->oldest = 0;
	keys->announced = 0;
	identify_thread(keys, task);
	emit_thread(keys, task, task->comm, EVENT_EXEC, end.now);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(thread_rename, struct task_struct *task, const char *comm)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);

	if (keys && keys->tid)
		emit_thread(keys, task, comm, EVENT_RENAME, bpf_ktime_get_ns());
	return 0;
}

/* A child inherits the breakpoints. Its parent's other threads are asked for by their first. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread_keys *keys;

	if (child->tgid == parent->tgid)
		return 0;
	keys = bpf_task_storage_get(&thread_keys, parent, NULL, 0);
	if (!keys && parent->group_leader)
		keys = bpf_task_storage_get(&thread_keys, parent->group_leader, NULL, 0);
	if (keys && keys->tid)
		emit_thread(keys, child, child->comm, EVENT_FORK, bpf_ktime_get_ns());
	return 0;
}
