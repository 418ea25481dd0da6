// SPDX-License-Identifier: BSD-2-Clause
#include "validate.h"

#include <errno.h>

static bool sizes_valid(const struct scope_header *header)
{
	return header->header_size >= sizeof(*header) && header->header_size <= SCOPE_SEGMENT_ALIGN &&
	       header->record_size == sizeof(struct scope_record) &&
	       header->slot_size == sizeof(struct scope_slot) && header->ring_count >= 1 &&
	       header->ring_count <= SCOPE_RINGS_MAX && header->slots_per_ring >= SCOPE_SLOTS_MIN &&
	       header->slots_per_ring <= SCOPE_SLOTS_MAX &&
	       (header->slots_per_ring & (header->slots_per_ring - 1)) == 0;
}

/* The layout of a major version follows from the two counts, so nothing but that one is believed. */
static bool layout_valid(const struct scope_header *header, uint64_t length)
{
	struct scope_layout layout = scope_layout(header->ring_count, header->slots_per_ring);

	return layout.segment_size == length && header->segment_size == layout.segment_size &&
	       header->control_offset == layout.control_offset &&
	       header->control_size == layout.control_size &&
	       header->threads_offset == layout.threads_offset &&
	       header->threads_size == layout.threads_size && header->rings_offset == layout.rings_offset &&
	       header->ring_size == layout.ring_size;
}

int scope_validate_header(const struct scope_header *header, uint64_t length)
{
	if (header->magic == 0)
		return -EAGAIN;
	if (header->magic != SCOPE_MAGIC || header->endian != SCOPE_ENDIAN_MARK)
		return -EBADMSG;
	if (header->abi_major != SCOPE_ABI_MAJOR)
		return -EPROTO;
	if (!sizes_valid(header) || !layout_valid(header, length))
		return -EBADMSG;
	if (header->clock < SCOPE_CLOCK_MONOTONIC || header->clock > SCOPE_CLOCK_CNTVCT || header->pid == 0)
		return -EBADMSG;
	return 0;
}

bool scope_validate_position(const struct scope_position *position, uint64_t cursor)
{
	uint64_t left = position->next;

	if (position->next > cursor || position->hole_count > SCOPE_HOLES_MAX || position->hole_count > left)
		return false;
	left -= position->hole_count;
	if (position->lost > left || position->written_off > left - position->lost)
		return false;
	for (uint64_t i = 0; i < position->hole_count; i++)
		if (position->hole[i] >= position->next || (i && position->hole[i] <= position->hole[i - 1]))
			return false;
	return true;
}

bool scope_validate_record(const struct scope_record *record)
{
	uint64_t room = scope_kind_has_value(record->kind) ? SCOPE_VALUE_OFFSET : sizeof(record->name);

	return record->kind >= SCOPE_KIND_START && record->kind <= SCOPE_KIND_LAST &&
	       record->name_length <= room &&
	       (record->kind == SCOPE_KIND_COMPLETE || (record->flags & ~SCOPE_RECORD_CONTINUED) == 0) &&
	       record->tid != 0;
}
