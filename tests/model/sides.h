/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two sides of the ring protocol as the tests drive them: threads of the producer that they begin, leave
 * and enter at will, and a reader on memory of their own. Purpose: what producer.c and reader.c of this
 * directory show of libscope's insides. One reader at a time.
 */
#ifndef TESTS_MODEL_SIDES_H
#define TESTS_MODEL_SIDES_H

#include "reader.h"
#include "segment.h"

struct side_segment {
	struct scope_ring *ring; /* its slots follow */
	struct scope_ring_position *saved;
	uint32_t slots;
};

/* What the producer keeps for a thread. */
struct side_thread {
	_Alignas(16) unsigned char bytes[512];
};

/* The calling thread: becomes a thread of this id that has begun; is put aside; is taken up again. */
void side_thread_begin(uint32_t tid, struct scope_ring *ring, uint32_t slots, const uint64_t *capture_until);
void side_thread_leave(struct side_thread *thread);
void side_thread_enter(const struct side_thread *thread);

/* NULL if the saved position cannot be. */
struct scope_reader *side_reader_open(struct side_segment *segment);
const struct scope_position *side_reader_position(const struct scope_reader *reader);

/* The bound of holes, where the reader was compiled with HOLES_MAX. */
extern uint64_t side_holes_max;

#endif
