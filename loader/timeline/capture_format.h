/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The capture file (*.scope) on disk: man page scopetrace-file(5). Purpose: the one description that
 * capture_write.c and capture_read.c share. Invariants: fixed-width types, asserted sizes, explicit values
 * that only grow; a chunk lies at a multiple of 8 bytes; everything a record names (strings, functions,
 * processes) is declared in an earlier chunk.
 *
 * The file is a sequence of chunks: struct chunk_header, `length` bytes of payload, zeros up to a multiple
 * of 8. The first chunk is the header, the last one the footer; a file without a footer was cut short. The
 * layout of struct chunk_header and of struct header_payload is the same in every version of the format, so
 * that any reader can tell which version it has met. A reader skips chunks of a type it does not know if the
 * file's minor version is newer than its own.
 */
#ifndef SCOPETRACE_TIMELINE_CAPTURE_FORMAT_H
#define SCOPETRACE_TIMELINE_CAPTURE_FORMAT_H

#include <zlib.h>

#include "timeline/event.h"

#define CAPTURE_MAJOR	     1
#define CAPTURE_MINOR	     0
#define CAPTURE_CHUNK_MAGIC  0x4b484353u /* the bytes "SCHK" in a little-endian file */
#define CAPTURE_MAGIC	     "scopecap"	 /* the first bytes of the header's payload */
#define CAPTURE_BYTE_ORDER   0x01020304u
#define CAPTURE_CHUNK_MAX    (1u << 20)	 /* the longest payload a reader accepts */
#define CAPTURE_STRING_MAX   (64u << 10) /* the longest string; a longer one is cut to this by the writer */
#define CAPTURE_FUNCTION_MAX 65536u	 /* functions of one capture */

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
	CHUNK_TYPES
};

struct chunk_header {
	uint32_t magic;
	uint32_t type; /* enum chunk_type */
	uint32_t length;
	uint32_t crc; /* chunk_crc() */
};
static_assert(sizeof(struct chunk_header) == 16, "on disk");

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
	uint32_t reserved;
};
static_assert(sizeof(struct header_payload) == 56, "on disk");

/* `count` strings, ids from first_id on, each a uint32_t length, the bytes, zeros up to a multiple of 4. */
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
static_assert(sizeof(struct function_account) == 8 + 18 * 8, "on disk");

/* Totals are of this file: a reader that counts others knows that a chunk is missing. */
struct footer_payload {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t recursion_misses;
	uint64_t records[CHUNK_FOOTER]; /* by chunk type; strings by the string; header: 1 */
};
static_assert(sizeof(struct footer_payload) == 15 * 8, "on disk");

/* `length` with the zeros that follow it. */
static inline uint32_t chunk_padded(uint32_t length)
{
	return (length + 7u) & ~7u;
}

/* CRC-32 over type, length, payload and padding: the only bytes outside it are the magic and itself. */
static inline uint32_t chunk_crc(const struct chunk_header *header, const void *payload)
{
	uint32_t words[2] = {header->type, header->length};
	uLong crc = crc32(0, (const Bytef *)words, sizeof(words));

	return (uint32_t)crc32(crc, payload, chunk_padded(header->length));
}

#endif
