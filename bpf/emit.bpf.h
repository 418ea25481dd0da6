/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The one place that reserves and submits. Purpose: what finds no room in the ring is counted, and
 * the next success on the same cpu first tells it, in a loss_record at its time. No record wakes
 * the reader: a wake-up would cost the traced program more than the rest of the hit; the reader
 * polls.
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
 * Tells what is pending; 0 when nothing is any more. The count is taken before the time of the last
 * is read: a loss that comes in between makes that too late by a moment, never too early.
 */
static __noinline int emit_loss(struct pending_loss *pending, u64 now)
{
	struct loss_record *loss = bpf_ringbuf_reserve(&events, sizeof(*loss), 0);

	if (!loss)
		return -1;
	loss->first_ns = pending->first_ns;
	loss->count = __sync_lock_test_and_set(&pending->count, 0);
	loss->last_ns = pending->last_ns;
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

/* A completed scope found no room. The times are stored before the count includes it. */
static __always_inline void emit_lost(struct pending_loss *pending,
				      struct function_counters *function, u64 now)
{
	COUNT(function->ring_lost);
	if (!pending->count)
		pending->first_ns = now;
	pending->last_ns = now;
	COUNT(pending->count);
}

/* How frames of a slot end. */
struct ending {
	struct open_key *key;
	struct open_slot *slot;
	u64 end_ns;
	u64 now;
	u32 flags; /* enum scope_event_flag */
};

/* 0, or -1 when the ring has no room: nothing is counted then. */
static __always_inline int emit_scope(struct ending *ending, struct open_frame *frame,
				      struct pending_loss *pending, u32 generation)
{
	struct scope_event *scope = emit_reserve(pending, sizeof(*scope), ending->now);

	if (!scope)
		return -1;
	emit_header(&scope->header, EVENT_SCOPE, ending->flags);
	scope->start_ns = frame->start_ns;
	scope->end_ns = ending->end_ns;
	scope->sp = ending->key->sp;
	scope->tid = ending->key->tid;
	scope->tgid = ending->slot->tgid;
	scope->namespace_tid = ending->slot->namespace_tid;
	scope->function = frame->function;
	scope->generation = generation;
	scope->start_tid = ending->key->tid;
	if (ending->key->of_process) {
		scope->tid = bpf_get_current_pid_tgid();
		/* Nothing switches threads inside a function that has a uretprobe. */
		scope->start_tid = frame->flags & OPEN_FRAME_BY_EXIT ? frame->detail : scope->tid;
	}
	emit_submit(scope);
	return 0;
}

static __noinline int emit_frame(struct ending *ending, struct open_frame *frame)
{
	struct pairing_settings *set = current_settings();
	struct pending_loss *pending = emit_pending();

	return pending && set ? emit_scope(ending, frame, pending, set->generation) : -1;
}

/* Whom a record of a thread is about. */
struct thread_ids {
	u32 type; /* enum scope_event_type */
	u32 tid;
	u32 tgid;
	u32 namespace_tid;
	u32 former; /* struct thread_record */
};

/* 0, or -1 when it found no room. */
static __noinline int emit_thread_ids(const struct thread_ids *ids, struct task_struct *task,
				      const void *comm, u64 now)
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
	emit_header(&record->header, ids->type, 0);
	record->thread_start_ns = task->start_time;
	record->time_ns = now;
	record->tid = ids->tid;
	record->tgid = ids->tgid;
	record->namespace_tid = ids->namespace_tid;
	record->former = ids->former;
	__builtin_memset(record->comm, 0, sizeof(record->comm));
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	emit_submit(record);
	return 0;
}

/*
 * Of the thread whose keys these are, with the ids that it has there: after an exec it may have
 * others.
 */
static __noinline int emit_thread(struct thread_keys *keys, struct task_struct *task,
				  const void *comm, u32 type, u64 now)
{
	struct thread_ids ids = {type, keys->tid, keys->tgid, keys->namespace_tid, 0};

	return emit_thread_ids(&ids, task, comm, now);
}

#endif
