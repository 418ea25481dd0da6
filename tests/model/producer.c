// SPDX-License-Identifier: GPL-2.0-or-later
/* libscope/producer.c as it is, with hooks, and what the tests need of its insides. */
#include "hooks.h"

#ifdef FIXED_TICKS
/* Times that depend on nothing, so that a run can be repeated. */
#define clock_ticks(clock) ((void)(clock), (uint64_t)1)
#endif

#include "../../libscope/producer.c"

#include "sides.h"

_Static_assert(sizeof(struct thread) <= sizeof(struct side_thread), "room for it");

void side_thread_leave(struct side_thread *thread)
{
	memcpy(thread->bytes, &self, sizeof(self));
}

void side_thread_enter(const struct side_thread *thread)
{
	memcpy(&self, thread->bytes, sizeof(self));
}

void side_thread_begin(uint32_t tid, struct scope_ring *ring, uint32_t slots, const uint64_t *capture_until)
{
	self = (struct thread){.segment = scope_gate.segment,
			       .ring = ring,
			       .capture_until = capture_until,
			       .slot_mask = slots - 1,
			       .tid = tid,
			       .reader_epoch = *capture_until & SCOPE_EPOCH_MASK};
}
