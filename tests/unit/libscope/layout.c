// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "helper.h"
#include "event/event.h"
#include "validate.h"

Test(layout, segments_of_all_sizes_are_disjoint_and_whole)
{
	for (uint32_t rings = 1; rings <= SCOPE_RINGS_MAX; rings++) {
		for (uint32_t slots = SCOPE_SLOTS_MIN; slots <= SCOPE_SLOTS_MAX; slots *= 2) {
			struct scope_layout layout = scope_layout(rings, slots);

			cr_assert(layout.control_offset >= sizeof(struct scope_header));
			cr_assert(layout.control_size >=
				  sizeof(struct scope_control) + rings * sizeof(struct scope_ring_position));
			cr_assert_eq(layout.threads_offset, layout.control_offset + layout.control_size);
			cr_assert_eq(layout.rings_offset, layout.threads_offset + layout.threads_size);
			cr_assert_eq(layout.ring_size, 128 + 64 * (uint64_t)slots);
			cr_assert(layout.segment_size >= layout.rings_offset + rings * layout.ring_size);
			cr_assert_eq(layout.control_offset % SCOPE_SEGMENT_ALIGN, 0);
			cr_assert_eq(layout.rings_offset % SCOPE_SEGMENT_ALIGN, 0);
			cr_assert_eq(layout.segment_size % SCOPE_SEGMENT_ALIGN, 0);
		}
	}
}

Test(layout, kinds_and_clocks_are_the_timelines)
{
	cr_assert_eq((int)SCOPE_KIND_START, (int)MANUAL_START);
	cr_assert_eq((int)SCOPE_KIND_STOP, (int)MANUAL_STOP);
	cr_assert_eq((int)SCOPE_KIND_COMPLETE, (int)MANUAL_COMPLETE);
	cr_assert_eq((int)SCOPE_KIND_INSTANT, (int)MANUAL_INSTANT);
	cr_assert_eq((int)SCOPE_KIND_COUNTER_INT, (int)MANUAL_COUNTER_INT);
	cr_assert_eq((int)SCOPE_KIND_COUNTER_DOUBLE, (int)MANUAL_COUNTER_DOUBLE);
	cr_assert_eq((int)SCOPE_KIND_ASYNC_START, (int)MANUAL_ASYNC_START);
	cr_assert_eq((int)SCOPE_KIND_ASYNC_STOP, (int)MANUAL_ASYNC_STOP);
	cr_assert_eq((int)SCOPE_KIND_THREAD_START, (int)MANUAL_THREAD_START);
	cr_assert_eq((int)SCOPE_KIND_THREAD_NAME, (int)MANUAL_THREAD_NAME);
	cr_assert_eq((int)SCOPE_KIND_FRAME, (int)MANUAL_FRAME);
	cr_assert_eq((int)SCOPE_KIND_ARGUMENT, (int)MANUAL_ARGUMENT);
	cr_assert_eq((int)SCOPE_KIND_FLOW, (int)MANUAL_FLOW);
	cr_assert_eq((int)SCOPE_CLOCK_MONOTONIC, (int)CLOCK_ID_MONOTONIC);
	cr_assert_eq((int)SCOPE_CLOCK_TSC, (int)CLOCK_ID_TSC);
	cr_assert_eq((int)SCOPE_CLOCK_CNTVCT, (int)CLOCK_ID_CNTVCT);
}

Test(layout, constructor_makes_a_segment_of_the_default_size)
{
	cr_assert_not_null(own_header());
	cr_assert_eq(scope_validate_header(own_header(), own_header()->segment_size), 0);
	cr_assert_eq(own_header()->ring_count, 16);
	cr_assert_eq(own_header()->slots_per_ring, 8192);
}

/* `step` apart, from `first` on: no ring gets more than twice its share, nor less than half. */
static void check_spread(uint32_t rings, uint32_t first, uint32_t step_size)
{
	enum { SHARE = 64 };
	uint32_t hits[SCOPE_RINGS_MAX] = {0};

	for (uint32_t i = 0; i < rings * SHARE; i++) {
		uint32_t ring = scope_ring_of(first + i * step_size, rings);

		cr_assert(ring < rings);
		hits[ring]++;
	}
	for (uint32_t i = 0; i < rings; i++)
		cr_assert(hits[i] <= 2 * SHARE && hits[i] >= SHARE / 2,
			  "%u rings, ids from %u by %u: %u on ring %u", rings, first, step_size, hits[i], i);
}

Test(layout, thread_ids_in_runs_and_in_fours_spread_over_any_number_of_rings)
{
	static const uint32_t firsts[] = {1, 2, 1000, 4096, 32768, 99999, 4000000, 0x7ffff000};

	for (uint32_t rings = 1; rings <= SCOPE_RINGS_MAX; rings++) {
		for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
			check_spread(rings, firsts[i], 1);
			check_spread(rings, firsts[i], 4);
		}
	}
}

Test(layout, check_sees_any_changed_bit_and_any_other_claim)
{
	uint64_t word[SCOPE_RECORD_WORDS] = {1, 2, 3, 4, 5, 6, 7}, zero[SCOPE_RECORD_WORDS] = {0};
	uint64_t check = scope_check(41, word);

	for (unsigned bit = 0; bit < 64 * SCOPE_RECORD_WORDS; bit++) {
		word[bit / 64] ^= 1ull << (bit % 64);
		cr_assert_neq(scope_check(41, word), check);
		word[bit / 64] ^= 1ull << (bit % 64);
	}
	for (uint64_t claim = 0; claim < 100000; claim++) {
		cr_assert(claim == 41 || scope_check(claim, word) != check);
		cr_assert_neq(scope_check(claim, zero), 0, "a fresh slot must match no claim");
	}
}
