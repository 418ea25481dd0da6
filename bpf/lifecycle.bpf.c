// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ends, new programs and new names of traced threads: those that hold a list of keys; and the children of
 * traced processes. These programs run for every thread of the machine, so each first asks whether it is one
 * of those, and leaves.
 */
#include "ending.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct thread_end {
	struct thread_keys *keys;
	u64 now;
	u64 sp;		  /* of the slot that is being judged */
	u64 stack_end;	  /* of the stack that it lies on, as far as is known */
	u64 latest_above; /* time of the latest hit at a stack pointer above it, on that stack */
};

static __always_inline struct open_slot *slot_of(struct thread_keys *keys, u32 place, struct open_key *key)
{
	key->sp = keys->sp[place % MAX_THREAD_KEYS];
	key->tid = keys->tid;
	key->of_process = 0;
	return slot_find(key);
}

static long note_hit_above(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);

	if (slot && key.sp > end->sp && key.sp <= end->stack_end && slot->last_ns > end->latest_above)
		end->latest_above = slot->last_ns;
	return 0;
}

/*
 * Innermost first: a frame after whose begin a function further out on its stack was entered or returned is
 * gone; any other was still running when its thread ended. One that finds no room in the ring stays open, and
 * those further out with it: the loader finds them, or the next thread of this tid.
 */
SHARED int end_thread_frames(struct open_key *key, struct open_slot *slot, u64 latest_above, u64 now)
{
	struct ending ending = {
		.key = key, .slot = slot, .end_ns = now, .now = now, .flags = EVENT_FLAG_UNFINISHED};

	if (!key || !slot)
		return 0;
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		u32 length = slot->chain_length;
		struct open_frame *frame = FRAME(slot, length - 1);
		struct function_counters *count;

		if (!length)
			break;
		count = counters_of(frame->function);
		if (!count)
			break;
		if (frame->start_ns < latest_above)
			return end_frames(key, slot,
					  now); /* those further out in the chain began even earlier */
		if (emit_frame(&ending, frame))
			break;
		COUNT(count->unfinished);
		slot->chain_length = length - 1;
	}
	return 0;
}

static long end_slot(u32 place, struct thread_end *end)
{
	struct open_key key;
	struct open_slot *slot = slot_of(end->keys, place, &key);
	struct stack_range *stack;

	if (!slot || !slot->chain_length)
		return 0;
	if (slot->tail_ns)
		end_left_frames(&key, slot, end->now);
	if (!slot->chain_length)
		return 0;
	stack = stack_of(end->keys, key.sp);
	end->sp = key.sp;
	end->stack_end = stack ? stack->end : ~0ull;
	end->latest_above = 0;
	bpf_loop(end->keys->count, note_hit_above, end, 0);
	end_thread_frames(&key, slot, end->latest_above, end->now);
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
	end_frames(&key, slot, end->now);
	slot_drop(&key);
	return 0;
}

static __always_inline bool is_target(u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline bool is_heir(u32 tgid)
{
	return bpf_map_lookup_elem(&heirs, &tgid);
}

/* True once the last thread of the process is on its end; the first one may have ended long before. */
static __always_inline bool is_process_end(struct task_struct *task)
{
	return !task->signal->live.counter;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);
	struct thread_end end = {.keys = keys, .now = bpf_ktime_get_ns()};
	u32 tgid = task->tgid;

	if (is_process_end(task) && is_heir(tgid))
		bpf_map_delete_elem(&heirs, &tgid);
	if (!keys)
		return 0;
	bpf_loop(keys->count, end_slot, &end, 0);
	bpf_loop(keys->count, drop_ended_slot, &end, 0);
	keys->count = 0;
	emit_thread(keys, task, task->comm, EVENT_EXIT, end.now);
	return 0;
}

/* A new program: what the thread had open is gone, and it is to be announced again. */
static __noinline void renew_keys(struct thread_keys *keys, struct task_struct *task, u64 now)
{
	struct thread_end end = {.keys = keys, .now = now};

	bpf_loop(keys->count, drop_slot, &end, 0);
	keys->count = 0;
	keys->oldest = 0;
	keys->announced = 0;
	__builtin_memset(keys->stacks, 0, sizeof(keys->stacks));
	identify_thread(keys, task);
}

/*
 * `former`: the thread may have taken over its leader's tid by now, and its list still has the one that its
 * keys were made with. A process that we attached to is followed even if this thread never called anything.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, pid_t former)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);
	struct thread_ids ids = {EVENT_EXEC, task->pid, task->tgid, namespace_tid(task), former};
	u64 now = bpf_ktime_get_ns();

	if (is_heir(ids.tgid))
		bpf_map_delete_elem(&heirs, &ids.tgid);
	if (!keys && !is_target(ids.tgid))
		return 0;
	if (keys)
		renew_keys(keys, task, now);
	emit_thread_ids(&ids, task, task->comm, now);
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

/*
 * A child inherits the breakpoints, and so do its own children; one made by vfork or posix_spawn has none of
 * its own, as it runs in its parent's memory until its exec.
 */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread_ids ids = {EVENT_FORK, child->pid, child->tgid, namespace_tid(child), parent->tgid};
	bool of_target;
	u32 one = 1;

	if (ids.tgid == ids.former)
		return 0;
	of_target = is_target(ids.former);
	if (child->mm != parent->mm && (of_target || is_heir(ids.former)))
		bpf_map_update_elem(&heirs, &ids.tgid, &one, BPF_ANY);
	if (of_target)
		emit_thread_ids(&ids, child, child->comm, bpf_ktime_get_ns());
	return 0;
}
