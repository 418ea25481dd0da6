// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/utf8.h"

int chunk_damaged(const struct scope_file *file, uint64_t offset, const char *what)
{
	if (!file->quiet)
		log_error(
			"the capture %s is damaged at byte %llu: %s; copy it again from where it was made, "
			"or record anew",
			file->path, (unsigned long long)offset, what);
	return -EBADMSG;
}

static int refused(const struct scope_file *file, const char *what)
{
	log_error("%s cannot be read as a capture: %s", file->path, what);
	return -EINVAL;
}

/* ---- bytes ---- */

ssize_t scope_file_read(const struct scope_file *file, uint64_t offset, void *bytes, size_t length)
{
	size_t have = 0;

	while (have < length) {
		char *to = (char *)bytes + have;
		ssize_t done = file->seekable
				       ? pread(file->fd, to, length - have, (off_t)(offset + have))
				       : read(file->fd, to, length - have);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			int err = -errno;

			if (err == -EISDIR)
				log_error("%s is a directory; name the capture file in it",
					  file->path);
			else
				log_error("cannot read the capture %s: %s", file->path,
					  strerror(-err));
			return err;
		}
		if (!done)
			break;
		have += (size_t)done;
	}
	return (ssize_t)have;
}

bool chunk_intact(const struct chunk_header *header, const unsigned char *payload, size_t have)
{
	return header->magic == SCOPE_FILE_CHUNK_MAGIC && header->length <= SCOPE_FILE_CHUNK_MAX &&
	       have >= chunk_padded(header->length) && header->crc == chunk_crc(header, payload);
}

/* ---- the header ---- */

/*
 * Reads the first chunk as it is: is this a capture at all? The length of the payload, or -errno
 * (logged).
 */
static ssize_t read_first(struct scope_file *file, unsigned char **payload)
{
	struct chunk_header chunk;
	ssize_t have = scope_file_read(file, 0, &chunk, sizeof(chunk));

	if (have < 0)
		return have;
	if (!have)
		return refused(file, "it is empty; was the recording stopped before it began?");
	if (have >= 4 && chunk.magic == __builtin_bswap32(SCOPE_FILE_CHUNK_MAGIC))
		return refused(
			file,
			"it was written on a machine with the other byte order; read it there");
	if (have >= 4 && chunk.magic != SCOPE_FILE_CHUNK_MAGIC)
		return refused(file, "it is not one; captures are made by scopetrace record");
	if (have < (ssize_t)sizeof(chunk))
		return refused(file, "it ends inside its header");
	if (chunk.type != CHUNK_HEADER || chunk.length > SCOPE_FILE_CHUNK_MAX ||
	    chunk.length < SCOPE_FILE_HEADER_FIRST)
		return chunk_damaged(file, 0, "the first chunk is not a header");
	*payload = malloc(chunk_padded(chunk.length));
	if (!*payload)
		return -ENOMEM;
	have = scope_file_read(file, sizeof(chunk), *payload, chunk_padded(chunk.length));
	if (have < 0)
		return have;
	if ((size_t)have < chunk_padded(chunk.length))
		return refused(file, "it ends inside its header");
	if (!chunk_intact(&chunk, *payload, (size_t)have))
		return chunk_damaged(file, 0, "a checksum does not match");
	if (memcmp(*payload, SCOPE_FILE_MAGIC, 8))
		return refused(file, "it is not one; captures are made by scopetrace record");
	file->first_offset = sizeof(chunk) + chunk_padded(chunk.length);
	return (ssize_t)chunk.length;
}

static int check_version(const struct scope_file *file)
{
	const struct header_payload *header = &file->header;

	if (header->byte_order != SCOPE_FILE_BYTE_ORDER)
		return refused(
			file,
			"it was written on a machine with the other byte order; read it there");
	if (header->major == SCOPE_FILE_MAJOR)
		return 0;
	log_error(
		"the capture %s has version %u.%u of the format, this scopetrace reads version %u; use the "
		"scopetrace that wrote it, or one of its age",
		file->path, header->major, header->minor, SCOPE_FILE_MAJOR);
	return -EINVAL;
}

/* Version 1.0 has no table of sizes; a later one has sizes no smaller than its. */
static int settle_sizes(struct scope_file *file)
{
	for (int type = 0; type < CHUNK_TYPES; type++) {
		uint16_t *size = &file->header.record_size[type];

		if (!file->header.minor)
			*size = scope_file_record_sizes[type].first;
		if (*size < scope_file_record_sizes[type].first || *size > SCOPE_FILE_RECORD_MAX)
			return chunk_damaged(file, 0, "a record of an impossible size");
	}
	return 0;
}

static int take_texts(struct scope_file *file, const unsigned char *at, uint64_t length)
{
	const struct header_payload *header = &file->header;

	if ((uint64_t)header->host_length + header->kernel_length + header->command_length !=
	    length)
		return chunk_damaged(file, 0, "the texts of the header are longer than it");
	file->host = name_from_bytes((const char *)at, header->host_length);
	at += header->host_length;
	file->kernel = name_from_bytes((const char *)at, header->kernel_length);
	at += header->kernel_length;
	file->command = name_from_bytes((const char *)at, header->command_length);
	return file->host && file->kernel && file->command ? 0 : -ENOMEM;
}

static int take_header(struct scope_file *file, const unsigned char *payload, size_t length)
{
	struct header_payload *header = &file->header;
	size_t fixed;
	int err;

	memcpy(header, payload, SCOPE_FILE_HEADER_FIRST);
	err = check_version(file);
	if (err)
		return err;
	fixed = header->minor ? header->fixed_length : SCOPE_FILE_HEADER_FIRST;
	if (fixed > length || fixed < (header->minor ? sizeof(*header) : SCOPE_FILE_HEADER_FIRST))
		return chunk_damaged(file, 0, "a header of an impossible length");
	memcpy(header, payload, fixed < sizeof(*header) ? fixed : sizeof(*header));
	if (header->monotonic_ns > SCOPE_FILE_TIME_MAX ||
	    header->realtime_ns > SCOPE_FILE_TIME_MAX || header->boottime_ns > SCOPE_FILE_TIME_MAX)
		return chunk_damaged(file, 0, "a header with an impossible time");
	err = settle_sizes(file);
	return err ? err : take_texts(file, payload + fixed, length - fixed);
}

/* ---- the file ---- */

static int read_header(struct scope_file *file)
{
	unsigned char *payload = NULL;
	ssize_t length = read_first(file, &payload);
	int err = length < 0 ? (int)length : take_header(file, payload, (size_t)length);

	free(payload);
	return err;
}

static int open_path(struct scope_file *file, const char *path)
{
	bool is_input = !strcmp(path, "-");
	int err;

	file->fd = open(is_input ? "/dev/stdin" : path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (file->fd < 0) {
		err = -errno;
		log_error("cannot open the capture %s: %s%s",
			  *path ? file->path : "'' (its name is empty)", strerror(-err),
			  err == -ENOENT ? "; scopetrace record makes one" : "");
		return err;
	}
	file->seekable = lseek(file->fd, 0, SEEK_CUR) == 0;
	return 0;
}

struct scope_file *scope_file_open(const char *path)
{
	return scope_file_open_as(path, path);
}

struct scope_file *scope_file_open_as(const char *path, const char *name)
{
	struct scope_file *file = calloc(1, sizeof(*file));
	int err = -ENOMEM;

	if (file) {
		file->path = name;
		file->fd = -1;
		err = open_path(file, path);
		if (!err)
			err = read_header(file);
	}
	if (err == -ENOMEM)
		log_error("out of memory while reading the capture %s", path);
	if (!err)
		return file;
	scope_file_close(file);
	errno = -err;
	return NULL;
}

void scope_file_close(struct scope_file *file)
{
	if (!file)
		return;
	if (file->fd >= 0)
		close(file->fd);
	free(file->host);
	free(file->kernel);
	free(file->command);
	free(file);
}
