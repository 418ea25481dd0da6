/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints sizes, offsets and values that other builds rely on, as tests/api/abi.txt has them. For 64-bit
 * machines. */
#include <stdio.h>

#include "scope.h"
#include "segment.h"

#define VALUE(name)	   printf("value %s %llu\n", #name, (unsigned long long)(name))
#define SIZE(type)	   printf("size %s %zu\n", #type, sizeof(type))
#define FIELD(type, field) printf("offset %s.%s %zu\n", #type, #field, offsetof(type, field))

static void print_public(void)
{
	SIZE(scope_token);
	SIZE(struct scope_hot);
	FIELD(struct scope_hot, ticks);
	FIELD(struct scope_hot, segment);
	FIELD(struct scope_hot, name);
	FIELD(struct scope_hot, length);
	FIELD(struct scope_hot, events);
	SIZE(struct scope_options);
	FIELD(struct scope_options, size);
	FIELD(struct scope_options, rings);
	FIELD(struct scope_options, slots_per_ring);
	FIELD(struct scope_options, clock);
	FIELD(struct scope_gate, offset);
	FIELD(struct scope_gate, segment);
	printf("offset armed is the page %d\n", offsetof(struct scope_gate, armed) == SCOPE_GATE_PAGE);
	VALUE(SCOPE_CLOCK_DEFAULT);
	VALUE(SCOPE_CLOCK_SYSTEM);
}

static void print_header(void)
{
	SIZE(struct scope_header);
	FIELD(struct scope_header, magic);
	FIELD(struct scope_header, endian);
	FIELD(struct scope_header, abi_major);
	FIELD(struct scope_header, abi_minor);
	FIELD(struct scope_header, header_size);
	FIELD(struct scope_header, record_size);
	FIELD(struct scope_header, slot_size);
	FIELD(struct scope_header, ring_count);
	FIELD(struct scope_header, slots_per_ring);
	FIELD(struct scope_header, clock);
	FIELD(struct scope_header, segment_size);
	FIELD(struct scope_header, control_offset);
	FIELD(struct scope_header, control_size);
	FIELD(struct scope_header, threads_offset);
	FIELD(struct scope_header, threads_size);
	FIELD(struct scope_header, rings_offset);
	FIELD(struct scope_header, ring_size);
	FIELD(struct scope_header, process_start);
	FIELD(struct scope_header, pid);
	FIELD(struct scope_header, library_version);
	FIELD(struct scope_header, generation);
	FIELD(struct scope_header, copies);
}

static void print_segment(void)
{
	SIZE(struct scope_control);
	FIELD(struct scope_control, capture_until);
	FIELD(struct scope_control, reader_epoch);
	SIZE(struct scope_ring_position);
	SIZE(struct scope_position);
	SIZE(struct scope_ring);
	SIZE(struct scope_slot);
	FIELD(struct scope_slot, stamp);
	SIZE(struct scope_record);
	FIELD(struct scope_record, ticks);
	FIELD(struct scope_record, scope_id);
	FIELD(struct scope_record, tid);
	FIELD(struct scope_record, kind);
	FIELD(struct scope_record, name_length);
	FIELD(struct scope_record, flags);
	FIELD(struct scope_record, name);
}

static void print_values(void)
{
	VALUE(SCOPE_ABI_MAJOR);
	VALUE(SCOPE_ABI_MINOR);
	VALUE(SCOPE_MAGIC);
	VALUE(SCOPE_ENDIAN_MARK);
	VALUE(SCOPE_SEGMENT_ALIGN);
	VALUE(SCOPE_VALUE_OFFSET);
	VALUE(SCOPE_THREAD_ENTRIES);
	VALUE(SCOPE_KIND_START);
	VALUE(SCOPE_KIND_STOP);
	VALUE(SCOPE_KIND_CONTINUATION);
	VALUE(SCOPE_KIND_COMPLETE);
	VALUE(SCOPE_KIND_INSTANT);
	VALUE(SCOPE_KIND_COUNTER_INT);
	VALUE(SCOPE_KIND_COUNTER_DOUBLE);
	VALUE(SCOPE_KIND_ASYNC_START);
	VALUE(SCOPE_KIND_ASYNC_STOP);
	VALUE(SCOPE_KIND_THREAD_START);
	VALUE(SCOPE_KIND_THREAD_NAME);
	VALUE(SCOPE_KIND_FRAME);
	VALUE(SCOPE_KIND_ARGUMENT);
	VALUE(SCOPE_KIND_FLOW);
	VALUE(SCOPE_KIND_LAST);
	VALUE(SCOPE_CLOCK_MONOTONIC);
	VALUE(SCOPE_CLOCK_TSC);
	VALUE(SCOPE_CLOCK_CNTVCT);
	VALUE(SCOPE_RECORD_CONTINUED);
	VALUE(SCOPE_RECORD_INSIDE_SHIFT);
	VALUE(SCOPE_RECORD_INSIDE_MAX);
}

int main(void)
{
	uint64_t word[SCOPE_RECORD_WORDS] = {1, 2, 3, 4, 5, 6, 7};

	print_public();
	print_header();
	print_segment();
	print_values();
	printf("value check of claim 41 and words 1 to 7 %llu\n", (unsigned long long)scope_check(41, word));
	printf("value ring of thread 12345 among 16 %u\n", scope_ring_of(12345, 16));
	return 0;
}
