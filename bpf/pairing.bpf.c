// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Entry and return of a hooked function become one completed scope.
 *
 * A frame waits for its return in the slot of (tid, stack pointer), the pointer normalised so that
 * entry and return agree. That survives what a stack of frames per thread does not: a lost hit, a
 * longjmp, two stacks in one thread. Only the thread itself touches its slots, so they need no
 * lock.
 *
 * What the kernel promises and this relies on (uprobes.c): the entry programs of a hit run before
 * its return instance is made; a return instance exists only if fewer than 64 are pending at that
 * moment; return programs of frames that share a stack pointer run inner first. A function that is
 * reached by a jump while a frame of the same stack pointer is pending finds the kernel's
 * trampoline where its return address should be.
 */
#include "hit.bpf.h"
#include "frames.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define DUPLICATE_NS 1000 /* no thread gets from one cpu to another in so short a time */

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

/*
 * What bpf_get_attach_cookie() returns, read where that helper reads it, which saves its call: 10
 * ns.
 */
static __always_inline u64 peek_cookie(struct task_struct *task)
{
	struct bpf_uprobe_multi_run_ctx *context;

	if (!bpf_core_field_exists(struct bpf_uprobe_multi_run_ctx, uprobe) ||
	    !bpf_core_field_exists(struct bpf_uprobe, cookie))
		return 0;
	context = bpf_rdonly_cast(task->bpf_ctx,
				  bpf_core_type_id_kernel(struct bpf_uprobe_multi_run_ctx));
	return context->uprobe->cookie;
}

/*
 * Function and generation of this hit. Where the helper reads is the kernel's own business and may
 * change: what is found there is believed only if it is of the generation in force, as no other
 * thing but our cookie is.
 */
static __always_inline u64 cookie_of(void *ctx, struct task_struct *task, u32 generation)
{
	u64 cookie = peek_cookie(task);

	return generation && cookie >> 32 == generation ? cookie : bpf_get_attach_cookie(ctx);
}

static __always_inline bool return_will_come(struct task_struct *task)
{
	struct uprobe_task *pending = task->utask;

	return !pending || pending->depth < MAX_RETURN_DEPTH;
}

/* One more hit at this stack pointer; true if it may be the one before it over again. */
static __always_inline bool note_hit(struct open_slot *slot, u64 now)
{
	u32 cpu = bpf_get_smp_processor_id();
	bool repeats = slot->cpu != cpu && now - slot->last_ns < DUPLICATE_NS;

	slot->last_ns = now;
	slot->cpu = cpu;
	return repeats;
}

/* ---- entry ---- */

SEC("uprobe.multi")
int scope_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = set ? cookie_of(ctx, task, set->generation) : 0, now;
	u32 function = cookie, length = 0;
	struct function_counters *count = counters_of(function);
	struct function_setting *setting = setting_of(function);
	bool repeats = false;
	struct open_slot *slot;
	struct open_key key;

	if (!set || !count || !setting || set->generation != cookie >> 32)
		return 0;
	key = key_at(ctx, ENTRY_SP(ctx), task, set);
	slot = slot_find(&key);
	now = bpf_ktime_get_ns();
	if (slot) {
		if (slot->state & OPEN_SLOT_STRANGE)
			renew_slot(slot, &key, task, now);
		repeats = note_hit(slot, now);
		if (slot->chain_length && !entered_by_jump(ctx, task))
			settle_before_entry(&key, slot, function, HIT_IP(ctx), 0);
		else if (slot->chain_length)
			slot->tail_ns = 0; /* the jump came here, or its frame would have ended */
		length = slot->chain_length;
	}
	COUNT(count->entries);
	if (length && !slot->overflow && FRAME(slot, length - 1)->function == function) {
		COUNT(count->not_a_call);
		if (repeats)
			COUNT(count->duplicates);
		FRAME(slot, length - 1)->detail += return_will_come(task);
	} else if (is_filtered(set, setting, task->tgid)) {
		COUNT(count->filtered);
	} else if (!return_will_come(task)) {
		COUNT(count->too_deep);
	} else if (!slot) {
		struct open_frame frame = {.start_ns = now, .function = function};

		open_new_slot(&key, task, &frame);
	} else {
		open_frame(slot, count, length, function, 0, 0, now);
	}
	return 0;
}

/* ---- return ---- */

/* Closes the frames above the first `keep` as discarded: they are gone. */
static __noinline void discard_frames(struct open_slot *slot, u32 keep)
{
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		struct function_counters *gone;

		if (i < keep)
			continue;
		if (i >= slot->chain_length)
			break;
		gone = counters_of(slot->frames[i].function);
		if (gone)
			COUNT(gone->discarded);
	}
	if (keep < slot->chain_length)
		slot->chain_length = keep;
	slot->overflow = 0;
}

/*
 * The place above the frame of `function` in the chain, 0 if it has none there. Returns come inner
 * first, so if another frame is the innermost then those above ours have missed their own return
 * for good.
 */
static __noinline u32 find_below(struct open_slot *slot, u32 function)
{
	u32 place = 0;

	for (u32 i = 0; i < MAX_CHAIN; i++) {
		if (i >= slot->chain_length)
			break;
		if (slot->frames[i].function == function)
			place = i + 1;
	}
	if (place)
		discard_frames(slot, place);
	return place;
}

static __noinline int count_orphan(struct function_counters *count, bool repeats)
{
	COUNT(count->returns);
	COUNT(count->orphans);
	if (repeats)
		COUNT(count->duplicates);
	return 0;
}

/* As complete_frame(), with what the program has at hand: every call pays for it. */
static __always_inline void complete(struct ending *ending, struct open_frame *frame,
				     struct pairing_settings *set, struct function_counters *count)
{
	struct function_setting *function = setting_of(frame->function);
	struct pending_loss *pending = emit_pending();
	u64 length = ending->now - frame->start_ns;

	COUNT(count->returns);
	COUNT(count->completed);
	if (!function || !pending)
		return;
	if (length < set->minimum_ns || length < function->minimum_ns)
		COUNT(count->below_minimum);
	else if (emit_scope(ending, frame, pending, set->generation))
		emit_lost(pending, count, ending->now);
}

SEC("uretprobe.multi")
int scope_return(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = set ? cookie_of(ctx, task, set->generation) : 0;
	u32 function = cookie, length;
	struct function_counters *count = counters_of(function);
	struct open_frame *frame;
	struct open_slot *slot;
	struct open_key key;
	struct ending ending = {.key = &key, .end_ns = now, .now = now};
	bool repeats;

	if (!set || !count || set->generation != cookie >> 32)
		return 0;
	key = key_at(ctx, RETURN_SP(ctx), task, set);
	slot = slot_find(&key);
	if (!slot)
		return count_orphan(count, false);
	repeats = note_hit(slot, now);
	if (slot->overflow) {
		slot->overflow--;
		return count_orphan(count, false);
	}
	length = slot->chain_length;
	if (length && FRAME(slot, length - 1)->function != function)
		length = find_below(slot, function);
	if (!length)
		return count_orphan(count, repeats);
	frame = FRAME(slot, length - 1);
	if (frame->detail) {
		frame->detail--;
		COUNT(count->returns);
		COUNT(count->not_a_return);
		return 0;
	}
	slot->chain_length = length - 1;
	ending.slot = slot;
	complete(&ending, frame, set, count);
	if (length > 1 && FRAME(slot, length - 2)->flags & OPEN_FRAME_BY_EXIT)
		return_from_chain(&key, slot, now); /* they had jumped to this one */
	if (key.of_process && !slot->chain_length)
		slot_drop(&key);
	return 0;
}
