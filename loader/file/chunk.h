/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The chunks of a capture file, checked and brought into the form that this build has. Purpose:
 * everything between the bytes of the file and whole records of known types, so that those who make
 * sense of the records need not think of versions, checksums, compression and cut files. Owner: who
 * created the reader; several of one thread may share a chunk_file. Invariant: what a chunk holds
 * has passed its checksum, and its records have the sizes of event.h and file/format.h; what
 * they say is still hostile.
 */
#ifndef SCOPETRACE_FILE_CHUNK_H
#define SCOPETRACE_FILE_CHUNK_H

#include <stdbool.h>

#include "file/reader.h"

struct chunk {
	uint64_t offset;	      /* of its header in the file */
	uint64_t next;		      /* of the chunk behind it */
	const unsigned char *payload; /* until the reader's next call; aligned to 8 bytes */
	/* of the payload here: inflated, records of this build's size */
	uint32_t length;
	uint32_t type;	/* a known enum chunk_type: others are skipped */
	uint32_t count; /* records or strings; header, footer: 1 */
	uint32_t size;	/* of a record; 0: CHUNK_STRING */
	/* CHUNK_HOOKED, read in order: where its scopes came from; else 0, 0 */
	struct ring_span span;
	uint64_t previous; /* CHUNK_INDEX: offset of the one before it; 0: none */
};

/*
 * One place in the file, with buffers of its own (as large as the largest chunk met, at most a few
 * MiB).
 */
struct chunk_reader;

/* A reader at the first chunk behind the header. NULL: out of memory (not logged). */
struct chunk_reader *chunk_reader_create(struct scope_file *file);
void chunk_reader_destroy(struct chunk_reader *reader);

/*
 * The next chunk. 1: it is in *chunk; 0: the file ends here or inside a chunk; or -errno, logged:
 * EBADMSG (damaged), EINVAL (it needs a newer scopetrace), ENOMEM (not logged), or of read(2).
 */
int chunk_reader_next(struct chunk_reader *reader, struct chunk *chunk);

/* The same, not passing over CHUNK_SPAN and CHUNK_INDEX, which nobody else needs to see. */
int chunk_reader_any(struct chunk_reader *reader, struct chunk *chunk);

/*
 * The next call gives the chunk at `offset`, which an earlier one had told. Only where
 * file->seekable.
 */
void chunk_reader_seek(struct chunk_reader *reader, uint64_t offset);

/* From here on checksums are not looked at: for a file all of which was read before. */
void chunk_reader_trust(struct chunk_reader *reader);

/* A record that is passed over: the `record`th of the chunk at `offset`. */
struct chunk_drop {
	uint64_t offset;
	uint32_t record;
	uint64_t left; /* of a loss: so many of it stay; 0: the record goes */
};

/*
 * The reader passes over these, or over a part of them, sorted by offset and record; they stay the
 * caller's.
 */
void chunk_reader_drop(struct chunk_reader *reader, const struct chunk_drop *drops, size_t count);

/*
 * Once chunk_reader_next() has said 0, for a reader that was never moved: whether the file is
 * whole, that is has a footer (whose counts have then been compared with what was read), where its
 * last whole chunk ends, and how many bytes of an unfinished one are behind that.
 */
bool chunk_reader_whole(const struct chunk_reader *reader);
uint64_t chunk_reader_end(const struct chunk_reader *reader);
uint64_t chunk_reader_rest(const struct chunk_reader *reader);

/*
 * From where to where in the kernel's ring the file goes, as far as it was read. last 0: it does
 * not say.
 */
struct ring_span chunk_reader_span(const struct chunk_reader *reader);

#endif
