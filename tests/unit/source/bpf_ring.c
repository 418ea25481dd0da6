// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The reading of a ring, over memory laid out as the kernel lays it out: every state a header can
 * be in.
 */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <string.h>

#include "source/bpf_ring.h"

enum { SIZE = 4096 };

struct fake {
	uint64_t consumer;
	uint64_t producer;
	/* the second half mirrors the first, as the double mapping does */
	_Alignas(8) uint8_t data[2 * SIZE];
	struct bpf_ring ring;
};

static void reset(struct fake *fake, uint64_t position)
{
	memset(fake, 0, sizeof(*fake));
	fake->consumer = fake->producer = position;
	fake->ring.consumer = &fake->consumer;
	fake->ring.producer = &fake->producer;
	fake->ring.data = fake->data;
	fake->ring.size = SIZE;
	fake->ring.position = position;
}

static void put(struct fake *fake, uint32_t length, uint32_t flags, uint8_t fill)
{
	uint64_t at = fake->producer & (SIZE - 1);
	uint32_t word = length | flags;

	memcpy(fake->data + at, &word, sizeof(word));
	memset(fake->data + at + BPF_RINGBUF_HDR_SZ, fill, length);
	for (uint64_t i = 0; i < SIZE; i++) /* the mirror */
		if (at + BPF_RINGBUF_HDR_SZ + length > SIZE + i)
			fake->data[i] = fake->data[SIZE + i];
	fake->producer += (length + BPF_RINGBUF_HDR_SZ + 7) & ~7u;
}

static enum bpf_ring_state next(struct fake *fake, const void **record, uint32_t *length)
{
	return bpf_ring_next(&fake->ring, bpf_ring_produced(&fake->ring), record, length);
}

Test(bpf_ring, records_in_order)
{
	struct fake fake;
	const void *record;
	uint32_t length;

	reset(&fake, 0);
	put(&fake, 56, 0, 1);
	put(&fake, 33, 0, 2); /* rounded up to the next 8 bytes */
	cr_assert_eq(next(&fake, &record, &length), BPF_RING_RECORD);
	cr_expect_eq(length, 56);
	cr_expect_eq(*(const uint8_t *)record, 1);
	cr_assert_eq(next(&fake, &record, &length), BPF_RING_RECORD);
	cr_expect_eq(length, 33);
	cr_expect_eq(*(const uint8_t *)record, 2);
	cr_expect_eq(next(&fake, &record, &length), BPF_RING_EMPTY);
	cr_expect_eq(fake.consumer, 0, "nothing is given back before it is said");
	bpf_ring_release(&fake.ring);
	cr_expect_eq(fake.consumer, fake.producer);
}

Test(bpf_ring, rewind_reads_again)
{
	struct fake fake;
	const void *first, *again;
	uint32_t length;

	reset(&fake, 128);
	put(&fake, 32, 0, 1);
	cr_assert_eq(next(&fake, &first, &length), BPF_RING_RECORD);
	bpf_ring_rewind(&fake.ring);
	cr_assert_eq(next(&fake, &again, &length), BPF_RING_RECORD);
	cr_expect_eq(first, again);
}

Test(bpf_ring, a_busy_record_holds_back_those_behind_it)
{
	struct fake fake;
	const void *record;
	uint32_t length;

	reset(&fake, 0);
	put(&fake, 32, BPF_RINGBUF_BUSY_BIT, 1);
	put(&fake, 32, 0, 2);
	cr_expect_eq(next(&fake, &record, &length), BPF_RING_EMPTY);
	bpf_ring_release(&fake.ring);
	cr_expect_eq(fake.consumer, 0);
}

Test(bpf_ring, discarded_records_are_skipped)
{
	struct fake fake;
	const void *record;
	uint32_t length;

	reset(&fake, 0);
	put(&fake, 32, BPF_RINGBUF_DISCARD_BIT, 1);
	put(&fake, 24, 0, 2);
	put(&fake, 32, BPF_RINGBUF_DISCARD_BIT, 3);
	cr_assert_eq(next(&fake, &record, &length), BPF_RING_RECORD);
	cr_expect_eq(length, 24);
	cr_expect_eq(next(&fake, &record, &length), BPF_RING_EMPTY);
	bpf_ring_release(&fake.ring);
	cr_expect_eq(fake.consumer, fake.producer);
}

Test(bpf_ring, a_record_over_the_end)
{
	struct fake fake;
	const uint8_t *bytes;
	const void *record;
	uint32_t length;

	reset(&fake, 7 * (uint64_t)SIZE + SIZE - 24);
	put(&fake, 56, 0, 9);
	cr_assert_eq(next(&fake, &record, &length), BPF_RING_RECORD);
	bytes = record;
	cr_expect_eq(length, 56);
	for (uint32_t i = 0; i < length; i++)
		cr_expect_eq(bytes[i], 9);
}

Test(bpf_ring, a_length_that_cannot_be)
{
	struct fake fake;
	const void *record;
	uint32_t length;

	reset(&fake, 0);
	put(&fake, 32, 0, 1);
	/* one byte more than was produced, once rounded up */
	memcpy(fake.data, &(uint32_t){33}, 4);
	cr_expect_eq(next(&fake, &record, &length), BPF_RING_DAMAGED);
	memcpy(fake.data, &(uint32_t){0x3fffffff}, 4);
	cr_expect_eq(next(&fake, &record, &length), BPF_RING_DAMAGED);
	cr_expect_eq(fake.ring.position, 0, "it goes no further");
}

Test(bpf_ring, a_file_that_is_no_ring)
{
	struct bpf_ring ring;

	cr_expect_lt(bpf_ring_map(&ring, 0), 0);
	cr_expect_null(ring.consumer);
	bpf_ring_unmap(&ring);
}
