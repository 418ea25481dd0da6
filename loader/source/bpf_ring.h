/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A BPF ring buffer, mapped by hand. Purpose: records are read in place, and the reader's position
 * moves only when it says so: libbpf's callback consumer moves it before the data is safe. One
 * reader at a time; progress: wait-free.
 */
#ifndef SCOPETRACE_SOURCE_BPF_RING_H
#define SCOPETRACE_SOURCE_BPF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_ring {
	uint64_t *consumer;	  /* position of the reader: ours to write */
	const uint64_t *producer; /* position of the writers */
	const uint8_t *data;	  /* mapped twice in a row, so that no record is cut by the end */
	size_t size;
	size_t page;
	uint64_t position; /* how far we have read; *consumer follows at bpf_ring_release */
};

enum bpf_ring_state {
	BPF_RING_EMPTY, /* nothing more that is whole */
	BPF_RING_RECORD,
	BPF_RING_DAMAGED, /* a length that cannot be */
};

/* Maps the ring of map `fd`. 0 or -errno (says nothing). */
int bpf_ring_map(struct bpf_ring *ring, int fd);
void bpf_ring_unmap(struct bpf_ring *ring); /* takes a zeroed one too */

/* The next record before `end`, skipping discarded ones. It stays valid until bpf_ring_release. */
enum bpf_ring_state bpf_ring_next(struct bpf_ring *ring, uint64_t end, const void **record,
				  uint32_t *length);

/* Where the writers are. */
uint64_t bpf_ring_produced(const struct bpf_ring *ring);

/* Gives back all that was read. */
void bpf_ring_release(struct bpf_ring *ring);

/*
 * That the account of what was put in is written: for whoever maps the ring later. It stands behind
 * the reader's position: the rest of that page is nobody's, and it lives as long as the ring.
 */
void bpf_ring_set_accounted(struct bpf_ring *ring);
bool bpf_ring_is_accounted(const struct bpf_ring *ring);

/* Reads again from where the last release left off. */
void bpf_ring_rewind(struct bpf_ring *ring);

#endif
