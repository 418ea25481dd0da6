/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture file (*.scope) on disk: man page scopetrace-file(5). Purpose: the one description
 * that capture_write.c and capture_chunk.c share. Invariants: fixed-width types, asserted sizes,
 * explicit values that only grow; a chunk lies at a multiple of 8 bytes; everything a record names
 * (strings, functions, processes) is declared in an earlier chunk.
 *
 * The file is a sequence of chunks: struct chunk_header, `length` bytes of payload, zeros up to a
 * multiple of 8. The first chunk is the header, the last one the footer; a file without a footer
 * was cut short. The layout of struct chunk_header and of the first 56 bytes of struct
 * header_payload is the same in every version of the format, so that any reader can tell which
 * version it has met. A later minor version may have more types of chunks, which a reader skips,
 * and longer records, whose ends it skips: the header says how long each kind of record is. The
 * records of an earlier one are shorter: what they lack is zero.
 */
#ifndef SCOPETRACE_FILE_FORMAT_H
#define SCOPETRACE_FILE_FORMAT_H

#include <zlib.h>

#include "event/event.h"

#define SCOPE_FILE_MAJOR       1
#define SCOPE_FILE_MINOR       2
#define SCOPE_FILE_CHUNK_MAGIC 0x4b484353u /* the bytes "SCHK" in a little-endian file */
#define SCOPE_FILE_MAGIC       "scopecap"  /* the first bytes of the header's payload */
#define SCOPE_FILE_BYTE_ORDER  0x01020304u
#define SCOPE_FILE_END_MAGIC   0x444e4553u /* "SEND" */
#define SCOPE_FILE_CHUNK_MAX   (1u << 20)  /* the longest payload a reader accepts */
#define SCOPE_FILE_STRING_MAX \
	(64u << 10) /* the longest string; a longer one is cut to this by the writer */
#define SCOPE_FILE_FUNCTION_MAX 65536u /* functions of one capture */

enum chunk_type {
	CHUNK_HEADER = 1,
	CHUNK_STRING = 2,		/* struct string_batch, then its strings */
	CHUNK_PROCESS = 3,		/* struct process_info... */
	CHUNK_THREAD = 4,		/* struct thread_info... */
	CHUNK_FUNCTION = 5,		/* struct function_info..., ids 0, 1, 2 ... in this order */
	CHUNK_ANCHOR = 6,		/* struct clock_anchor... */
	CHUNK_HOOKED = 7,		/* struct hooked_scope... */
	CHUNK_MANUAL = 8,		/* struct manual_event... */
	CHUNK_LOSS = 9,			/* struct loss_event... */
	CHUNK_FUNCTION_ACCOUNTING = 10, /* struct function_account... */
	CHUNK_SEGMENT_ACCOUNTING = 11,	/* struct segment_accounting... */
	CHUNK_FOOTER = 12,		/* struct footer_payload */
	/* struct ring_span, of the hooked scopes in the next chunk of them */
	CHUNK_SPAN = 13,
	CHUNK_INDEX = 14, /* struct index_head, then struct index_entry... */
	CHUNK_TYPES
};

enum chunk_flag {
	/* the payload is a zlib stream, behind a uint32_t: its length inflated */
	CHUNK_DEFLATED = 1 << 0,
};

/*
 * What a capture is of. Files with the same boot, kind, number and start hold parts of one capture.
 */
enum scope_file_kind {
	/* number: id of the ring's map; start: when its programs were loaded */
	SCOPE_FILE_OF_RING = 1,
	SCOPE_FILE_OF_PROCESS = 2, /* no hooks: pid and start of the process */
};

struct chunk_header {
	uint32_t magic;
	uint16_t type; /* enum chunk_type */
	/*
	 * enum chunk_flag; a chunk with one that a reader does not know is skipped or refused as
	 * one of an unknown type
	 */
	uint16_t flags;
	uint32_t length;
	uint32_t crc; /* chunk_crc() */
};
static_assert(sizeof(struct chunk_header) == 16, "on disk");

#define SCOPE_FILE_RECORD_SIZES 24u   /* of the table in the header: room for types to come */
#define SCOPE_FILE_HEADER_FIRST 56u   /* bytes of the header in version 1.0 */
#define SCOPE_FILE_RECORD_MAX	4096u /* the longest record a reader accepts */

/* Followed by the host's name, the kernel's release and the command line, not terminated. */
struct header_payload {
	char magic[8];
	uint32_t byte_order;
	uint16_t major;
	uint16_t minor;
	uint64_t monotonic_ns; /* three clocks at one moment */
	uint64_t realtime_ns;
	uint64_t boottime_ns;
	uint32_t host_length;
	uint32_t kernel_length;
	uint32_t command_length;
	/* bytes before the texts, whatever this version thinks of them; 0: 56 */
	uint32_t fixed_length;
	/* since version 1.1 */
	uint8_t boot_id[16];   /* of /proc/sys/kernel/random/boot_id; zero: unknown */
	uint32_t capture_kind; /* enum scope_file_kind: what the next two tell apart on this boot */
	uint32_t capture_number;
	uint64_t capture_start_ns;
	/* by chunk type; 0: no records of one size */
	uint16_t record_size[SCOPE_FILE_RECORD_SIZES];
};
static_assert(sizeof(struct header_payload) == 56 + 32 + 2 * SCOPE_FILE_RECORD_SIZES, "on disk");
static_assert(offsetof(struct header_payload, boot_id) == SCOPE_FILE_HEADER_FIRST, "on disk");

/*
 * `count` strings, ids from first_id on, each a uint32_t length, the bytes, zeros up to a multiple
 * of 4.
 */
struct string_batch {
	uint32_t first_id; /* ids start at 1: 0 is the empty string */
	uint32_t count;
};
static_assert(sizeof(struct string_batch) == 8, "on disk");

struct function_account {
	uint32_t function;
	uint32_t reserved;
	struct function_accounting accounting;
};
static_assert(sizeof(struct function_account) == 8 + 20 * 8, "on disk");

/*
 * From where in the kernel's ring the hooked scopes of the next chunk came: positions count bytes
 * since the ring was made. Each record of the ring ends at one, whose low half, in units of 8
 * bytes, is kept with its scope: so that what two files both hold can be told.
 */
struct ring_span {
	uint64_t first; /* no record ends before or at it */
	uint64_t last;	/* none ends behind it */
};
static_assert(sizeof(struct ring_span) == 16, "on disk");

/*
 * The chunks since the index chunk before this one, in their order; none for header, index and
 * footer.
 */
struct index_head {
	uint64_t previous; /* offset of that index chunk; 0: there is none */
	uint64_t count;
};
static_assert(sizeof(struct index_head) == 16, "on disk");

struct index_entry {
	uint64_t offset; /* of the chunk */
	/* hooked: ns, from the earliest start to the latest end; manual: the same in ticks; */
	uint64_t first;
	uint64_t last;	/* threads, anchors, losses: ns; else 0 */
	uint32_t count; /* of its records */
	uint16_t type;	/* enum chunk_type */
	uint16_t reserved;
	/* hooked, manual, thread: whose records they are, if they are all of one thread; else 0 */
	uint32_t pid;
	uint32_t tid;
};
static_assert(sizeof(struct index_entry) == 40, "on disk");

/*
 * Totals are of this file: a reader that counts others knows that a chunk is missing. The last 8
 * bytes of a file are always `chunk_length` and `end_magic`, so that the footer can be found from
 * the end; members to come stand before them.
 */
struct footer_payload {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t recursion_misses;
	uint64_t records[CHUNK_FOOTER]; /* by chunk type; strings by the string; header: 1 */
	/* since version 1.1 */
	uint64_t index_offset; /* of the last index chunk; 0: there is none */
	uint32_t chunk_length; /* of this chunk, its header included */
	uint32_t end_magic;    /* SCOPE_FILE_END_MAGIC */
};
static_assert(sizeof(struct footer_payload) == 17 * 8, "on disk");
static_assert(offsetof(struct footer_payload, end_magic) + 4 == sizeof(struct footer_payload),
	      "on disk");

/*
 * The sizes of the records of each type: of this build, and of version 1.0, which has the shortest.
 */
struct record_size {
	uint16_t here;
	uint16_t first;
};
extern const struct record_size scope_file_record_sizes[CHUNK_TYPES];
static_assert(CHUNK_TYPES <= SCOPE_FILE_RECORD_SIZES, "the table of the header has room");

/* `length` with the zeros that follow it. */
static inline uint32_t chunk_padded(uint32_t length)
{
	return (length + 7u) & ~7u;
}

/*
 * CRC-32 over type, flags, length, payload and padding: the only bytes outside it are the magic and
 * itself.
 */
static inline uint32_t chunk_crc(const struct chunk_header *header, const void *payload)
{
	uint32_t words[2] = {header->type | (uint32_t)header->flags << 16, header->length};
	uLong crc = crc32(0, (const Bytef *)words, sizeof(words));

	return (uint32_t)crc32(crc, payload, chunk_padded(header->length));
}

#endif
