/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place that reserves and submits. Purpose: what finds no room in the ring is counted, and the next
 * success on the same cpu first tells it, in a loss_record at its time. No record wakes the reader: a wake-up
 * would cost the traced program more than the rest of the hit; the reader polls.
 */
#ifndef SCOPETRACE_EMIT_BPF_H
#define SCOPETRACE_EMIT_BPF_H

#include "thread.bpf.h"

static __always_inline struct pending_loss *emit_pending(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&pending_loss, &zero);
}

static __always_inline void emit_header(struct event_header *header, u16 type, u16 flags)
{
	header->type = type;
	header->flags = flags;
	header->cpu = bpf_get_smp_processor_id();
}

static __always_inline void emit_submit(void *record)
{
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/*
 * Tells what is pending; 0 when nothing is any more. The time is read before the count is taken: a loss that
 * comes in between is then told too early, never too late.
 */
static __noinline int emit_loss(struct pending_loss *pending, u64 now)
{
	struct loss_record *loss = bpf_ringbuf_reserve(&events, sizeof(*loss), 0);

	if (!loss)
		return -1;
	loss->first_ns = pending->first_ns;
	loss->last_ns = now;
	loss->count = __sync_lock_test_and_set(&pending->count, 0);
	emit_header(&loss->header, EVENT_LOSS, 0);
	if (loss->count)
		emit_submit(loss);
	else /* a program that preempted this one has told it */
		bpf_ringbuf_discard(loss, BPF_RB_NO_WAKEUP);
	return 0;
}

/* Room for a record, or NULL; then the caller counts it as lost, or keeps what it wanted to say. */
static __always_inline void *emit_reserve(struct pending_loss *pending, u64 size, u64 now)
{
	if (pending->count && emit_loss(pending, now))
		return NULL;
	return bpf_ringbuf_reserve(&events, size, 0);
}

/* A completed scope found no room. The time is stored before the count becomes non-zero. */
static __always_inline void emit_lost(struct pending_loss *pending, struct function_counters *function,
				      u64 now)
{
	COUNT(function->ring_lost);
	if (!pending->count)
		pending->first_ns = now;
	COUNT(pending->count);
}

/* The frame was open when its thread ended, at `end_ns`. 0, or -1 when the ring has no room: nothing is
 * counted then. */
static __noinline int emit_unfinished(const struct open_key *key, const struct open_slot *slot,
				      const struct open_frame *frame, u64 end_ns, u64 now)
{
	struct pairing_settings *set = current_settings();
	struct pending_loss *pending = emit_pending();
	struct scope_event *scope;

	if (!pending || !set)
		return -1;
	scope = emit_reserve(pending, sizeof(*scope), now);
	if (!scope)
		return -1;
	emit_header(&scope->header, EVENT_SCOPE, EVENT_FLAG_UNFINISHED);
	scope->start_ns = frame->start_ns;
	scope->end_ns = end_ns;
	scope->sp = key->sp;
	scope->tid = key->tid;
	scope->tgid = slot->tgid;
	scope->namespace_tid = slot->namespace_tid;
	scope->function = frame->function;
	scope->generation = set->generation;
	scope->reserved = 0;
	emit_submit(scope);
	return 0;
}

/* A record of a thread, whose keys these are; with EVENT_FORK, of a child of theirs. 0, or -1 when it found
 * no room. */
static __noinline int emit_thread(struct thread_keys *keys, struct task_struct *task, const void *comm,
				  u32 type, u64 now)
{
	struct pending_loss *pending = emit_pending();
	struct thread_record *record;

	if (!pending)
		return -1;
	record = emit_reserve(pending, sizeof(*record), now);
	if (!record) {
		COUNT(pending->thread_records);
		return -1;
	}
	emit_header(&record->header, type, 0);
	record->thread_start_ns = task->start_time;
	record->time_ns = now;
	/* Those of the keys: after an exec the thread may have another. */
	record->tid = type == EVENT_FORK ? task->pid : keys->tid;
	record->tgid = type == EVENT_FORK ? task->tgid : keys->tgid;
	record->namespace_tid = type == EVENT_FORK ? namespace_tid(task) : keys->namespace_tid;
	record->parent = type == EVENT_FORK ? keys->tgid : 0;
	__builtin_memset(record->comm, 0, sizeof(record->comm));
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	emit_submit(record);
	return 0;
}

#endif
