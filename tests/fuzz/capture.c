// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Everything that reads a capture, on any bytes: libFuzzer target. The checksums of the chunks are
 * put right first, or the input would be refused before anything of it was looked at; with an odd
 * last byte they are left as they are. By the two bits above that, what lies in the file is
 * deflated first, or it is said to be of a later minor version.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "file/index.h"
#include "file/join.h"
#include "file/concat.h"
#include "timeline/timeline.h"

enum { AS_IT_IS = 1, DEFLATED = 2, LATER_MINOR = 4 };

struct file {
	uint8_t *bytes;
	size_t length;
};

/* Appends a chunk that is right in itself, deflated if that is wanted. */
static void put_chunk(struct file *file, struct chunk_header header, const uint8_t *payload,
		      bool deflate)
{
	uint8_t *at = file->bytes + file->length + sizeof(header);
	uLongf room = compressBound(header.length), length = room;

	memset(at, 0, header.length + room + 16);
	memcpy(at, payload, header.length);
	if (deflate && compress2(at + 4, &length, payload, header.length, 1) == Z_OK) {
		memcpy(at, &header.length, 4);
		header.flags |= CHUNK_DEFLATED;
		header.length = (uint32_t)length + 4;
		memset(at + header.length, 0, 8);
	}
	header.crc = chunk_crc(&header, at);
	memcpy(at - sizeof(header), &header, sizeof(header));
	file->length += sizeof(header) + chunk_padded(header.length);
}

static void mend_chunks(struct file *file, const uint8_t *data, size_t size, int how)
{
	size_t at = 0;

	while (size - at >= sizeof(struct chunk_header)) {
		struct chunk_header header;
		size_t room = size - at - sizeof(header);
		bool plain;

		memcpy(&header, data + at, sizeof(header));
		header.magic = SCOPE_FILE_CHUNK_MAGIC;
		if (header.length > room || chunk_padded(header.length) > room)
			header.length = (uint32_t)(room & ~(size_t)7);
		plain = header.type == CHUNK_HEADER || header.type == CHUNK_FOOTER || header.flags;
		put_chunk(file, header, data + at + sizeof(header), how & DEFLATED && !plain);
		at += sizeof(header) + chunk_padded(header.length);
	}
}

static void raise_minor(struct file *file)
{
	struct header_payload header;
	struct chunk_header chunk;

	if (file->length < sizeof(chunk) + sizeof(header))
		return;
	memcpy(&chunk, file->bytes, sizeof(chunk));
	if (chunk.type != CHUNK_HEADER || chunk.length < sizeof(header) ||
	    chunk.length > file->length - sizeof(chunk))
		return;
	memcpy(&header, file->bytes + sizeof(chunk), sizeof(header));
	header.minor = SCOPE_FILE_MINOR + 1;
	memcpy(file->bytes + sizeof(chunk), &header, sizeof(header));
	chunk.crc = chunk_crc(&chunk, file->bytes + sizeof(chunk));
	memcpy(file->bytes, &chunk, sizeof(chunk));
}

/* What any reader of a timeline may rely on. */
static int check_part(void *context, const struct lane_part *part)
{
	const struct timeline *timeline = context;

	if (part->lane->name >= timeline->name_count)
		abort();
	for (size_t i = 0; i < part->scope_count; i++) {
		const struct scope *scope = &part->scopes[i];

		if (scope->name >= timeline->name_count || scope->module >= timeline->name_count ||
		    scope->end_ns < scope->start_ns ||
		    (scope->kind == SCOPE_HOOKED && scope->function >= timeline->function_count))
			abort();
	}
	return 0;
}

static void check_timeline(struct timeline *timeline)
{
	struct timeline_summary summary;

	if (!timeline)
		return;
	timeline_visit(timeline, check_part, timeline);
	if (!timeline_summarise(timeline, &summary))
		timeline_summary_clear(&summary);
	timeline_close(timeline);
}

/* Each entry leads to what the file holds, or to a chunk that is refused. */
static void check_index(struct scope_file *file)
{
	struct chunk_reader *reader = chunk_reader_create(file);
	struct index_entry *entries;
	struct chunk chunk;
	uint64_t behind = 0;
	size_t count;

	if (!reader || scope_file_index_read(file, &entries, &count)) {
		chunk_reader_destroy(reader);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		if (entries[i].offset < behind || entries[i].type >= CHUNK_FOOTER)
			abort();
		behind = entries[i].offset + 1;
		chunk_reader_seek(reader, entries[i].offset);
		if (chunk_reader_next(reader, &chunk) > 0 &&
		    (chunk.type >= CHUNK_TYPES ||
		     (chunk.size && chunk.length != chunk.count * chunk.size)))
			abort();
	}
	free(entries);
	chunk_reader_destroy(reader);
}

/*
 * The file and itself, its header being of another moment: every record that has a place is there
 * twice.
 */
static void check_join(const char *path)
{
	struct scope_file *files[2] = {scope_file_open(path), scope_file_open(path)};
	struct scope_file_join *join = NULL;
	struct chunk chunk;

	if (files[0] && files[1]) {
		files[1]->header.monotonic_ns++;
		join = scope_file_join_create(files, 2);
	}
	for (size_t i = 0; join && i < 2; i++) {
		struct chunk_reader *reader = chunk_reader_create(files[i]);

		scope_file_join_apply(join, i, reader);
		while (chunk_reader_next(reader, &chunk) > 0)
			if (chunk.size && chunk.length != chunk.count * chunk.size)
				abort();
		chunk_reader_destroy(reader);
	}
	scope_file_join_destroy(join);
	if (files[0])
		check_index(files[0]);
	scope_file_close(files[0]);
	scope_file_close(files[1]);
}

/* The same two as one file, which is then read as any other. */
static void check_union(const char *path, const struct file *file)
{
	static int second = -1;
	struct header_payload header;
	struct chunk_header chunk;
	char other[64], *missing;
	int fd;

	if (second < 0)
		second = memfd_create("second", MFD_CLOEXEC);
	if (second < 0)
		exit(2);
	if (file->length < sizeof(chunk) + sizeof(header))
		return;
	memcpy(&chunk, file->bytes, sizeof(chunk));
	if (chunk.length < SCOPE_FILE_HEADER_FIRST || chunk.length > file->length - sizeof(chunk))
		return;
	file->bytes[sizeof(chunk) + offsetof(struct header_payload, monotonic_ns)] ^= 1;
	chunk.crc = chunk_crc(&chunk, file->bytes + sizeof(chunk));
	memcpy(file->bytes, &chunk, sizeof(chunk));
	if (ftruncate(second, 0) != 0 ||
	    pwrite(second, file->bytes, file->length, 0) != (ssize_t)file->length)
		exit(2);
	snprintf(other, sizeof(other), "/proc/self/fd/%d", second);
	fd = scope_file_concat((const char *[]){path, other}, 2, &missing);
	if (fd < 0)
		return;
	free(missing);
	snprintf(other, sizeof(other), "/proc/self/fd/%d", fd);
	check_timeline(timeline_open(other));
	close(fd);
}

static struct file write_file(int descriptor, const uint8_t *data, size_t size)
{
	int how = size ? data[size - 1] & 7 : AS_IT_IS;
	/* zlib's worst case is a little more than what it is given, for each chunk. */
	struct file file = {.bytes = malloc(size * 4 + 4096)};

	if (!file.bytes)
		exit(2);
	if (how & AS_IT_IS) {
		memcpy(file.bytes, data, size);
		file.length = size;
	} else {
		mend_chunks(&file, data, size, how);
	}
	if (how & LATER_MINOR)
		raise_minor(&file);
	if (ftruncate(descriptor, 0) != 0 ||
	    pwrite(descriptor, file.bytes, file.length, 0) != (ssize_t)file.length)
		exit(2);
	return file;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int descriptor = -1;
	struct file file;
	char path[64];

	if (descriptor < 0)
		descriptor = memfd_create("capture", MFD_CLOEXEC);
	if (descriptor < 0)
		exit(2);
	file = write_file(descriptor, data, size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	check_timeline(timeline_open(path));
	/* The same file read in small regions. */
	check_timeline(timeline_open_with(path, 1 + size % 7));
	check_join(path);
	check_union(path, &file);
	free(file.bytes);
	return 0;
}
