/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How open frames end: by a return, by a jump out that nothing returned from, or found gone.
 * Purpose: what both ways of seeing a return share. Owner: the thread whose key it is (see
 * slot.bpf.h). Invariant: each frame that was opened is counted once when it ends.
 */
#ifndef SCOPETRACE_ENDING_BPF_H
#define SCOPETRACE_ENDING_BPF_H

#include "emit.bpf.h"

/* It returned: `end_ns` is its end. */
static __always_inline int complete_frame(struct ending *ending, struct open_frame *frame)
{
	struct function_setting *function = setting_of(frame->function);
	struct function_counters *count = counters_of(frame->function);
	struct pairing_settings *set = current_settings();
	struct pending_loss *pending = emit_pending();
	u64 length = ending->end_ns - frame->start_ns;

	if (!function || !count || !set || !pending)
		return 0;
	COUNT(count->returns);
	COUNT(count->completed);
	if (length < set->minimum_ns || length < function->minimum_ns)
		COUNT(count->below_minimum);
	else if (emit_frame(ending, frame))
		emit_lost(pending, count, ending->now);
	return 0;
}

/* It was found gone: no return of a frame that is open goes unseen, so it was left in another way. */
static __always_inline int give_up_frame(struct ending *ending, struct open_frame *frame)
{
	struct function_counters *count = counters_of(frame->function);
	struct pending_loss *pending = emit_pending();

	if (!count || !pending)
		return 0;
	ending->end_ns = ending->now;
	ending->flags = EVENT_FLAG_UNWOUND;
	COUNT(count->unwound);
	if (emit_frame(ending, frame))
		emit_lost(pending, count, ending->now);
	ending->flags = 0;
	return 0;
}

/* True if an exit ends it; also one that has a uretprobe of links that are gone, its function being switched
 * over. */
static __always_inline bool ends_by_exit(const struct open_frame *frame)
{
	struct function_setting *function;

	if (frame->flags & OPEN_FRAME_BY_EXIT)
		return true;
	function = setting_of(frame->function);
	return function && function->returns == RETURNS_INSTRUCTION;
}

/*
 * The frames that end by the exit at `tail_ns`, innermost first: all down to one with a uretprobe,
 * whose return is still to come.
 */
SHARED int end_left_frames(struct open_key *key, struct open_slot *slot, u64 now)
{
	struct ending ending = {.key = key, .slot = slot, .now = now};

	if (!key || !slot)
		return 0;
	ending.end_ns = slot->tail_ns;
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		u32 length = slot->chain_length;

		if (!length || !ends_by_exit(FRAME(slot, length - 1)))
			break;
		complete_frame(&ending, FRAME(slot, length - 1));
		slot->chain_length = length - 1;
	}
	slot->overflow = 0;
	slot->tail_ns = 0;
	return 0;
}

/* Ends all frames of the slot, innermost first: those that an exit has left, at that moment; the others are
 * gone. */
SHARED int end_frames(struct open_key *key, struct open_slot *slot, u64 now)
{
	struct ending ending = {.key = key, .slot = slot, .now = now};

	if (!key || !slot)
		return 0;
	if (slot->tail_ns)
		end_left_frames(key, slot, now);
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		u32 length = slot->chain_length;

		if (!length)
			break;
		give_up_frame(&ending, FRAME(slot, length - 1));
		slot->chain_length = length - 1;
	}
	slot->chain_length = 0;
	slot->overflow = 0;
	return 0;
}

#endif
