// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Calls whose ends are seen by probes on the instructions that leave the function, not by a return
 * address of the kernel's own: nothing on the target's stack is changed, so that exceptions, stack
 * switches and ended threads do what they would do unwatched.
 *
 * A return instruction says nothing on whose call it ends: it ends every frame at its stack
 * pointer, the innermost first. A jump that leaves only marks the innermost frame, with its time
 * and where it went: if a hooked function is entered there, the chain goes on, and ends with that
 * one's return; otherwise the mark is its end (ending.bpf.h).
 */
#include "hit.bpf.h"
#include "frames.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define KEYS_DROPPED 64 /* at most, when a call ends */

/* ---- entry ---- */

/* How an entry came about. */
struct arrival {
	u64 ip;
	bool by_jump; /* see entered_by_jump() */
	bool is_wanted;
};

/* True if this entry is a turn of the loop of the call that is open. */
static __always_inline bool is_turn(struct open_key *key, struct open_slot *slot,
				    const struct function_setting *setting,
				    const struct open_frame *entry)
{
	struct open_frame *top = FRAME(slot, slot->chain_length - 1);
	bool was_marked = top->flags & OPEN_FRAME_TURN;

	if (!(setting->flags & FUNCTION_LOOPS) || slot->tail_ns || top->function != entry->function)
		return false;
	top->flags &= ~OPEN_FRAME_TURN;
	if (setting->flags & FUNCTION_TURNS)
		return was_marked;
	/* A call from the same place, after one that an exception left, looks like a turn. */
	return key->of_process || top->detail == entry->detail;
}

/*
 * Settles what is open at the key. False if the entry is no call. One that is not wanted leaves the
 * mark of the jump to it: its return is that of the chain.
 */
static __noinline bool settle_open(struct open_key *key, struct open_slot *slot,
				   const struct open_frame *entry, struct arrival *arrival)
{
	struct function_setting *setting = setting_of(entry->function);
	u32 caller = key->of_process ? 0 : entry->detail;

	if (!setting || is_turn(key, slot, setting, entry))
		return false;
	/* from a frame with a uretprobe, or from one that such a frame jumped to */
	if (arrival->by_jump)
		slot->tail_ns = 0;
	else if (arrival->is_wanted || !continues_chain(slot, entry->function, arrival->ip, caller))
		settle_before_entry(key, slot, entry->function, arrival->ip, caller);
	return true;
}

/* The frame of this entry, in the slot of its key; NULL: it has none yet. */
static __always_inline void open_by_exit(struct open_key *key, struct open_slot *slot,
					 struct function_counters *count, struct task_struct *task,
					 const struct open_frame *frame)
{
	if (!slot) {
		open_new_slot(key, task, frame);
		return;
	}
	if (key->of_process) /* which announces the thread, as a new slot does */
		keys_of_thread(task, frame->start_ns);
	open_frame(slot, count, slot->chain_length, frame->function, frame->flags, frame->detail,
		   frame->start_ns);
}

/* ---- exits ---- */

/* True if the frames at this key can be what this site leaves: the site's function is among them, or they
 * have jumped to one that is not hooked, or not wanted, just now. */
static __noinline bool belongs(struct open_slot *slot, struct exit_setting *site)
{
	if (site->is_shared || slot->tail_ns || slot->overflow)
		return true;
	for (u32 i = 0; i < MAX_CHAIN; i++) {
		if (i >= slot->chain_length)
			break;
		if (slot->frames[i].function == site->function)
			return true;
	}
	return false;
}

static long drop_last(u32 step, struct thread_keys **list)
{
	struct thread_keys *keys = *list;
	struct open_slot *slot;
	struct open_key key;

	if (keys->count <= MAX_THREAD_KEYS)
		return 1;
	key = last_key(keys);
	slot = slot_find(&key);
	if (slot && slot->chain_length)
		return 1;
	slot_drop(&key);
	unlist_last(keys);
	return 0;
}

/* The calls of a slot that is marked OPEN_SLOT_EXTRA have ended: the list is shortened. */
static __noinline int shorten_list(struct task_struct *task)
{
	struct thread_keys *keys = bpf_task_storage_get(&thread_keys, task, NULL, 0);

	if (keys)
		bpf_loop(KEYS_DROPPED, drop_last, &keys, 0);
	return 0;
}

/* The calls at the key have ended. */
static __always_inline void close_slot(struct open_key *key, struct open_slot *slot)
{
	if (key->of_process)
		slot_drop(key); /* no thread's list would drop it */
	else if (slot->state & OPEN_SLOT_EXTRA)
		shorten_list(bpf_get_current_task_btf());
}

static __noinline int leave(struct open_key *key, struct exit_setting *site, u64 now)
{
	struct function_counters *count = counters_of(site->function);
	struct open_slot *slot = slot_find(key);

	if (slot && slot->chain_length && belongs(slot, site)) {
		slot->last_ns = now;
		slot->cpu = bpf_get_smp_processor_id();
		return_from_chain(key, slot, now);
		if (!slot->chain_length)
			close_slot(key, slot);
		return 0;
	}
	if (slot && slot->chain_length)
		end_frames(key, slot, now);
	if (!count)
		return 0;
	COUNT(count->returns);
	COUNT(count->orphans);
	return 0;
}

/* A jump out of the function that is just being run, to `target`. */
static __noinline int mark_tail(struct open_key *key, struct exit_setting *site, u64 target,
				u64 now)
{
	struct open_slot *slot = slot_find(key);

	if (!slot || !slot->chain_length || !belongs(slot, site))
		return 0;
	slot->last_ns = now;
	slot->tail_ns = now;
	slot->tail_target = site->target_function ? site->target_function : target;
	return 0;
}

/* A jump of the function's own loop to its entry. */
static __noinline int mark_turn(struct open_key *key, u32 function)
{
	struct open_slot *slot = slot_find(key);
	struct open_frame *top;

	if (!slot || !slot->chain_length)
		return 0;
	top = FRAME(slot, slot->chain_length - 1);
	if (top->function == function)
		top->flags |= OPEN_FRAME_TURN;
	return 0;
}

static __always_inline bool is_inside(struct exit_setting *site, s64 relative)
{
	for (u32 i = 0; i < SITE_RANGES; i++)
		if (relative >= site->inside[i].begin && relative < site->inside[i].end)
			return true;
	return false;
}

/* Where an indirect jump goes; 0 if that cannot be read. */
static __always_inline u64 indirect_target(struct pt_regs *ctx, struct exit_setting *site)
{
	u64 base = site->base == SITE_REGISTER_IP ? HIT_IP(ctx) + site->length
						  : register_of(ctx, site->base);
	u64 address = base + register_of(ctx, site->index) * site->scale + site->displacement;
	u64 target = 0;

	if (!site->is_memory)
		return base;
	bpf_probe_read_user(&target, sizeof(target), (void *)address);
	return target;
}

/* What the instruction under the probe, described by `site`, does to the frames at the key. */
static __always_inline int judge_exit(struct pt_regs *ctx, struct open_key *key,
				      struct exit_setting *site, u64 now)
{
	u64 target = HIT_IP(ctx) + site->target;

	if (site->kind == SITE_RETURN)
		return leave(key, site, now);
	if ((site->kind == SITE_CONDITIONAL || site->kind == SITE_TURN) &&
	    !condition_holds(ctx, site))
		return 0;
	if (site->kind == SITE_TURN)
		return mark_turn(key, site->function);
	if (site->kind == SITE_INDIRECT) {
		target = indirect_target(ctx, site);
		if (!target || is_inside(site, target - HIT_IP(ctx)))
			return 0;
	}
	return mark_tail(key, site, target, now);
}

SEC("uprobe.multi")
int scope_exit(struct pt_regs *ctx)
{
	u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = bpf_get_attach_cookie(ctx);
	u32 index = cookie;
	struct exit_setting *site = bpf_map_lookup_elem(&exit_sites, &index);
	struct open_key key;

	if (!set || !site || set->generation != cookie >> 32)
		return 0;
	key = key_at(ctx, ENTRY_SP(ctx), task, set);
	return judge_exit(ctx, &key, site, now);
}

/* ---- entries ---- */

SEC("uprobe.multi")
int scope_entry_by_exit(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = bpf_get_attach_cookie(ctx);
	struct open_frame frame = {.function = cookie, .flags = OPEN_FRAME_BY_EXIT};
	u32 function = cookie;
	struct function_counters *count = counters_of(function);
	struct function_setting *setting = setting_of(function);
	struct exit_setting *site;
	struct open_slot *slot;
	struct open_key key;
	bool is_unwanted;
	u32 place;

	if (!set || !count || !setting || set->generation != cookie >> 32)
		return 0;
	is_unwanted = is_filtered(set, setting, task->tgid);
	key = key_at(ctx, ENTRY_SP(ctx), task, set);
	slot = slot_find(&key);
	frame.start_ns = bpf_ktime_get_ns();
	frame.detail = key.of_process ? task->pid : return_address(ctx);
	COUNT(count->entries);
	if (slot) {
		if (slot->state & OPEN_SLOT_STRANGE)
			renew_slot(slot, &key, task, frame.start_ns);
		slot->last_ns = frame.start_ns;
		slot->cpu = bpf_get_smp_processor_id();
		if (slot->chain_length) {
			struct arrival arrival = {HIT_IP(ctx), entered_by_jump(ctx, task),
						  !is_unwanted};

			if (!settle_open(&key, slot, &frame, &arrival)) {
				COUNT(count->not_a_call);
				return 0;
			}
		}
	}
	if (is_unwanted) {
		COUNT(count->filtered);
		return 0;
	}
	open_by_exit(&key, slot, count, task, &frame);
	place = setting->exit_site - 1;
	site = bpf_map_lookup_elem(&exit_sites, &place);
	return site ? judge_exit(ctx, &key, site, frame.start_ns) : 0;
}

/* ---- entries alone ---- */

SEC("uprobe.multi")
int scope_instant(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pairing_settings *set = current_settings();
	u64 cookie = bpf_get_attach_cookie(ctx), now = bpf_ktime_get_ns();
	struct open_slot slot = {.tgid = task->tgid};
	struct open_frame frame = {.start_ns = now, .function = cookie};
	u32 function = cookie;
	struct function_counters *count = counters_of(function);
	struct function_setting *setting = setting_of(function);
	struct pending_loss *pending = emit_pending();
	struct thread_keys *keys;
	struct open_key key;
	struct ending ending = {.key = &key, .slot = &slot, .end_ns = now, .now = now};

	if (!set || !count || !setting || !pending || set->generation != cookie >> 32)
		return 0;
	COUNT(count->entries);
	if (is_filtered(set, setting, task->tgid)) {
		COUNT(count->filtered);
		return 0;
	}
	key = (struct open_key){.sp = ENTRY_SP(ctx), .tid = task->pid};
	keys = keys_of_thread(task, now); /* announces it */
	slot.namespace_tid = keys ? keys->namespace_tid : namespace_tid(task);
	ending.flags = EVENT_FLAG_INSTANT;
	COUNT(count->instants);
	if (emit_frame(&ending, &frame))
		emit_lost(pending, count, now);
	return 0;
}
