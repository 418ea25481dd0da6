/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture file that was opened, and its header. Purpose: is it a capture, and one that we can
 * read; then its bytes, for those who read its chunks (capture_chunk.h). Owner: who opened; const
 * afterwards, but for where a file stands that is not seekable. Invariant: the header has passed
 * its checksum, its sizes of records are possible ones and its texts valid UTF-8.
 */
#ifndef SCOPETRACE_FILE_READER_H
#define SCOPETRACE_FILE_READER_H

#include <stdbool.h>
#include <sys/types.h>

#include "file/format.h"

/* A time beyond it, of the header or the footer, is no time. */
#define SCOPE_FILE_TIME_MAX ((uint64_t)INT64_MAX)

/* An open capture whose header was read. */
struct scope_file {
	const char *path; /* the caller's */
	int fd;
	/* damage is not logged: whoever looks at it will come to it again */
	bool quiet;
	/* readers may stand anywhere in it; else one reads it once */
	bool seekable;
	/* what an older version lacks is zero; record_size[] is filled in */
	struct header_payload header;
	char *host, *kernel, *command; /* valid UTF-8 */
	uint64_t first_offset;	       /* of the first chunk behind the header */
};

/*
 * Opens the capture at `path`, "-" being standard input, and reads its header. NULL with errno,
 * logged: EINVAL (not a capture, or of another major version), EBADMSG (damaged), ENOMEM, or of
 * open(2) and read(2).
 */
struct scope_file *scope_file_open(const char *path);

/* The same of a copy: `name` is what it is a copy of, and is logged. */
struct scope_file *scope_file_open_as(const char *path, const char *name);
void scope_file_close(struct scope_file *file);

/* Reads up to `length` bytes, fewer only at the end of the file; where it is not seekable those that come
 * next, whatever the offset. Their number, or -errno (logged). */
ssize_t scope_file_read(const struct scope_file *file, uint64_t offset, void *bytes, size_t length);

/* Whether the `have` bytes behind a chunk's header are all of its payload, and unchanged. */
bool chunk_intact(const struct chunk_header *header, const unsigned char *payload, size_t have);

/* Says that the chunk at `offset` does not hold what its type says; returns -EBADMSG. */
int chunk_damaged(const struct scope_file *file, uint64_t offset, const char *what);

#endif
