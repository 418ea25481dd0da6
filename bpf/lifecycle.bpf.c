// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ends, new programs and new names of traced threads: those that hold a list of keys; and the
 * children of traced processes. These programs run for every thread of the machine, so each first
 * asks whether it is one of those, and leaves.
 */
#include "ending.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define STACKS_AT_ONCE 2 /* one may lie inside another: a signal stack */
#define HEAP_LEVELS    15

_Static_assert(MAX_THREAD_KEYS + THREAD_BLOCKS * KEY_BLOCK < 1 << HEAP_LEVELS,
	       "all keys of a thread");

/* The latest hit on each stack, so far. */
struct stack_hits {
	struct {
		u64 stack_end;
		u64 ns;
	} of[STACKS_AT_ONCE];
	u64 next; /* to be given up for another stack */
};

struct thread_end {
	struct thread_keys *keys;
	u64 now;
	u64 stack_end; /* of the key before this one */
	u64 left;      /* keys that are not judged yet */
	struct stack_hits hits;
};

/*
 * Innermost first: a frame after whose begin a function further out on its stack was entered or
 * returned is gone; any other was still running when its thread ended. One that finds no room in
 * the ring stays open, and those further out with it: the loader finds them, or the next thread of
 * this tid.
 */
SHARED int end_thread_frames(struct open_key *key, struct open_slot *slot, u64 latest_above,
			     u64 now)
{
	struct ending ending = {.key = key,
				.slot = slot,
				.end_ns = now,
				.now = now,
				.flags = EVENT_FLAG_UNFINISHED};

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
					  /* those further out in the chain began even earlier */
					  now);
		if (emit_frame(&ending, frame))
			break;
		COUNT(count->unfinished);
		slot->chain_length = length - 1;
	}
	return 0;
}

/* ---- the outermost first: the list as a heap ---- */

struct sift {
	struct thread_keys *keys;
	u64 sp;
	u32 place;
	u32 count;
};

/* bpf_loop: one level further down, unless the key is at its place. */
static long sift_level(u32 level, struct sift *sift)
{
	u32 child = 2 * sift->place + 1;
	u64 highest, other;

	if (child >= sift->count)
		return 1;
	highest = listed_sp(sift->keys, child);
	other = child + 1 < sift->count ? listed_sp(sift->keys, child + 1) : 0;
	if (other > highest) {
		highest = other;
		child++;
	}
	if (highest <= sift->sp)
		return 1;
	list_sp(sift->keys, sift->place, highest);
	sift->place = child;
	return 0;
}

/* Puts a key where the one at `place` was, of the heap's `count`. */
static __noinline int sift_down(struct thread_keys *keys, u32 place, u32 count, u64 sp)
{
	struct sift sift = {keys, sp, place, count};

	bpf_loop(HEAP_LEVELS, sift_level, &sift, 0);
	return list_sp(keys, sift.place, sp);
}

static long make_heap(u32 step, struct thread_end *end)
{
	u32 place = end->left / 2 - 1 - step;

	sift_down(end->keys, place, end->left, listed_sp(end->keys, place));
	return 0;
}

static __noinline u64 take_highest(struct thread_end *end)
{
	u64 highest = listed_sp(end->keys, 0);

	end->left--;
	sift_down(end->keys, 0, end->left, listed_sp(end->keys, end->left));
	return highest;
}

/* ---- the end of a thread ---- */

/* The latest hit on a stack but for this one, of which it is told. */
SHARED u64 exchange_latest(struct stack_hits *hits, u64 stack_end, u64 ns)
{
	u64 latest = 0;
	u32 place;

	if (!hits)
		return 0;
	for (u32 i = 0; i < STACKS_AT_ONCE; i++) {
		if (hits->of[i].stack_end != stack_end)
			continue;
		latest = hits->of[i].ns;
		if (ns > latest)
			hits->of[i].ns = ns;
		return latest;
	}
	place = hits->next++ % STACKS_AT_ONCE;
	hits->of[place].stack_end = stack_end;
	hits->of[place].ns = ns;
	return 0;
}

/* What is not known to be on another stack counts as on that of the key above it. */
static __always_inline u64 stack_end_of(struct thread_end *end, const struct open_slot *slot,
					u64 sp)
{
	u64 known = slot->stack_end ? slot->stack_end : known_stack_end(end->keys, sp);

	return known ? known : end->stack_end;
}

/*
 * The key that is the outermost of those left: ends what is open there, and drops it, or leaves it
 * marked.
 */
static long end_outermost(u32 step, struct thread_end *end)
{
	struct open_key key = {.sp = take_highest(end), .tid = end->keys->tid};
	struct open_slot *slot = slot_find(&key);
	u64 latest_above;

	if (!slot)
		return 0;
	end->stack_end = stack_end_of(end, slot, key.sp);
	latest_above = exchange_latest(&end->hits, end->stack_end, slot->last_ns);
	if (slot->tail_ns)
		end_left_frames(&key, slot, end->now);
	if (slot->chain_length)
		end_thread_frames(&key, slot, latest_above, end->now);
	if (slot->chain_length) {
		slot->state |= OPEN_SLOT_ENDED;
		slot->last_ns = end->now;
	} else {
		slot_drop(&key);
	}
	return 0;
}

static long unlist(u32 step, struct thread_end *end)
{
	unlist_last(end->keys);
	return 0;
}

static __always_inline void end_keys(struct thread_keys *keys, u64 now)
{
	struct thread_end end = {.keys = keys, .now = now, .left = keys->count};

	bpf_loop(keys->count / 2, make_heap, &end, 0);
	bpf_loop(keys->count, end_outermost, &end, 0);
	bpf_loop(keys->count, unlist, &end, 0);
}

static long drop_key(u32 step, struct thread_end *end)
{
	struct open_key key = last_key(end->keys);
	struct open_slot *slot = slot_find(&key);

	if (slot) {
		end_frames(&key, slot, end->now);
		slot_drop(&key);
	}
	return unlist(step, end);
}

static __always_inline bool is_target(u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid);
}

static __always_inline bool is_heir(u32 tgid)
{
	return bpf_map_lookup_elem(&heirs, &tgid);
}

/*
 * True once the last thread of the process is on its end; the first one may have ended long before.
 */
static __always_inline bool is_process_end(struct task_struct *task)
{
	return !task->signal->live.counter;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exit, struct task_struct *task)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);
	u64 now = bpf_ktime_get_ns();
	u32 tgid = task->tgid;

	if (is_process_end(task) && is_heir(tgid))
		bpf_map_delete_elem(&heirs, &tgid);
	if (!keys)
		return 0;
	end_keys(keys, now);
	emit_thread(keys, task, task->comm, EVENT_EXIT, now);
	return 0;
}

/* A new program: what the thread had open is gone, and it is to be announced again. */
static __noinline void renew_keys(struct thread_keys *keys, struct task_struct *task, u64 now)
{
	struct thread_end end = {.keys = keys, .now = now};

	bpf_loop(keys->count, drop_key, &end, 0);
	keys->oldest = 0;
	keys->announced = 0;
	keys->stack_count = 0;
	__builtin_memset(keys->stacks, 0, sizeof(keys->stacks));
	identify_thread(keys, task);
}

/*
 * `former`: the thread may have taken over its leader's tid by now, and its list still has the one
 * that its keys were made with. A process that we attached to is followed even if this thread never
 * called anything.
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
 * A child inherits the breakpoints, and so do its own children; one made by vfork or posix_spawn
 * has none of its own, as it runs in its parent's memory until its exec.
 */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread_ids ids = {EVENT_FORK, child->pid, child->tgid, namespace_tid(child),
				 parent->tgid};
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
