// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/bpf_ring.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LENGTH_MASK (~(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT))

int bpf_ring_map(struct bpf_ring *ring, int fd)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);
	uint8_t *pages;

	memset(ring, 0, sizeof(*ring));
	if (bpf_obj_get_info_by_fd(fd, &info, &length))
		return -errno;
	if (info.type != BPF_MAP_TYPE_RINGBUF)
		return -EINVAL;
	ring->page = (size_t)sysconf(_SC_PAGESIZE);
	ring->size = info.max_entries;
	pages = mmap(NULL, ring->page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pages == MAP_FAILED)
		return -errno;
	ring->consumer = (uint64_t *)pages;
	pages = mmap(NULL, ring->page + 2 * ring->size, PROT_READ, MAP_SHARED, fd,
		     (off_t)ring->page);
	if (pages == MAP_FAILED) {
		int err = -errno;

		bpf_ring_unmap(ring);
		return err;
	}
	ring->producer = (const uint64_t *)pages;
	ring->data = pages + ring->page;
	ring->position = *ring->consumer;
	return 0;
}

void bpf_ring_unmap(struct bpf_ring *ring)
{
	if (ring->consumer)
		munmap(ring->consumer, ring->page);
	if (ring->producer)
		munmap((void *)ring->producer, ring->page + 2 * ring->size);
	memset(ring, 0, sizeof(*ring));
}

uint64_t bpf_ring_produced(const struct bpf_ring *ring)
{
	/*
	 * Acquire: pairs with the kernel's release in bpf_ringbuf_reserve, after which the header
	 * is there.
	 */
	return __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE);
}

enum bpf_ring_state bpf_ring_next(struct bpf_ring *ring, uint64_t end, const void **record,
				  uint32_t *length)
{
	while (ring->position < end) {
		const uint8_t *header = ring->data + (ring->position & (ring->size - 1));
		/* Acquire: pairs with the exchange in bpf_ringbuf_submit, which clears the busy bit behind
		 * the data. */
		uint32_t word = __atomic_load_n((const uint32_t *)header, __ATOMIC_ACQUIRE);
		uint64_t whole = ((uint64_t)(word & LENGTH_MASK) + BPF_RINGBUF_HDR_SZ + 7) & ~7ull;

		if (word & BPF_RINGBUF_BUSY_BIT)
			return BPF_RING_EMPTY;
		if (whole > end - ring->position)
			return BPF_RING_DAMAGED;
		ring->position += whole;
		if (word & BPF_RINGBUF_DISCARD_BIT)
			continue;
		*record = header + BPF_RINGBUF_HDR_SZ;
		*length = word & LENGTH_MASK;
		return BPF_RING_RECORD;
	}
	return BPF_RING_EMPTY;
}

void bpf_ring_release(struct bpf_ring *ring)
{
	/* Release: pairs with the kernel's acquire of the reader's position, which lets writers take the
	 * room. */
	__atomic_store_n(ring->consumer, ring->position, __ATOMIC_RELEASE);
}

void bpf_ring_set_accounted(struct bpf_ring *ring)
{
	/*
	 * Release: pairs with the acquire in bpf_ring_is_accounted; who sees it finds the position,
	 * too.
	 */
	__atomic_store_n(&ring->consumer[1], 1, __ATOMIC_RELEASE);
}

bool bpf_ring_is_accounted(const struct bpf_ring *ring)
{
	return __atomic_load_n(&ring->consumer[1], __ATOMIC_ACQUIRE) != 0;
}

void bpf_ring_rewind(struct bpf_ring *ring)
{
	ring->position = *ring->consumer;
}
