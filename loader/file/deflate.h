/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Payloads of chunks made smaller, and whole again. Purpose: CHUNK_DEFLATED in both directions.
 * Owner: one writer or one reader. A deflated payload is the length it had, in 32 bits, and a zlib
 * stream.
 */
#ifndef SCOPETRACE_FILE_DEFLATE_H
#define SCOPETRACE_FILE_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deflater;

/*
 * Level 1 (fast) to 9 (small), for payloads of up to `longest` bytes. NULL: out of memory (not
 * said).
 */
struct deflater *deflater_create(int level, size_t longest);
void deflater_destroy(struct deflater *deflater); /* takes NULL */

/*
 * Deflates a payload. Returns a chunk with room for its header before the payload and for padding
 * behind it, *length being that of its payload; until the next call. NULL if it would be no
 * smaller.
 */
unsigned char *deflater_pack(struct deflater *deflater, const void *payload, uint32_t length,
			     uint32_t *packed);

/* The length that a deflated payload says it had; 0 if it cannot be one. */
uint32_t inflated_length(const void *payload, uint32_t length);

/*
 * Inflates into exactly inflated_length() bytes. 0, -EBADMSG if it is not what it says, or -ENOMEM.
 */
int inflate_payload(const void *payload, uint32_t length, void *inflated);

#endif
