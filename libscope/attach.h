/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How a copy of libscope comes by the segment of its process. Purpose: adopt the one that another copy made,
 * else make it. Async-signal-safe. A segment is never unmapped once records may have been written to it.
 */
#ifndef SCOPE_ATTACH_H
#define SCOPE_ATTACH_H

#include "config.h"
#include "segment.h"

struct scope_attachment {
	struct scope_header *header;
	int descriptor; /* of a segment made here; -1 of one adopted */
};

/* Takes the segment of this process that is there already. False if there is none. */
bool scope_attach_adopt(struct scope_attachment *attachment);

/* Makes one. 0 or -errno. */
int scope_attach_create(struct scope_attachment *attachment, const struct scope_config *config,
			uint32_t generation);

/* Gives up a segment that was made here and never written to. */
void scope_attach_discard(struct scope_attachment *attachment);

static inline struct scope_control *scope_control_of(struct scope_header *header)
{
	return (struct scope_control *)((char *)header + header->control_offset);
}

static inline struct scope_ring *scope_ring_at(struct scope_header *header, uint32_t index)
{
	return (struct scope_ring *)((char *)header + header->rings_offset + index * header->ring_size);
}

/*
 * Returns when a reader has turned capture on, or after 200 ms. For a process that a recorder launched: it
 * may be over before anybody has found its segment, which ends with it.
 */
void scope_attach_wait_for_reader(struct scope_header *header);

#endif
