/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames are opened in the slot of their key. Purpose: what both ways of seeing a return share.
 * Owner: the thread whose key it is (see slot.bpf.h).
 */
#ifndef SCOPETRACE_FRAMES_BPF_H
#define SCOPETRACE_FRAMES_BPF_H

#include "keys.bpf.h"

/* ---- chains: frames that share a stack pointer ---- */

/* The chain's last function has returned, now, and so have those that jumped to it. */
static __noinline int return_from_chain(struct open_key *key, struct open_slot *slot, u64 now)
{
	slot->tail_ns = now;
	return end_left_frames(key, slot, now);
}

/*
 * True if the frame's function may run into `setting`'s, whose entry lies inside another: its code
 * begins before it and overlaps it, or what overlaps it. `caller`, unless it is 0, is the low half
 * of the address that the entry returns to: whoever runs on keeps it.
 */
static __noinline bool may_run_into(struct open_frame *frame, struct function_setting *setting,
				    u32 caller)
{
	struct function_setting *outer = setting_of(frame->function);

	if (!outer || !setting || (caller && frame->detail != caller))
		return false;
	return outer->overlap == setting->overlap && outer->address < setting->address;
}

/*
 * True if the entry of `function` at `ip` continues the chain: the innermost frame jumped to that
 * function, to wherever between its beginning and the probe, or runs into it.
 */
static __noinline bool continues_chain(struct open_slot *slot, u32 function, u64 ip, u32 caller)
{
	struct open_frame *top = FRAME(slot, slot->chain_length - 1);
	struct function_setting *setting = setting_of(function);

	if (!setting || !(top->flags & OPEN_FRAME_BY_EXIT))
		return false;
	if (slot->tail_ns)
		return slot->tail_target == function + 1 ||
		       ip - slot->tail_target <= setting->distance;
	return setting->flags & FUNCTION_INSIDE && may_run_into(top, setting, caller);
}

/* An entry, not by way of the kernel's trampoline, at a key that has open frames. */
static __noinline int settle_before_entry(struct open_key *key, struct open_slot *slot,
					  u32 function, u64 ip, u32 caller)
{
	if (!continues_chain(slot, function, ip, caller))
		return end_frames(key, slot, slot->last_ns);
	slot->tail_ns = 0;
	return 0;
}

/* ---- opening ---- */

/* A frame at a key that has no slot yet. */
static __noinline int open_new_slot(struct open_key *key, struct task_struct *task,
				    const struct open_frame *frame)
{
	struct function_counters *count = counters_of(frame->function);
	struct thread_keys *keys = keys_of_thread(task, frame->start_ns);
	struct open_slot slot = {.chain_length = 1, .last_ns = frame->start_ns};
	u32 place = NO_PLACE;

	if (!count)
		return 0;
	slot.tgid = task->tgid;
	slot.namespace_tid = keys ? keys->namespace_tid : namespace_tid(task);
	slot.cpu = bpf_get_smp_processor_id();
	slot.frames[0] = *frame;
	if (key->of_process)
		keys = NULL;
	else if (!keys)
		slot.state = OPEN_SLOT_UNLISTED;
	if (keys) {
		slot.stack_end = note_stack(keys, task, key->sp);
		/* First, since it may free the room for the slot. */
		place = list_key(keys, key->sp, slot.stack_end);
		if (place == NO_PLACE) {
			COUNT(count->too_deep);
			return 0;
		}
		slot.state = place < MAX_THREAD_KEYS ? 0 : OPEN_SLOT_EXTRA;
	}
	if (slot_make(key, &slot)) {
		COUNT(count->map_full);
		if (keys && place + 1 == keys->count)
			unlist_last(keys);
		return 0;
	}
	COUNT(count->opened);
	return 0;
}

/*
 * A thread's tid is free before the next one of that tid starts. An exec gives a thread its
 * leader's start, so a slot that is marked needs no look at it.
 */
static __always_inline bool is_of_earlier_thread(const struct open_slot *slot,
						 struct task_struct *task)
{
	return slot->state & OPEN_SLOT_ENDED || slot->last_ns < task->start_time;
}

/*
 * bpf_loop: the innermost frame of a thread that ended. Stops when none is left, or the ring has no
 * room.
 */
static long tell_ended_frame(u32 step, struct ending *left)
{
	struct open_slot *slot = left->slot;
	u32 length = slot->chain_length;
	struct open_frame *frame = FRAME(slot, length - 1);
	struct function_counters *count;

	if (!length)
		return 1;
	count = counters_of(frame->function);
	if (!count || emit_frame(left, frame))
		return 1;
	COUNT(count->unfinished);
	slot->chain_length = length - 1;
	return 0;
}

/*
 * What an earlier thread of this tid left open is not of this one. Its end is told now, if it is
 * known and there is room by now; the frames that this does not settle are discarded.
 */
static __noinline void take_over_slot(struct open_slot *slot, struct open_key *key,
				      struct task_struct *task, u64 now)
{
	struct ending left = {.key = key,
			      .slot = slot,
			      .end_ns = slot->last_ns,
			      .now = now,
			      .flags = EVENT_FLAG_UNFINISHED};

	if (slot->state & OPEN_SLOT_ENDED)
		bpf_loop(MAX_CHAIN, tell_ended_frame, &left, 0);
	end_frames(key, slot, now);
	slot->state = OPEN_SLOT_UNLISTED;
	slot->stack_end = 0;
	slot->tgid = task->tgid;
	slot->namespace_tid = namespace_tid(task);
}

/* What is not the business of most entries to a slot that was used before. */
static __noinline void renew_slot(struct open_slot *slot, struct open_key *key,
				  struct task_struct *task, u64 now)
{
	struct thread_keys *keys;
	u32 place;

	if (is_of_earlier_thread(slot, task))
		take_over_slot(slot, key, task, now); /* before this thread is announced */
	keys = keys_of_thread(task, now);
	if (!keys)
		return;
	slot->stack_end = note_stack(keys, task, key->sp);
	place = list_key(keys, key->sp, slot->stack_end);
	if (place != NO_PLACE)
		slot->state = place < MAX_THREAD_KEYS ? 0 : OPEN_SLOT_EXTRA;
}

/* One more frame in a slot of which `length` frames are open. */
static __always_inline void open_frame(struct open_slot *slot, struct function_counters *count,
				       u32 length, u32 function, u32 flags, u32 tid, u64 now)
{
	struct open_frame *frame = FRAME(slot, length);

	if (length >= MAX_CHAIN || slot->overflow) {
		slot->overflow++;
		COUNT(count->chain_full);
		return;
	}
	frame->function = function;
	frame->flags = flags;
	frame->detail = tid;
	frame->start_ns = now;
	slot->chain_length = length + 1;
	COUNT(count->opened);
}

#endif
