// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/index.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"

static void widen(struct index_entry *entry, uint64_t first, uint64_t last)
{
	if (first < entry->first)
		entry->first = first;
	if (last > entry->last)
		entry->last = last;
}

/* 0 and 0 from the second thread on. */
static void note_thread(struct index_entry *entry, uint32_t i, uint32_t pid, uint32_t tid)
{
	if (!i) {
		entry->pid = pid;
		entry->tid = tid;
	} else if (entry->tid != tid || entry->pid != pid) {
		entry->pid = 0;
		entry->tid = 0;
	}
}

static void add_hooked(struct index_entry *entry, uint32_t i, const struct hooked_scope *scope)
{
	widen(entry, scope->start_ns,
	      scope->end_ns > scope->start_ns ? scope->end_ns : scope->start_ns);
	note_thread(entry, i, scope->pid, scope->tid);
}

static void add_manual(struct index_entry *entry, uint32_t i, const struct manual_event *event)
{
	bool has_end = event->kind == MANUAL_COMPLETE && event->value > event->ticks;

	widen(entry, event->ticks, has_end ? event->value : event->ticks);
	note_thread(entry, i, event->pid, event->tid);
}

static void add_thread(struct index_entry *entry, uint32_t i, const struct thread_info *info)
{
	widen(entry, info->time_ns, info->time_ns);
	note_thread(entry, i, info->pid, info->tid);
}

struct index_entry index_entry_make(uint64_t offset, uint16_t type, const void *records,
				    uint32_t count)
{
	struct index_entry entry = {
		.offset = offset, .type = type, .count = count, .first = UINT64_MAX};

	switch (type) {
	case CHUNK_HOOKED:
		for (uint32_t i = 0; i < count; i++)
			add_hooked(&entry, i, (const struct hooked_scope *)records + i);
		break;
	case CHUNK_MANUAL:
		for (uint32_t i = 0; i < count; i++)
			add_manual(&entry, i, (const struct manual_event *)records + i);
		break;
	case CHUNK_THREAD:
		for (uint32_t i = 0; i < count; i++)
			add_thread(&entry, i, (const struct thread_info *)records + i);
		break;
	case CHUNK_ANCHOR:
		for (uint32_t i = 0; i < count; i++)
			widen(&entry, ((const struct clock_anchor *)records)[i].ns,
			      ((const struct clock_anchor *)records)[i].ns);
		break;
	case CHUNK_LOSS:
		for (uint32_t i = 0; i < count; i++)
			widen(&entry, ((const struct loss_event *)records)[i].first_ns,
			      ((const struct loss_event *)records)[i].last_ns);
		break;
	default:
		entry.first = 0;
	}
	return entry;
}

/* ---- reading it ---- */

struct entries {
	struct index_entry *items;
	size_t count;
	size_t capacity;
};

/* Spans are told with their chunks, and what a later version knows is passed over. 0 or -ENOMEM. */
static int add_entry(struct entries *entries, const struct index_entry *entry)
{
	if (entry->type == CHUNK_SPAN || entry->type >= CHUNK_FOOTER)
		return 0;
	if (vec_grow(&entries->items, &entries->capacity, entries->count))
		return -ENOMEM;
	entries->items[entries->count++] = *entry;
	return 0;
}

/*
 * Is there a footer at the end? Looked at before it is read as a chunk, since a file may end in
 * anything.
 */
static bool find_footer(const struct scope_file *file, uint64_t *offset)
{
	off_t size = lseek(file->fd, 0, SEEK_END);
	struct chunk_header header;
	uint32_t tail[2];

	if (size < (off_t)(file->first_offset + sizeof(header)) ||
	    pread(file->fd, tail, sizeof(tail), size - (off_t)sizeof(tail)) != sizeof(tail) ||
	    tail[1] != SCOPE_FILE_END_MAGIC || tail[0] > (uint64_t)size - file->first_offset)
		return false;
	*offset = (uint64_t)size - tail[0];
	return pread(file->fd, &header, sizeof(header), (off_t)*offset) == sizeof(header) &&
	       header.magic == SCOPE_FILE_CHUNK_MAGIC && header.type == CHUNK_FOOTER &&
	       sizeof(header) + chunk_padded(header.length) == tail[0];
}

/*
 * The entries of an index chunk, from the last to the first. Each must lie before the one that was
 * read before it, at *below: so there are no more of them than the file has room for chunks,
 * however well they deflate.
 */
static int take_entries(struct entries *entries, const struct chunk *chunk, uint64_t *below)
{
	const struct index_entry *items = (const struct index_entry *)chunk->payload;
	int err = 0;

	for (uint32_t i = chunk->count; i-- > 0 && !err;) {
		if (items[i].offset >= *below ||
		    *below - items[i].offset < sizeof(struct chunk_header))
			return -EBADMSG;
		*below = items[i].offset;
		err = add_entry(entries, &items[i]);
	}
	return err;
}

/* Goes from the last index chunk to the first. The entries come out backwards. */
static int read_backwards(struct chunk_reader *reader, uint64_t offset, struct entries *entries)
{
	uint64_t below = offset;
	int err = 0;

	while (offset && !err) {
		struct chunk chunk;

		chunk_reader_seek(reader, offset);
		if (chunk_reader_any(reader, &chunk) <= 0 || chunk.type != CHUNK_INDEX ||
		    chunk.previous >= offset)
			return -EBADMSG;
		err = take_entries(entries, &chunk, &below);
		offset = chunk.previous;
	}
	return err;
}

static void reverse(struct entries *entries)
{
	for (size_t i = 0; i < entries->count / 2; i++) {
		struct index_entry *left = &entries->items[i];
		struct index_entry *right = &entries->items[entries->count - 1 - i];
		struct index_entry kept = *left;

		*left = *right;
		*right = kept;
	}
}

/*
 * An index that leaves nothing out: in order, and as many records of each type as the footer
 * counts.
 */
static bool covers(const struct entries *entries, const struct footer_payload *footer, uint64_t end)
{
	uint64_t records[CHUNK_FOOTER] = {[CHUNK_HEADER] = footer->records[CHUNK_HEADER]};
	uint64_t offset = 0;

	for (size_t i = 0; i < entries->count; i++) {
		const struct index_entry *entry = &entries->items[i];

		if (entry->offset <= offset || entry->offset >= end)
			return false;
		offset = entry->offset;
		records[entry->type] += entry->count;
	}
	return !memcmp(records, footer->records, sizeof(records));
}

/* 1: the file's own index was read; 0: it has none that holds; or -ENOMEM. */
static int read_own(struct chunk_reader *reader, const struct scope_file *file,
		    struct entries *entries)
{
	struct footer_payload footer;
	struct chunk chunk;
	uint64_t end;
	int err;

	if (!find_footer(file, &end))
		return 0;
	chunk_reader_seek(reader, end);
	if (chunk_reader_any(reader, &chunk) <= 0)
		return 0;
	memcpy(&footer, chunk.payload, sizeof(footer));
	err = read_backwards(reader, footer.index_offset, entries);
	if (err == -ENOMEM)
		return err;
	reverse(entries);
	return !err && covers(entries, &footer, end);
}

static int scan(struct chunk_reader *reader, const struct scope_file *file, struct entries *entries)
{
	struct chunk chunk;
	int more;

	chunk_reader_seek(reader, file->first_offset);
	while ((more = chunk_reader_any(reader, &chunk)) > 0) {
		struct index_entry entry = index_entry_make(chunk.offset, (uint16_t)chunk.type,
							    chunk.payload, chunk.count);

		if (add_entry(entries, &entry))
			return -ENOMEM;
	}
	return more;
}

int scope_file_index_read(struct scope_file *file, struct index_entry **entries, size_t *count)
{
	struct chunk_reader *reader = chunk_reader_create(file);
	struct entries found = {0};
	int err = -ENOMEM;

	/* If it does not hold then all chunks are read, and what is damaged is logged there. */
	file->quiet = true;
	if (reader)
		err = read_own(reader, file, &found);
	file->quiet = false;
	if (!err) {
		found.count = 0;
		err = scan(reader, file, &found);
	}
	chunk_reader_destroy(reader);
	*entries = found.items;
	*count = found.count;
	if (err >= 0)
		return 0;
	free(found.items);
	*entries = NULL;
	*count = 0;
	return err;
}
