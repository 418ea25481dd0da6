/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The shared-memory format, one header for producer and reader. Purpose: what lies where in the segment of a
 * process, and the check stamp that says whether a slot is what its claim's writer wrote. Owners: the process
 * writes all of it but the control area, of which it writes only `capture_until`; its one reader writes the
 * control area and nothing else.
 *
 *     header | control area | thread table | ring 0 | ring 1 | ...
 *
 * Invariants: fixed-width types, no pointer, enum, bool or long; every offset is a multiple of
 * SCOPE_SEGMENT_ALIGN (the largest page size Linux runs with); byte order is the machine's, named by a mark;
 * enums only grow. A change that an old reader would misread raises SCOPE_ABI_MAJOR.
 */
#ifndef SCOPE_SEGMENT_H
#define SCOPE_SEGMENT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define SCOPE_MAGIC	     0x31746e656d676573ull /* "segment1"; stored last, with release order */
#define SCOPE_ENDIAN_MARK    0x01020304u
#define SCOPE_ABI_MAJOR	     1
#define SCOPE_ABI_MINOR	     1	       /* 1: counters, frames, async, arguments and flows are written */
#define SCOPE_VERSION	     0x000100u /* of the library: 0.1.0 */
#define SCOPE_MEMFD_NAME     "libscope"
#define SCOPE_SEGMENT_ALIGN  65536u
#define SCOPE_RINGS_MAX	     128u
#define SCOPE_RINGS_DEFAULT  16u
#define SCOPE_SLOTS_MIN	     8u
#define SCOPE_SLOTS_MAX	     (1u << 22)
#define SCOPE_SLOTS_BUDGET   (16u * 8192u) /* of all rings together, unless the slots are given */
#define SCOPE_HOLES_MAX	     64u
#define SCOPE_NAME_MAX	     1024u /* bytes of a whole name, continuations included */
#define SCOPE_THREAD_ENTRIES 8192u

/* Kinds of records. Append only; the loader's event.h repeats the values. */
enum scope_record_kind {
	SCOPE_KIND_START = 1,
	SCOPE_KIND_STOP = 2,
	SCOPE_KIND_CONTINUATION = 3, /* more bytes of the name of the record with the same tid and scope_id */
	SCOPE_KIND_COMPLETE = 4,     /* ticks: start; value: ticks at the end */
	SCOPE_KIND_INSTANT = 5,
	SCOPE_KIND_COUNTER_INT = 6,
	SCOPE_KIND_COUNTER_DOUBLE = 7,
	SCOPE_KIND_ASYNC_START = 8,
	SCOPE_KIND_ASYNC_STOP = 9,
	SCOPE_KIND_THREAD_START = 10, /* a thread's first record */
	SCOPE_KIND_THREAD_NAME = 11,
	SCOPE_KIND_FRAME = 12,
	SCOPE_KIND_ARGUMENT = 13,
	SCOPE_KIND_FLOW = 14,
	SCOPE_KIND_LAST = SCOPE_KIND_FLOW,
};

/* What the ticks of the records count. */
enum scope_clock {
	SCOPE_CLOCK_MONOTONIC = 1, /* ns of clock_gettime(CLOCK_MONOTONIC) */
	SCOPE_CLOCK_TSC = 2,	   /* x86 rdtsc */
	SCOPE_CLOCK_CNTVCT = 3,	   /* arm64 cntvct_el0 */
};

/* Flags of a record. */
enum scope_record_flag {
	SCOPE_RECORD_CONTINUED = 1 << 0, /* the name goes on in a continuation record */
	/*
	 * COMPLETE: the bits from here on count the records, continuations aside, that the thread wrote
	 * between start and end: clocks can be too coarse to tell. As many as fit, or more. By this copy of
	 * the library alone.
	 */
	SCOPE_RECORD_INSIDE_SHIFT = 1,
	SCOPE_RECORD_INSIDE_MAX = 0x7fff,
};

/*
 * One event. `name_length` counts the bytes in `name` of this record alone. `scope_id` is the claim of the
 * record that began the scope (of the record itself where nothing was begun); in a continuation, that of the
 * record it continues. Kinds with a second 64-bit value keep it in the last 8 bytes of `name`, so that they
 * hold at most 24 bytes of name.
 */
struct scope_record {
	uint64_t ticks;
	uint64_t scope_id;
	uint32_t tid; /* in the process's own pid namespace */
	uint8_t kind; /* enum scope_record_kind */
	uint8_t name_length;
	uint16_t flags; /* enum scope_record_flag */
	char name[32];
};
static_assert(sizeof(struct scope_record) == 56, "shared memory");
static_assert(offsetof(struct scope_record, scope_id) == 8, "shared memory");
static_assert(offsetof(struct scope_record, tid) == 16, "shared memory");
static_assert(offsetof(struct scope_record, kind) == 20, "shared memory");
static_assert(offsetof(struct scope_record, name_length) == 21, "shared memory");
static_assert(offsetof(struct scope_record, flags) == 22, "shared memory");
static_assert(offsetof(struct scope_record, name) == 24, "shared memory");

#define SCOPE_RECORD_WORDS 7u
#define SCOPE_VALUE_OFFSET 24u /* of the value, within `name` */

/* True for the kinds whose last 8 bytes of name are a value. */
static inline int scope_kind_has_value(uint8_t kind)
{
	return kind == SCOPE_KIND_COMPLETE ||
	       (kind >= SCOPE_KIND_COUNTER_INT && kind <= SCOPE_KIND_ASYNC_STOP) ||
	       kind == SCOPE_KIND_ARGUMENT || kind == SCOPE_KIND_FLOW;
}

/* A slot: the record as words, which are stored and loaded one by one, and the check over them and the claim.
 */
struct scope_slot {
	_Alignas(64) uint64_t word[SCOPE_RECORD_WORDS];
	uint64_t stamp;
};
static_assert(sizeof(struct scope_slot) == 64, "one cache line");
static_assert(offsetof(struct scope_slot, stamp) == 56, "shared memory");

/*
 * The check of a slot: multilinear over the claim and the seven words. Multipliers are odd, so that no single
 * word can differ unseen; claim + 1, so that the zeroes of a fresh segment match no claim.
 */
static inline __attribute__((always_inline)) uint64_t scope_check(uint64_t claim,
								  const uint64_t word[SCOPE_RECORD_WORDS])
{
	uint64_t sum = (claim + 1) * 0x9E3779B97F4A7C15ull + word[0] * 0xC2B2AE3D27D4EB4Full +
		       word[1] * 0x165667B19E3779F9ull + word[2] * 0xD6E8FEB86659FD93ull +
		       word[3] * 0xA0761D6478BD642Full + word[4] * 0xE7037ED1A0B428DBull +
		       word[5] * 0x8EBC6AF09C88C6E3ull + word[6] * 0x589965CC75374CC3ull;

	return sum ^ (sum >> 29);
}

/* A ring: the cursor has 128 bytes of its own, because lines are fetched in pairs. The slots follow. */
struct scope_ring {
	_Alignas(128) uint64_t write_cursor; /* the next claim; never wraps back */
	uint8_t reserved0[120];
};
static_assert(sizeof(struct scope_ring) == 128, "shared memory");

/*
 * Where a reader stands in one ring. Every claim below `next` is delivered, lost, written off or an open
 * hole, so what was delivered is next - lost - written_off - hole_count, and one store of `next` takes a
 * record for good.
 */
struct scope_position {
	uint64_t next;
	uint64_t lost;
	uint64_t written_off;
	uint64_t hole_count;
	uint64_t hole[SCOPE_HOLES_MAX]; /* claims, ascending */
};
static_assert(sizeof(struct scope_position) == 544, "shared memory");

/* What became of the claims of a ring since a capture of several readers began: see `account_of`. */
struct scope_account {
	uint64_t events;	/* delivered, but for */
	uint64_t continuations; /* of names */
	uint64_t lost;		/* written off or lapped */
};

/* Two copies: a change of more than `next` is written to the copy not in use, and `current` then names that
 * one. */
struct scope_ring_position {
	uint64_t current;	     /* 0 or 1 */
	uint64_t written_off_before; /* of position.written_off: before the account began */
	struct scope_account account[2];
	struct scope_position position[2];
};
static_assert(sizeof(struct scope_ring_position) == 1152, "shared memory");

/*
 * The control area: the only memory that a reader writes. One position per ring follows. The lowest bits of
 * `capture_until` say which reader set it: a thread that meets another than at its last record tells its name
 * again, as the new one has not heard it. 0 in these bits is nobody: capture that the process opened itself.
 */
struct scope_control {
	_Alignas(64) uint64_t capture_until; /* ticks of the segment's clock; 0: off */
	uint64_t reader_epoch; /* of the present or the last reader: 1 to SCOPE_EPOCH_MASK, in turn */
	uint64_t account_of; /* a number of the readers' own: which capture the accounts are of; 0: of none */
	uint8_t reserved0[40];
};
#define SCOPE_EPOCH_MASK   255u
#define SCOPE_EPOCH_CLOSED 256u /* in reader_epoch: that reader is done, it did not die */
static_assert(sizeof(struct scope_control) == 64, "shared memory");

/*
 * The header. Offsets are from the start of the segment. Written before `magic`, never afterwards, but for
 * `copies`.
 */
struct scope_header {
	uint64_t magic;
	uint32_t endian;
	uint16_t abi_major;
	uint16_t abi_minor;
	uint32_t header_size;
	uint32_t record_size;
	uint32_t slot_size;
	uint32_t ring_count;
	uint32_t slots_per_ring; /* a power of two */
	uint32_t clock;		 /* enum scope_clock */
	uint64_t segment_size;
	uint64_t control_offset;
	uint64_t control_size;
	uint64_t threads_offset;
	uint64_t threads_size;
	uint64_t rings_offset;
	uint64_t ring_size;	/* from one ring to the next */
	uint64_t process_start; /* /proc/PID/stat, field 22; 0: unknown */
	uint32_t pid;		/* in the process's own pid namespace */
	uint32_t library_version;
	uint32_t generation; /* counts the segments of a line of forks: tokens of a parent's scopes end
				nothing in its child */
	uint32_t copies;     /* copies of the library that write to this segment; it may grow */
};
static_assert(sizeof(struct scope_header) == 120, "shared memory");
static_assert(offsetof(struct scope_header, ring_count) == 28, "shared memory");
static_assert(offsetof(struct scope_header, segment_size) == 40, "shared memory");
static_assert(offsetof(struct scope_header, rings_offset) == 80, "shared memory");
static_assert(offsetof(struct scope_header, pid) == 104, "shared memory");

/* The sizes that follow from ring count and slots. Both must be within their limits. */
struct scope_layout {
	uint64_t control_offset;
	uint64_t control_size;
	uint64_t threads_offset;
	uint64_t threads_size;
	uint64_t rings_offset;
	uint64_t ring_size;
	uint64_t segment_size;
};

static inline uint64_t scope_align(uint64_t size)
{
	return (size + SCOPE_SEGMENT_ALIGN - 1) / SCOPE_SEGMENT_ALIGN * SCOPE_SEGMENT_ALIGN;
}

static inline struct scope_layout scope_layout(uint32_t ring_count, uint32_t slots_per_ring)
{
	struct scope_layout layout;

	layout.control_offset = SCOPE_SEGMENT_ALIGN;
	layout.control_size = scope_align(sizeof(struct scope_control) +
					  (uint64_t)ring_count * sizeof(struct scope_ring_position));
	layout.threads_offset = layout.control_offset + layout.control_size;
	layout.threads_size = scope_align(SCOPE_THREAD_ENTRIES * sizeof(uint64_t));
	layout.rings_offset = layout.threads_offset + layout.threads_size;
	layout.ring_size = sizeof(struct scope_ring) + (uint64_t)slots_per_ring * sizeof(struct scope_slot);
	layout.segment_size = scope_align(layout.rings_offset + ring_count * layout.ring_size);
	return layout;
}

/*
 * The ring of a thread: multiplied by the golden ratio, the high bits scaled to the count. Thread ids are
 * handed out in runs, and in fours on Windows, which a modulo would fold onto a few rings.
 */
static inline uint32_t scope_ring_of(uint32_t tid, uint32_t ring_count)
{
	return (uint32_t)((((tid * 0x9E3779B97F4A7C15ull) >> 32) * ring_count) >> 32);
}

#endif
