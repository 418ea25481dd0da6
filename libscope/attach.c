// SPDX-License-Identifier: BSD-2-Clause
#include "attach.h"

#include <errno.h>

#include "clock.h"
#include "platform.h"

#define CAPTURE_AT_START_NS 5000000000ull

/* The recorder that launched us looks for the segment each millisecond; if it has died, we do not wait long
 * for it. */
#define READER_WAIT_NS	200000000ull
#define READER_PAUSE_NS 100000ull

static bool is_ours(const void *address, uint64_t size)
{
	const struct scope_header *header = address;

	/* Acquire: pairs with the release in scope_attach_create; what it publishes is complete. */
	return size >= sizeof(*header) && __atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) == SCOPE_MAGIC &&
	       header->abi_major == SCOPE_ABI_MAJOR && header->slot_size == sizeof(struct scope_slot) &&
	       header->segment_size == size && header->pid == scope_platform_pid() &&
	       header->process_start == scope_platform_process_start();
}

bool scope_attach_adopt(struct scope_attachment *attachment)
{
	attachment->descriptor = -1;
	attachment->header = scope_platform_find(is_ours);
	if (!attachment->header)
		return false;
	__atomic_fetch_add(&attachment->header->copies, 1, __ATOMIC_RELAXED);
	return true;
}

static void fill_header(struct scope_header *header, const struct scope_config *config,
			const struct scope_layout *layout)
{
	header->endian = SCOPE_ENDIAN_MARK;
	header->abi_major = SCOPE_ABI_MAJOR;
	header->abi_minor = SCOPE_ABI_MINOR;
	header->header_size = sizeof(*header);
	header->record_size = sizeof(struct scope_record);
	header->slot_size = sizeof(struct scope_slot);
	header->ring_count = config->rings;
	header->slots_per_ring = config->slots_per_ring;
	header->clock = config->clock;
	header->segment_size = layout->segment_size;
	header->control_offset = layout->control_offset;
	header->control_size = layout->control_size;
	header->threads_offset = layout->threads_offset;
	header->threads_size = layout->threads_size;
	header->rings_offset = layout->rings_offset;
	header->ring_size = layout->ring_size;
	header->process_start = scope_platform_process_start();
	header->pid = scope_platform_pid();
	header->library_version = SCOPE_VERSION;
	header->copies = 1;
}

int scope_attach_create(struct scope_attachment *attachment, const struct scope_config *config,
			uint32_t generation)
{
	struct scope_layout layout = scope_layout(config->rings, config->slots_per_ring);
	int descriptor = scope_platform_create(layout.segment_size);
	struct scope_header *header;

	if (descriptor < 0)
		return descriptor;
	header = scope_platform_map(descriptor, layout.segment_size);
	if (!header) {
		scope_platform_close(descriptor, NULL);
		return -ENOMEM;
	}
	fill_header(header, config, &layout);
	header->generation = generation;
	if (config->capture_pid == SCOPE_CAPTURE_ANY || config->capture_pid == header->pid)
		scope_control_of(header)->capture_until =
			(clock_ticks(config->clock) +
			 scope_clock_ticks_of_ns(config->clock, CAPTURE_AT_START_NS)) &
			~(uint64_t)SCOPE_EPOCH_MASK;
	/* Release: pairs with the acquire loads of another copy (is_ours) and of the reader. */
	__atomic_store_n(&header->magic, SCOPE_MAGIC, __ATOMIC_RELEASE);
	attachment->header = header;
	attachment->descriptor = descriptor;
	return 0;
}

void scope_attach_wait_for_reader(struct scope_header *header)
{
	const uint64_t *capture_until = &scope_control_of(header)->capture_until;
	uint64_t end = clock_monotonic_ns() + READER_WAIT_NS;

	while (!(__atomic_load_n(capture_until, __ATOMIC_RELAXED) & SCOPE_EPOCH_MASK) &&
	       clock_monotonic_ns() < end)
		scope_platform_pause(READER_PAUSE_NS);
}

void scope_attach_discard(struct scope_attachment *attachment)
{
	__atomic_store_n(&attachment->header->magic, 0, __ATOMIC_RELEASE);
	scope_platform_close(attachment->descriptor, attachment->header);
	scope_platform_unmap(attachment->header, attachment->header->segment_size);
}
