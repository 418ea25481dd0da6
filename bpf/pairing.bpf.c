// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Entry and return of a hooked function become one completed scope.
 *
 * A frame waits for its return in the slot of (tid, stack pointer), the pointer normalised so that entry and
 * return agree. That survives what a stack of frames per thread does not: a lost hit, a longjmp,
 * two stacks in one thread. Only the thread itself touches its slots, so they need no lock.
 *
 * What the kernel promises and this relies on (uprobes.c): the entry programs of a hit run before its return
 * instance is made; a return instance exists only if fewer than 64 are pending at that moment; return
 * programs of frames that share a stack pointer run inner first. A function that is reached by a jump while a
 * frame of the same stack pointer is pending finds the kernel's trampoline where its return address should
 * be.
 */
#include "emit.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#if defined(__TARGET_ARCH_x86)
#define ENTRY_SP(ctx)  ((ctx)->sp + sizeof(u64)) /* the return address is on the stack and will be popped */
#define RETURN_SP(ctx) ((ctx)->sp)
#elif defined(__TARGET_ARCH_arm64)
#define LINK_REGISTER  30
#define ENTRY_SP(ctx)  ((ctx)->user_regs.sp)
#define RETURN_SP(ctx) ((ctx)->user_regs.sp)
#endif

static __always_inline u64 return_address(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)ctx->sp);
	return address;
#else
	return ctx->user_regs.regs[LINK_REGISTER];
#endif
}

/* True if this entry was jumped to from a frame whose return is pending at this stack pointer, or from
 * itself. */
static __always_inline bool entered_by_jump(struct pt_regs *ctx, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;
	struct xol_area *area = mm ? mm->uprobes_state.xol_area : NULL;

	return area && return_address(ctx) == area->vaddr;
}

static __always_inline bool return_will_come(struct task_struct *task)
{
	struct uprobe_task *pending = task->utask;

	return !pending || pending->depth < MAX_RETURN_DEPTH;
}

/* ---- which function ----------------------------------------------------------------------------------- */

extern void *bpf_rdonly_cast(const void *object, u32 type) __ksym;

/* What bpf_get_attach_cookie() returns, read where that helper reads it, which saves its call: 10 ns. */
static __always_inline u64 peek_cookie(struct task_struct *task)
{
	struct bpf_uprobe_multi_run_ctx *context;

	if (!bpf_core_field_exists(struct bpf_uprobe_multi_run_ctx, uprobe) ||
	    !bpf_core_field_exists(struct bpf_uprobe, cookie))
		return 0;
	context = bpf_rdonly_cast(task->bpf_ctx, bpf_core_type_id_kernel(struct bpf_uprobe_multi_run_ctx));
	return context->uprobe->cookie;
}

/*
 * Function and generation of this hit. Where the helper reads is the kernel's own business and may change:
 * what is found there is believed only if it is of the generation in force, as no other thing but our cookie
 * is.
 */
static __always_inline u64 cookie_of(void *ctx, struct task_struct *task, u32 generation)
{
	u64 cookie = peek_cookie(task);

	return generation && cookie >> 32 == generation ? cookie : bpf_get_attach_cookie(ctx);
}

/* ---- the keys a thread holds -------------------------------------------------------------------------- */

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
		discard_frames(slot, 0);
	slot_drop(&key);
	keys->oldest = (eviction.victim + 1) % MAX_THREAD_KEYS;
	return eviction.victim;
}

static __noinline void list_key(struct thread_keys *keys, u64 sp)
{
	u32 place = keys->count;

	if (place < MAX_THREAD_KEYS)
		keys->count = place + 1;
	else
		place = evict_key(keys, sp);
	keys->sp[place % MAX_THREAD_KEYS] = sp;
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

/* ---- entry -------------------------------------------------------------------------------------------- */

/* A frame at a key that has no slot yet. */
static __noinline int open_new_slot(struct open_key *key, struct task_struct *task, u32 function, u64 now)
{
	struct function_counters *count = counters_of(function);
	struct thread_keys *keys = keys_of_thread(task, now);
	struct open_slot slot = {.chain_length = 1, .last_ns = now};

	if (!count)
		return 0;
	slot.tgid = task->tgid;
	slot.namespace_tid = keys ? keys->namespace_tid : namespace_tid(task);
	slot.state = keys ? 0 : OPEN_SLOT_UNLISTED;
	slot.frames[0].start_ns = now;
	slot.frames[0].function = function;
	if (keys) /* first, since it may free the room for the slot */
		list_key(keys, key->sp);
	if (slot_make(key, &slot)) {
		COUNT(count->map_full);
		if (keys && keys->count && keys->count < MAX_THREAD_KEYS)
			keys->count--;
		return 0;
	}
	COUNT(count->opened);
	return 0;
}

/*
 * A thread's tid is free before the next one of that tid starts. An exec gives a thread its leader's start,
 * so a slot that is marked needs no look at it.
 */
static __always_inline bool is_of_earlier_thread(const struct open_slot *slot, struct task_struct *task)
{
	return slot->state & OPEN_SLOT_ENDED || slot->last_ns < task->start_time;
}

struct inheritance {
	struct open_slot *slot;
	struct open_key *key;
	u64 now;
};

/* bpf_loop: the innermost frame of a thread that ended. Stops when none is left, or the ring has no room. */
static long tell_ended_frame(u32 step, struct inheritance *left)
{
	struct open_slot *slot = left->slot;
	u32 length = slot->chain_length;
	struct open_frame *frame = FRAME(slot, length - 1);
	struct function_counters *count;

	if (!length)
		return 1;
	count = counters_of(frame->function);
	if (!count || emit_unfinished(left->key, slot, frame, slot->last_ns, left->now))
		return 1;
	COUNT(count->unfinished);
	slot->chain_length = length - 1;
	return 0;
}

/*
 * What an earlier thread of this tid left open is not of this one. Its end is told now, if it is known and
 * there is room by now; the frames that this does not settle are discarded.
 */
static __noinline void take_over_slot(struct open_slot *slot, struct open_key *key, struct task_struct *task,
				      u64 now)
{
	struct inheritance left = {.slot = slot, .key = key, .now = now};

	if (slot->state & OPEN_SLOT_ENDED)
		bpf_loop(MAX_CHAIN, tell_ended_frame, &left, 0);
	discard_frames(slot, 0);
	slot->state = OPEN_SLOT_UNLISTED;
	slot->tgid = task->tgid;
	slot->namespace_tid = namespace_tid(task);
}

/* What is not the business of most entries to a slot that was used before. */
static __noinline void renew_slot(struct open_slot *slot, struct open_key *key, struct task_struct *task,
				  u64 now)
{
	struct thread_keys *keys;

	if (is_of_earlier_thread(slot, task))
		take_over_slot(slot, key, task, now); /* before this thread is announced */
	keys = keys_of_thread(task, now);
	if (!keys)
		return;
	slot->state = 0;
	list_key(keys, key->sp);
}

/* One more frame in a slot of which `length` frames are open. */
static __always_inline void open_frame(struct open_slot *slot, struct function_counters *count, u32 length,
				       u32 function, u64 now)
{
	struct open_frame *frame = FRAME(slot, length);

	if (length >= MAX_CHAIN || slot->overflow) {
		slot->overflow++;
		COUNT(count->chain_full);
		return;
	}
	frame->function = function;
	frame->turns = 0;
	frame->start_ns = now;
	slot->chain_length = length + 1;
	COUNT(count->opened);
}

SEC("uprobe.multi")
int scope_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = set ? cookie_of(ctx, task, set->generation) : 0, now;
	u32 function = cookie, tid = task->pid, length = 0;
	struct open_key key = {.sp = ENTRY_SP(ctx), .tid = tid};
	struct function_counters *count = counters_of(function);
	struct open_slot *slot;

	if (!set || !count || set->generation != cookie >> 32)
		return 0;
	slot = slot_find(&key);
	now = bpf_ktime_get_ns();
	if (slot) {
		if (slot->state)
			renew_slot(slot, &key, task, now);
		slot->last_ns = now;
		if (slot->chain_length && !entered_by_jump(ctx, task))
			discard_frames(slot, 0);
		length = slot->chain_length;
	}
	if (length && !slot->overflow && FRAME(slot, length - 1)->function == function) {
		COUNT(count->entries);
		COUNT(count->not_a_call);
		FRAME(slot, length - 1)->turns += return_will_come(task);
		return 0;
	}
	COUNT(count->entries);
	if (set->paused) {
		COUNT(count->filtered);
	} else if (!return_will_come(task)) {
		COUNT(count->too_deep);
	} else if (!slot) {
		open_new_slot(&key, task, function, now);
	} else {
		open_frame(slot, count, length, function, now);
	}
	return 0;
}

/* ---- return ------------------------------------------------------------------------------------------- */

/*
 * The place above the frame of `function` in the chain, 0 if it has none there. Returns come inner first, so
 * if another frame is the innermost then those above ours have missed their own return for good.
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

static __noinline int count_orphan(struct function_counters *count)
{
	COUNT(count->returns);
	COUNT(count->orphans);
	return 0;
}

static __always_inline void complete(struct open_key *key, struct open_slot *slot, u64 start, u64 now,
				     u64 cookie, struct function_counters *count)
{
	struct pending_loss *pending = emit_pending();
	struct scope_event *scope;

	if (!pending)
		return;
	scope = emit_reserve(pending, sizeof(*scope), now);
	if (!scope) {
		emit_lost(pending, count, now);
		return;
	}
	emit_header(&scope->header, EVENT_SCOPE, 0);
	scope->start_ns = start;
	scope->end_ns = now;
	scope->sp = key->sp;
	scope->tid = key->tid;
	scope->tgid = slot->tgid;
	scope->namespace_tid = slot->namespace_tid;
	scope->function = cookie;
	scope->generation = cookie >> 32;
	scope->reserved = 0;
	emit_submit(scope);
}

SEC("uretprobe.multi")
int scope_return(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns(), start;
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = set ? cookie_of(ctx, task, set->generation) : 0;
	u32 function = cookie, tid = task->pid, length;
	struct open_key key = {.sp = RETURN_SP(ctx), .tid = tid};
	struct function_counters *count = counters_of(function);
	struct open_frame *frame;
	struct open_slot *slot;

	if (!set || !count || set->generation != cookie >> 32)
		return 0;
	slot = slot_find(&key);
	if (!slot)
		return count_orphan(count);
	slot->last_ns = now;
	if (slot->overflow) {
		slot->overflow--;
		return count_orphan(count);
	}
	length = slot->chain_length;
	if (length && FRAME(slot, length - 1)->function != function)
		length = find_below(slot, function);
	if (!length)
		return count_orphan(count);
	COUNT(count->returns);
	frame = FRAME(slot, length - 1);
	if (frame->turns) {
		frame->turns--;
		COUNT(count->not_a_return);
		return 0;
	}
	start = frame->start_ns;
	slot->chain_length = length - 1;
	COUNT(count->completed);
	if (now - start < set->minimum_ns)
		COUNT(count->below_minimum);
	else
		complete(&key, slot, start, now, cookie, count);
	return 0;
}
