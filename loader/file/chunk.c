// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/chunk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/search.h"
#include "base/vec.h"
#include "file/page_cache.h"
#include "file/deflate.h"

#define SECTOR 512 /* what a disk writes whole, at the least */

/*
 * What deflated chunks may come to together: zlib can make a thousand bytes of one, and what
 * readers keep of them is several times larger yet. Records of times and names stay far below a
 * hundred.
 */
#define SWELL_FREE  (64u << 20)
#define SWELL_TIMES 100

/* Bytes that grow as they must. */
struct room {
	unsigned char *bytes;
	size_t capacity;
};

struct chunk_reader {
	struct scope_file *file;
	struct scope_file_cache_window window;
	uint64_t offset; /* of the chunk that comes next */
	uint64_t rest;	 /* bytes of it that are there, where the file ends inside it */
	bool moved;	 /* it has not seen the file from the beginning on */
	bool whole;
	bool trusts;	       /* checksums were right when the file was read before */
	struct ring_span span; /* of the next chunk of hooked scopes */
	struct ring_span read; /* from the first to the last that was told; last 0: none was */
	const struct chunk_drop *drops;
	size_t drop_count;
	struct room stored;			 /* payload and padding as they are in the file */
	struct room inflated;			 /* of a deflated chunk */
	struct room fitted;			 /* its records, in this build's size */
	uint64_t deflated_bytes, inflated_bytes; /* of all deflated chunks so far */
	uint64_t records[CHUNK_TYPES];
};

/*
 * The last chunk reaches beyond the end of the file. If an intact chunk begins inside it, the file
 * was not cut short: the length is wrong. (A limited number of tries, so that a hostile file costs
 * little.)
 */
static bool chunk_follows(const unsigned char *bytes, size_t length)
{
	int tries = 64;

	for (size_t at = 0; at + sizeof(struct chunk_header) <= length && tries; at += 8) {
		struct chunk_header inner;

		memcpy(&inner, bytes + at, sizeof(inner));
		if (inner.magic != SCOPE_FILE_CHUNK_MAGIC)
			continue;
		if (chunk_intact(&inner, bytes + at + sizeof(inner), length - at - sizeof(inner)))
			return true;
		tries--;
	}
	return false;
}

static bool all_zero(const unsigned char *bytes, size_t length)
{
	return !length || (!bytes[0] && !memcmp(bytes, bytes + 1, length - 1));
}

/*
 * The bytes from `offset` to the end of the file, if all of them are 0, at least `least` of them;
 * else 0. When the power fails a file may have its new length already and its last bytes not yet:
 * they are read as zeros.
 */
static uint64_t zeros_to_end(const struct scope_file *file, uint64_t offset, uint64_t least)
{
	unsigned char bytes[16384];
	uint64_t zeros = 0;
	ssize_t have = 0;

	while (file->seekable &&
	       (have = scope_file_read(file, offset + zeros, bytes, sizeof(bytes))) > 0) {
		if (!all_zero(bytes, (size_t)have))
			return 0;
		zeros += (uint64_t)have;
	}
	return have < 0 || zeros < least ? 0 : zeros;
}

/* A chunk of which the end, some sectors, was not written before the power failed. */
static bool ends_in_zeros(struct chunk_reader *reader, uint32_t padded)
{
	uint64_t payload = reader->offset + sizeof(struct chunk_header), zeros;

	if (padded < SECTOR || !all_zero(reader->stored.bytes + padded - SECTOR, SECTOR))
		return false;
	zeros = zeros_to_end(reader->file, payload + padded - SECTOR, SECTOR);
	if (zeros)
		reader->rest = sizeof(struct chunk_header) + padded - SECTOR + zeros;
	return zeros;
}

static int make_room(struct room *room, size_t length)
{
	return vec_reserve((void **)&room->bytes, &room->capacity, length, 1);
}

struct chunk_reader *chunk_reader_create(struct scope_file *file)
{
	struct chunk_reader *reader = calloc(1, sizeof(*reader));

	if (!reader)
		return NULL;
	reader->file = file;
	scope_file_cache_window_init(&reader->window, file->fd);
	reader->offset = file->first_offset;
	reader->records[CHUNK_HEADER] = 1;
	return reader;
}

void chunk_reader_destroy(struct chunk_reader *reader)
{
	if (!reader)
		return;
	free(reader->stored.bytes);
	free(reader->inflated.bytes);
	free(reader->fitted.bytes);
	free(reader);
}

void chunk_reader_trust(struct chunk_reader *reader)
{
	reader->trusts = true;
}

void chunk_reader_seek(struct chunk_reader *reader, uint64_t offset)
{
	reader->offset = offset;
	reader->moved = true;
	reader->whole = false;
}

bool chunk_reader_whole(const struct chunk_reader *reader)
{
	return reader->whole;
}

uint64_t chunk_reader_end(const struct chunk_reader *reader)
{
	return reader->offset;
}

uint64_t chunk_reader_rest(const struct chunk_reader *reader)
{
	return reader->rest;
}

struct ring_span chunk_reader_span(const struct chunk_reader *reader)
{
	return reader->read;
}

/* ---- chunks ---- */

/* Reads the chunk at reader->offset as it is in the file. 1, 0 (the file ends) or -errno (logged). */
static int read_chunk(struct chunk_reader *reader, struct chunk_header *header)
{
	const struct scope_file *file = reader->file;
	uint32_t padded;
	ssize_t have;

	scope_file_cache_read(&reader->window, file->fd, reader->offset);
	have = scope_file_read(file, reader->offset, header, sizeof(*header));
	if (have < 0)
		return (int)have;
	if (have && reader->whole)
		return chunk_damaged(file, reader->offset, "there is more behind the footer");
	reader->rest = (uint64_t)have;
	if (have < (ssize_t)sizeof(*header))
		return 0;
	if (header->magic != SCOPE_FILE_CHUNK_MAGIC) {
		uint64_t zeros = zeros_to_end(file, reader->offset, sizeof(*header));

		if (!zeros)
			return chunk_damaged(file, reader->offset, "no chunk begins here");
		reader->rest = zeros;
		return 0;
	}
	if (header->length > SCOPE_FILE_CHUNK_MAX)
		return chunk_damaged(file, reader->offset, "a chunk of an impossible length");
	padded = chunk_padded(header->length);
	if (make_room(&reader->stored, padded + 8))
		return -ENOMEM;
	have = scope_file_read(file, reader->offset + sizeof(*header), reader->stored.bytes,
			       padded);
	if (have < 0)
		return (int)have;
	reader->rest += (uint64_t)have;
	if ((size_t)have < padded)
		return chunk_follows(reader->stored.bytes, (size_t)have)
			       ? chunk_damaged(file, reader->offset, "a chunk of a wrong length")
			       : 0;
	if (reader->trusts || chunk_intact(header, reader->stored.bytes, padded))
		return 1;
	return ends_in_zeros(reader, padded)
		       ? 0
		       : chunk_damaged(file, reader->offset, "a checksum does not match");
}

/* Who trusts the file has read all of it before, and reads parts of it more than once. */
static bool swells(struct chunk_reader *reader, uint32_t deflated, uint32_t inflated)
{
	reader->deflated_bytes += deflated;
	reader->inflated_bytes += inflated;
	return !reader->trusts &&
	       reader->inflated_bytes > SWELL_FREE + SWELL_TIMES * reader->deflated_bytes;
}

/* Makes a deflated payload whole. */
static int inflate_chunk(struct chunk_reader *reader, struct chunk *chunk, uint16_t flags)
{
	uint32_t length;
	int err;

	if (flags & ~CHUNK_DEFLATED) {
		log_error(
			"the capture %s has chunks with flags 0x%x, which this scopetrace does not know; read "
			"it with a newer one",
			reader->file->path, flags);
		return -EINVAL;
	}
	if (!flags)
		return 0;
	length = inflated_length(chunk->payload, chunk->length);
	if (!length)
		return chunk_damaged(reader->file, chunk->offset,
				     "a deflated chunk of an impossible length");
	if (swells(reader, chunk->length, length))
		return chunk_damaged(
			reader->file, chunk->offset,
			"deflated chunks that inflate to more than a hundred times their size");
	if (make_room(&reader->inflated, length))
		return -ENOMEM;
	err = inflate_payload(chunk->payload, chunk->length, reader->inflated.bytes);
	if (err == -EBADMSG)
		return chunk_damaged(reader->file, chunk->offset,
				     "a chunk that cannot be inflated");
	chunk->payload = reader->inflated.bytes;
	chunk->length = length;
	return err;
}

/* A footer that counts other records than the file holds: chunks are missing, or were put in. */
static int compare_footer(struct chunk_reader *reader, const struct chunk *chunk)
{
	const struct footer_payload *footer = (const struct footer_payload *)chunk->payload;

	if (footer->start_ns > SCOPE_FILE_TIME_MAX || footer->end_ns > SCOPE_FILE_TIME_MAX)
		return chunk_damaged(reader->file, chunk->offset,
				     "a footer with an impossible time");
	for (int type = CHUNK_HEADER; type < CHUNK_FOOTER && !reader->moved; type++) {
		if (footer->records[type] != reader->records[type])
			return chunk_damaged(
				reader->file, chunk->offset,
				"the footer counts other records than the file holds: a part "
				"of the file is missing");
	}
	reader->whole = true;
	return 0;
}

/* Records of another size than ours are copied: their ends cut off, or zeros put behind them. */
static int fit_records(struct chunk_reader *reader, struct chunk *chunk, uint32_t stored)
{
	uint32_t size = chunk->size, common = size < stored ? size : stored;
	const unsigned char *from = chunk->payload;

	if (size == stored)
		return 0;
	if (make_room(&reader->fitted, (size_t)chunk->count * size))
		return -ENOMEM;
	memset(reader->fitted.bytes, 0, (size_t)chunk->count * size);
	for (uint32_t i = 0; i < chunk->count; i++)
		memcpy(reader->fitted.bytes + (size_t)i * size, from + (size_t)i * stored, common);
	chunk->payload = reader->fitted.bytes;
	chunk->length = chunk->count * size;
	return 0;
}

/* Counts its records and brings them to this build's size. */
static int take_records(struct chunk_reader *reader, struct chunk *chunk)
{
	const struct scope_file *file = reader->file;
	uint32_t stored = file->header.record_size[chunk->type];

	if (!chunk->length || chunk->length % stored ||
	    (chunk->type == CHUNK_FOOTER && chunk->length != stored))
		return chunk_damaged(file, chunk->offset,
				     "a chunk that does not hold whole records");
	chunk->count = chunk->length / stored;
	chunk->size = scope_file_record_sizes[chunk->type].here;
	return fit_records(reader, chunk, stored);
}

static int take_strings(struct chunk_reader *reader, struct chunk *chunk)
{
	const struct string_batch *batch = (const struct string_batch *)chunk->payload;

	if (chunk->length < sizeof(*batch))
		return chunk_damaged(reader->file, chunk->offset, "strings out of order");
	chunk->count = batch->count;
	return 0;
}

/* The entries of an index chunk, without its head. */
static int take_index(struct chunk_reader *reader, struct chunk *chunk)
{
	const struct index_head *head = (const struct index_head *)chunk->payload;
	uint64_t count;
	int err;

	if (chunk->length < sizeof(*head))
		return chunk_damaged(reader->file, chunk->offset, "an index without its head");
	count = head->count;
	chunk->previous = head->previous;
	chunk->payload += sizeof(*head);
	chunk->length -= (uint32_t)sizeof(*head);
	err = take_records(reader, chunk);
	if (!err && chunk->count != count)
		err = chunk_damaged(reader->file, chunk->offset,
				    "an index of another length than it says");
	return err;
}

static int take_payload(struct chunk_reader *reader, struct chunk *chunk)
{
	int err;

	switch (chunk->type) {
	case CHUNK_STRING:
		return take_strings(reader, chunk);
	case CHUNK_INDEX:
		return take_index(reader, chunk);
	case CHUNK_FOOTER:
		err = take_records(reader, chunk);
		return err ? err : compare_footer(reader, chunk);
	default:
		return take_records(reader, chunk);
	}
}

/* Spans are told with the chunk that they are of. */
static void settle_span(struct chunk_reader *reader, struct chunk *chunk)
{
	if (chunk->type == CHUNK_SPAN) {
		memcpy(&reader->span, chunk->payload, sizeof(reader->span));
		if (!reader->read.last)
			reader->read.first = reader->span.first;
		if (reader->span.last > reader->read.last)
			reader->read.last = reader->span.last;
	} else if (chunk->type == CHUNK_HOOKED) {
		chunk->span = reader->span;
		reader->span = (struct ring_span){0};
	}
}

int chunk_reader_any(struct chunk_reader *reader, struct chunk *chunk)
{
	const struct scope_file *file = reader->file;
	struct chunk_header header;
	int more, err;

	while ((more = read_chunk(reader, &header)) > 0) {
		*chunk = (struct chunk){.offset = reader->offset,
					.next = reader->offset + sizeof(header) +
						chunk_padded(header.length),
					.payload = reader->stored.bytes,
					.length = header.length,
					.type = header.type};
		if (header.type > CHUNK_HEADER && header.type < CHUNK_TYPES)
			break;
		if (header.type <= CHUNK_HEADER || file->header.minor <= SCOPE_FILE_MINOR)
			return chunk_damaged(file, chunk->offset, "a chunk of an unknown type");
		reader->offset = chunk->next;
	}
	if (more <= 0)
		return more;
	err = inflate_chunk(reader, chunk, header.flags);
	if (!err)
		err = take_payload(reader, chunk);
	if (err)
		return err;
	settle_span(reader, chunk);
	reader->records[chunk->type] += chunk->count;
	reader->offset = chunk->next;
	reader->rest = 0;
	return 1;
}

void chunk_reader_drop(struct chunk_reader *reader, const struct chunk_drop *drops, size_t count)
{
	reader->drops = drops;
	reader->drop_count = count;
}

/* The first drop of the chunk at `offset`, or of one behind it. */
static size_t first_drop(const struct chunk_reader *reader, uint64_t offset)
{
	size_t low;

	SEARCH_FIRST(low, reader->drop_count, reader->drops[low].offset < offset);
	return low;
}

/* Which of them are left is no longer told. */
static void reduce_loss(struct loss_event *loss, uint64_t left)
{
	loss->count = left;
	loss->claim = 0;
}

/* Closes the gaps where records are dropped; the payload lies in a buffer of the reader's. */
static void drop_records(const struct chunk_reader *reader, struct chunk *chunk)
{
	unsigned char *payload = (unsigned char *)chunk->payload;
	size_t drop = first_drop(reader, chunk->offset);
	uint32_t kept = 0;

	if (drop == reader->drop_count || reader->drops[drop].offset != chunk->offset)
		return;
	for (uint32_t i = 0; i < chunk->count; i++) {
		if (drop < reader->drop_count && reader->drops[drop].offset == chunk->offset &&
		    reader->drops[drop].record == i) {
			uint64_t left = reader->drops[drop++].left;

			if (!left)
				continue;
			reduce_loss((struct loss_event *)(payload + (size_t)i * chunk->size), left);
		}
		memmove(payload + (size_t)kept++ * chunk->size, payload + (size_t)i * chunk->size,
			chunk->size);
	}
	chunk->count = kept;
	chunk->length = kept * chunk->size;
}

int chunk_reader_next(struct chunk_reader *reader, struct chunk *chunk)
{
	int more;

	do {
		more = chunk_reader_any(reader, chunk);
	} while (more > 0 && (chunk->type == CHUNK_SPAN || chunk->type == CHUNK_INDEX));
	if (more > 0 && chunk->size && reader->drop_count)
		drop_records(reader, chunk);
	return more;
}
