// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Chunks as their readers get them: deflated ones, the index, places in the file, what is left of a
 * cut one.
 */
#include "support/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "file/chunk.h"
#include "file/index.h"

enum { PID = 100, TID = 101, MANY = 20000, BOMB_MAX = 16384 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(capture_chunk, .init = begin, .fini = end);

/* The capture of the test anew, with options. */
static void begin_again(const struct scope_file_writer_options *options)
{
	if (maker.writer)
		cr_assert(!scope_file_writer_finish(maker.writer, 0, 0, 0));
	maker.writer = scope_file_writer_create_with(maker.path, options, 2,
						     (char *[]){"scopetrace", "record"});
	cr_assert(maker.writer);
	maker.output = scope_file_writer_output(maker.writer);
	maker.functions = 0;
	memset(maker.hooked, 0, sizeof(maker.hooked));
}

/* Calls and manual scopes of a few threads, in their own order, with names. */
static void make_many(size_t count)
{
	char name[32];

	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "function %d", i);
		make_function(&maker, name, "program");
	}
	for (size_t i = 0; i < count; i++) {
		uint32_t tid = TID + (uint32_t)(i / 7 % 3);

		snprintf(name, sizeof(name), "scope %zu", i % 100);
		make_start(&maker, PID, tid, 1000 + i * 50, i, name);
		make_call(&maker, PID, tid, (uint32_t)(i % 5), 1010 + i * 50, 1020 + i * 50, 0);
		make_stop(&maker, PID, tid, 1030 + i * 50, i);
	}
}

/* Everything in the capture, in words. */
static char *all_lanes(const char *path)
{
	struct timeline *timeline = timeline_open(path);
	char *text;
	size_t length;
	FILE *file = open_memstream(&text, &length);

	cr_assert(timeline, "%s", said(&maker));
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	make_lanes(timeline);
	for (size_t i = 0; i < timeline->lane_count; i++) {
		const struct lane *lane = &timeline->lanes[i];

		fprintf(file, "%u/%u %zu\n", lane->pid, lane->tid, lane->scope_count);
		for (size_t j = 0; j < lane->scope_count; j++)
			fprintf(file, "%s %lu %lu %u\n", timeline->names[lane->scopes[j].name],
				lane->scopes[j].start_ns, lane->scopes[j].end_ns,
				lane->scopes[j].depth);
	}
	fclose(file);
	timeline_close(timeline);
	return text;
}

static off_t file_size(const char *path)
{
	struct stat status;

	cr_assert(!stat(path, &status));
	return status.st_size;
}

/* ---- deflated ---- */

Test(capture_chunk, deflated_is_the_same)
{
	char *plain, *deflated;
	off_t size, smaller;

	make_many(MANY);
	make_end(&maker, 0, 3000);
	plain = all_lanes(maker.path);
	size = file_size(maker.path);
	for (int level = 1; level <= 9; level += 4) {
		begin_again(&(struct scope_file_writer_options){.level = level});
		make_many(MANY);
		make_end(&maker, 0, 3000);
		smaller = file_size(maker.path);
		cr_assert_lt(smaller, size / 2, "level %d: %ld of %ld bytes", level, (long)smaller,
			     (long)size);
		deflated = all_lanes(maker.path);
		cr_assert_str_eq(deflated, plain);
		free(deflated);
	}
	free(plain);
	cr_assert_str_empty(said(&maker));
}

/* What does not get smaller is written as it is. */
Test(capture_chunk, noise_is_not_deflated)
{
	unsigned short seed[3] = {1, 2, 3};
	unsigned char noise[60000], *bytes;
	struct chunk_header header;
	size_t length;
	uint32_t id;

	begin_again(&(struct scope_file_writer_options){.level = 9});
	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (unsigned char)(nrand48(seed) >> 8);
	cr_assert(!maker.output->string(maker.output, (char *)noise, sizeof(noise), &id));
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	memcpy(&header, bytes + chunk_at(bytes, length, CHUNK_STRING, 0), sizeof(header));
	cr_assert_eq(header.flags, 0);
	cr_assert_gt(header.length, sizeof(noise));
	free(bytes);
	free(all_lanes(maker.path));
}

/* Cut anywhere, it opens up to its last whole chunk, and tells how much of another there is. */
Test(capture_chunk, deflated_and_cut)
{
	size_t length, header;
	unsigned char *bytes;

	begin_again(&(struct scope_file_writer_options){.level = 6});
	make_many(300);
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	header = chunk_at(bytes, length, CHUNK_STRING, 0);
	for (size_t cut = header; cut < length; cut += 1 + cut % 7) {
		struct timeline *timeline;
		struct scope_file *file;
		struct chunk_reader *reader;
		struct chunk chunk;
		int more;

		file_write(maker.path, bytes, cut);
		timeline = timeline_open(maker.path);
		cr_assert(timeline && timeline->truncated);
		timeline_close(timeline);
		file = scope_file_open(maker.path);
		reader = chunk_reader_create(file);
		while ((more = chunk_reader_next(reader, &chunk)) > 0)
			;
		cr_assert_eq(more, 0);
		cr_assert_not(chunk_reader_whole(reader));
		cr_assert_eq(chunk_reader_end(reader) + chunk_reader_rest(reader), cut);
		chunk_reader_destroy(reader);
		scope_file_close(file);
	}
	free(bytes);
}

/*
 * Opens the file with a deflated payload of ours in place of its first chunk of scopes. The errno,
 * or 0.
 */
static int open_packed(const unsigned char *bytes, size_t length, uint32_t claimed,
		       const void *stream, uint32_t size)
{
	size_t at = chunk_at(bytes, length, CHUNK_HOOKED, 0), next;
	struct chunk_header header;
	unsigned char *copy = calloc(1, length + size + 32);
	struct timeline *timeline;
	size_t have;

	memcpy(&header, bytes + at, sizeof(header));
	next = at + sizeof(header) + chunk_padded(header.length);
	header.flags = CHUNK_DEFLATED;
	header.length = size + (uint32_t)sizeof(claimed);
	memcpy(copy, bytes, at);
	memcpy(copy + at, &header, sizeof(header));
	memcpy(copy + at + sizeof(header), &claimed, sizeof(claimed));
	memcpy(copy + at + sizeof(header) + sizeof(claimed), stream, size);
	chunk_sign(copy, at);
	have = at + sizeof(header) + chunk_padded(header.length);
	memcpy(copy + have, bytes + next, length - next);
	file_write(maker.path, copy, have + length - next);
	free(copy);
	errno = 0;
	timeline = timeline_open(maker.path);
	timeline_close(timeline);
	return timeline ? 0 : errno;
}

Test(capture_chunk, forged_streams)
{
	const uint32_t scope = sizeof(struct hooked_scope);
	struct hooked_scope scopes[2] = {{.start_ns = 10, .end_ns = 20, .pid = PID, .tid = TID},
					 {.start_ns = 30, .end_ns = 40, .pid = PID, .tid = TID}};
	unsigned char stream[512], bomb[4096], *zeros = calloc(1, SCOPE_FILE_CHUNK_MAX + scope);
	uLongf size = sizeof(stream), bomb_size = sizeof(bomb);
	size_t length;
	unsigned char *bytes;

	make_function(&maker, "f", "program");
	cr_assert(!maker.output->hooked(maker.output, scopes, 2));
	maker.hooked[0].completed = 2;
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	cr_assert_eq(compress2(stream, &size, (Bytef *)scopes, sizeof(scopes), 9), Z_OK);
	cr_assert_eq(open_packed(bytes, length, 2 * scope, stream, (uint32_t)size), 0, "%s",
		     said(&maker));

	cr_assert_eq(open_packed(bytes, length, 2 * scope + 1, stream, (uint32_t)size), EBADMSG);
	cr_assert(strstr(said(&maker), "cannot be inflated"));
	cr_assert_eq(open_packed(bytes, length, scope, stream, (uint32_t)size), EBADMSG);
	cr_assert_eq(open_packed(bytes, length, 0, stream, (uint32_t)size), EBADMSG);
	cr_assert_eq(open_packed(bytes, length, 0xffffffff, stream, (uint32_t)size), EBADMSG);
	cr_assert_eq(open_packed(bytes, length, 2 * scope, stream, (uint32_t)size - 1), EBADMSG);
	cr_assert_eq(open_packed(bytes, length, 2 * scope, stream, 0), EBADMSG);
	cr_assert_eq(open_packed(bytes, length, 2 * scope, scopes, sizeof(scopes)), EBADMSG);
	stream[size] = 0;
	cr_assert_eq(open_packed(bytes, length, 2 * scope, stream, (uint32_t)size + 1), EBADMSG,
		     "bytes behind the stream");
	/* More than a chunk may hold, from a few bytes. */
	cr_assert_eq(compress2(bomb, &bomb_size, zeros, SCOPE_FILE_CHUNK_MAX + scope, 9), Z_OK);
	said(&maker);
	cr_assert_eq(
		open_packed(bytes, length, SCOPE_FILE_CHUNK_MAX + scope, bomb, (uint32_t)bomb_size),
		EBADMSG);
	cr_assert(strstr(said(&maker), "impossible length"));
	cr_assert_eq(open_packed(bytes, length, 2 * scope, bomb, (uint32_t)bomb_size), EBADMSG);
	free(zeros);
	free(bytes);
}

/* Writes the chunk, deflated. Returns what it is long. */
static size_t put_deflated(unsigned char *to, uint16_t type, const void *payload, uint32_t whole)
{
	struct chunk_header header = {
		.magic = SCOPE_FILE_CHUNK_MAGIC, .type = type, .flags = CHUNK_DEFLATED};
	uLongf size = BOMB_MAX - sizeof(header) - sizeof(whole);

	memcpy(to + sizeof(header), &whole, sizeof(whole));
	cr_assert_eq(compress2(to + sizeof(header) + sizeof(whole), &size, payload, whole, 9),
		     Z_OK);
	header.length = (uint32_t)(size + sizeof(whole));
	memcpy(to, &header, sizeof(header));
	chunk_sign(to, 0);
	return sizeof(header) + chunk_padded(header.length);
}

/* A file of some hundred kB that holds 140 MiB of manual events, all alike. */
Test(capture_chunk, events_that_swell)
{
	enum { BOMBS = 140, EVENTS = SCOPE_FILE_CHUNK_MAX / sizeof(struct manual_event) };
	struct manual_event *events = calloc(EVENTS, sizeof(*events));
	size_t length, footer, have, bomb;
	unsigned char *bytes, *copy;

	make_many(100);
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	footer = have = chunk_at(bytes, length, CHUNK_FOOTER, 0);
	copy = calloc(1, length + BOMBS * BOMB_MAX);
	memcpy(copy, bytes, footer);
	for (uint32_t i = 0; i < EVENTS; i++)
		events[i] = (struct manual_event){
			.ticks = 5000, .pid = PID, .tid = TID, .kind = MANUAL_INSTANT};
	bomb = put_deflated(copy + have, CHUNK_MANUAL, events, EVENTS * sizeof(*events));
	for (int i = 0; i < BOMBS; i++, have += bomb)
		memmove(copy + have, copy + footer, bomb);
	file_write(maker.path, copy, have);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	cr_assert(strstr(said(&maker), "a hundred times"));
	free(events);
	free(copy);
	free(bytes);
}

/* ---- the index ---- */

static struct index_entry *read_index(size_t *count)
{
	struct scope_file *file = scope_file_open(maker.path);
	struct index_entry *entries;

	cr_assert(file);
	cr_assert(!scope_file_index_read(file, &entries, count));
	scope_file_close(file);
	return entries;
}

/* The entries are those of the chunks, and lead to them. */
static void check_index(const struct index_entry *entries, size_t count)
{
	struct scope_file *file = scope_file_open(maker.path);
	struct chunk_reader *all = chunk_reader_create(file), *one = chunk_reader_create(file);
	struct chunk chunk, found;

	for (size_t i = 0; i < count; i++) {
		struct index_entry entry;

		cr_assert_eq(chunk_reader_next(all, &chunk), 1);
		entry = index_entry_make(chunk.offset, (uint16_t)chunk.type, chunk.payload,
					 chunk.count);
		cr_assert_eq(memcmp(&entry, &entries[i], sizeof(entry)), 0, "entry %zu", i);
		chunk_reader_seek(one, entry.offset);
		cr_assert_eq(chunk_reader_next(one, &found), 1);
		cr_assert(found.type == chunk.type && found.length == chunk.length &&
			  !memcmp(found.payload, chunk.payload, chunk.length));
	}
	while (chunk_reader_next(all, &chunk) > 0)
		cr_assert_eq(chunk.type, CHUNK_FOOTER, "a chunk without an entry");
	chunk_reader_destroy(all);
	chunk_reader_destroy(one);
	scope_file_close(file);
}

Test(capture_chunk, index)
{
	size_t count, length;
	struct index_entry *entries;
	unsigned char *bytes;
	bool single = false;

	for (int level = 0; level < 2; level++) {
		begin_again(&(struct scope_file_writer_options){.level = level});
		make_many(MANY);
		make_end(&maker, 0, 3000);
		entries = read_index(&count);
		cr_assert_gt(count, 30);
		check_index(entries, count);
		for (size_t i = 0; i < count; i++) {
			single |= entries[i].tid;
			cr_assert(entries[i].type != CHUNK_HOOKED || entries[i].first >= 1010);
		}
		cr_assert_not(single, "the threads take turns");
		free(entries);
	}
	/* It was the file's own: what an entry says wrong comes back so. */
	bytes = file_read(maker.path, &length);
	cr_assert_lt(chunk_at(bytes, length, CHUNK_INDEX, 0), length);
	free(bytes);
}

Test(capture_chunk, index_of_one_thread)
{
	struct index_entry *entries;
	size_t count;

	make_function(&maker, "f", "program");
	make_call(&maker, PID, TID, 0, 500, 900, 0);
	make_call(&maker, PID, TID, 0, 100, 1000, 0);
	make_call(&maker, PID, TID, 0, 1100, 0, SCOPE_FLAG_UNFINISHED);
	make_complete(&maker, PID, TID, 50, 77, 0, "c");
	make_end(&maker, 0, 3000);
	entries = read_index(&count);
	for (size_t i = 0; i < count; i++) {
		const struct index_entry *entry = &entries[i];

		if (entry->type != CHUNK_HOOKED && entry->type != CHUNK_MANUAL)
			continue;
		cr_assert(entry->pid == PID && entry->tid == TID);
		cr_assert_eq(entry->first, entry->type == CHUNK_HOOKED ? 100 : 50);
		cr_assert_eq(entry->last, entry->type == CHUNK_HOOKED ? 1100 : 77);
		cr_assert_eq(entry->count, entry->type == CHUNK_HOOKED ? 3 : 1);
	}
	free(entries);
}

/* So many chunks that the index has several of its own. */
Test(capture_chunk, index_in_parts)
{
	struct index_entry *entries;
	size_t count, length, parts = 0;
	unsigned char *bytes;

	make_function(&maker, "f", "program");
	for (uint64_t i = 0; i < 4000; i++) {
		make_call(&maker, PID, TID, 0, i * 10, i * 10 + 5, 0);
		cr_assert(!scope_file_writer_flush(maker.writer));
	}
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	while (chunk_at(bytes, length, CHUNK_INDEX, parts) < length)
		parts++;
	cr_assert_eq(parts, 3);
	entries = read_index(&count);
	cr_assert_gt(count, 4000);
	check_index(entries, count);
	free(entries);
	/* Without its footer, the file is read through. */
	file_write(maker.path, bytes, chunk_at(bytes, length, CHUNK_FOOTER, 0));
	entries = read_index(&count);
	cr_assert_gt(count, 4000);
	check_index(entries, count);
	free(entries);
	free(bytes);
}

/* An index that is not true of the file is not followed. */
Test(capture_chunk, forged_index)
{
	static const struct {
		uint32_t chunk;
		size_t at;
		uint64_t value;
		size_t size;
	} forgeries[] = {
		{CHUNK_FOOTER, offsetof(struct footer_payload, index_offset), 8, 8},
		{CHUNK_FOOTER, offsetof(struct footer_payload, index_offset), 1ull << 60, 8},
		{CHUNK_FOOTER, offsetof(struct footer_payload, index_offset), 0, 8},
		{CHUNK_FOOTER, offsetof(struct footer_payload, chunk_length), 24, 4},
		{CHUNK_FOOTER, offsetof(struct footer_payload, chunk_length), 0xffffffff, 4},
		{CHUNK_FOOTER, offsetof(struct footer_payload, end_magic), 0, 4},
		{CHUNK_INDEX, offsetof(struct index_head, previous), 1ull << 60, 8},
		{CHUNK_INDEX, sizeof(struct index_head) + offsetof(struct index_entry, offset), 0,
		 8},
		{CHUNK_INDEX, sizeof(struct index_head) + offsetof(struct index_entry, offset),
		 1 << 20, 8},
		{CHUNK_INDEX, sizeof(struct index_head) + offsetof(struct index_entry, count), 1,
		 4},
		{CHUNK_INDEX, sizeof(struct index_head) + offsetof(struct index_entry, type), 13,
		 2},
	};
	size_t length, count, at;
	unsigned char *bytes, *copy;

	make_many(100);
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	copy = malloc(length);
	for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
		struct index_entry *entries;

		memcpy(copy, bytes, length);
		at = chunk_at(bytes, length, forgeries[i].chunk, 0);
		memcpy(copy + at + 16 + forgeries[i].at, &forgeries[i].value, forgeries[i].size);
		chunk_sign(copy, at);
		file_write(maker.path, copy, length);
		entries = read_index(&count);
		check_index(entries, count);
		free(entries);
	}
	free(copy);
	free(bytes);
}

/*
 * An index chunk of as many entries as it can hold, all of one chunk, deflated. Returns what it is
 * long.
 */
static size_t put_bomb(unsigned char *to, uint64_t previous)
{
	enum {
		ENTRIES = (SCOPE_FILE_CHUNK_MAX - sizeof(struct index_head)) /
			  sizeof(struct index_entry)
	};
	uint32_t whole = sizeof(struct index_head) + ENTRIES * sizeof(struct index_entry);
	unsigned char *payload = calloc(1, whole);
	const struct index_head head = {previous, ENTRIES};
	size_t length;

	memcpy(payload, &head, sizeof(head));
	for (size_t i = 0; i < ENTRIES; i++)
		((struct index_entry *)(payload + sizeof(head)))[i].type = CHUNK_ANCHOR;
	length = put_deflated(to, CHUNK_INDEX, payload, whole);
	free(payload);
	return length;
}

/* A file of some hundred kB whose index would take 400 MiB. */
Test(capture_chunk, index_that_swells)
{
	enum { BOMBS = 400 };
	const struct rlimit room = {256 << 20, 256 << 20};
	size_t length, footer, have, count;
	unsigned char *bytes, *copy;
	struct index_entry *entries;
	struct scope_file *file;
	uint64_t previous = 0;

	make_many(100);
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	footer = chunk_at(bytes, length, CHUNK_FOOTER, 0);
	copy = calloc(1, length + BOMBS * BOMB_MAX);
	memcpy(copy, bytes, footer);
	have = footer;
	for (int i = 0; i < BOMBS; i++) {
		size_t at = have;

		have += put_bomb(copy + have, previous);
		previous = at;
	}
	memcpy(copy + have, bytes + footer, length - footer);
	memcpy(copy + have + sizeof(struct chunk_header) +
		       offsetof(struct footer_payload, index_offset),
	       &previous, sizeof(previous));
	chunk_sign(copy, have);
	file_write(maker.path, copy, have + length - footer);
	free(copy);
	free(bytes);
	cr_assert(!setrlimit(RLIMIT_AS, &room));
	file = scope_file_open(maker.path);
	cr_assert_eq(scope_file_index_read(file, &entries, &count), -EBADMSG);
	cr_assert(strstr(said(&maker), "a hundred times"));
	scope_file_close(file);
}

/* The place of the n-th entry of this type in the file. */
static size_t entry_at(const unsigned char *bytes, size_t length, uint16_t type, size_t n)
{
	size_t at = chunk_at(bytes, length, CHUNK_INDEX, 0) + sizeof(struct chunk_header) +
		    sizeof(struct index_head);
	struct index_entry entry;

	for (;; at += sizeof(entry)) {
		memcpy(&entry, bytes + at, sizeof(entry));
		if (entry.type == type && !n--)
			return at;
	}
}

static void expect_misled(unsigned char *bytes, size_t length)
{
	chunk_sign(bytes, chunk_at(bytes, length, CHUNK_INDEX, 0));
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	cr_assert(strstr(said(&maker), "not what the index tells"));
	free(bytes);
}

/* Its numbers are those of the footer, and they are of other chunks. */
Test(capture_chunk, index_of_other_chunks)
{
	const uint16_t process = CHUNK_PROCESS, function = CHUNK_FUNCTION;
	size_t length, a, b;
	unsigned char *bytes;

	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	make_function(&maker, "f", "program");
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	a = entry_at(bytes, length, CHUNK_PROCESS, 0);
	b = entry_at(bytes, length, CHUNK_FUNCTION, 0);
	memcpy(bytes + a + offsetof(struct index_entry, type), &function, sizeof(function));
	memcpy(bytes + b + offsetof(struct index_entry, type), &process, sizeof(process));
	expect_misled(bytes, length);
}

/* Of three anchors: two that hold the bytes of a whole chunk, with an anchor of its own. */
static void make_anchors_inside(void)
{
	struct {
		struct chunk_header header;
		struct clock_anchor anchor;
	} inner = {{SCOPE_FILE_CHUNK_MAGIC, CHUNK_ANCHOR, 0, sizeof(struct clock_anchor), 0},
		   {CLOCK_ID_MONOTONIC, 10, CLOCK_ID_MONOTONIC, 0}};

	/* As a part of an anchor the checksum must not make an impossible time. */
	do {
		inner.anchor.ns++;
		chunk_sign((unsigned char *)&inner, 0);
	} while (((struct chunk_header *)&inner)->crc >> 31);
	make_anchor(&maker, CLOCK_ID_MONOTONIC, 1, 1);
	for (int i = 0; i < 2; i++) {
		struct clock_anchor anchor = {.clock = CLOCK_ID_MONOTONIC};
		size_t from = i * sizeof(anchor);

		memcpy(&anchor, (char *)&inner + from,
		       sizeof(inner) - from < sizeof(anchor) ? sizeof(inner) - from
							     : sizeof(anchor));
		cr_assert(!maker.output->anchor(maker.output, &anchor));
	}
}

/* What lies inside a chunk that was read is not read again. */
Test(capture_chunk, index_of_chunks_inside_others)
{
	size_t length, at;
	uint64_t inside;
	unsigned char *bytes;

	make_anchors_inside();
	cr_assert(!scope_file_writer_flush(maker.writer));
	make_anchor(&maker, CLOCK_ID_MONOTONIC, 2, 2);
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	inside = chunk_at(bytes, length, CHUNK_ANCHOR, 0) + sizeof(struct chunk_header) +
		 sizeof(struct clock_anchor);
	at = entry_at(bytes, length, CHUNK_ANCHOR, 1);
	memcpy(bytes + at + offsetof(struct index_entry, offset), &inside, sizeof(inside));
	expect_misled(bytes, length);
}

/* ---- places ---- */

/* Several readers of one file do not disturb each other. */
Test(capture_chunk, readers_side_by_side)
{
	struct scope_file *file;
	struct chunk_reader *readers[2];
	struct chunk chunks[2];
	uint64_t second = 0;

	make_many(2000);
	make_end(&maker, 0, 3000);
	file = scope_file_open(maker.path);
	readers[0] = chunk_reader_create(file);
	readers[1] = chunk_reader_create(file);
	cr_assert_eq(chunk_reader_next(readers[1], &chunks[1]), 1);
	second = chunks[1].next;
	while (chunk_reader_next(readers[0], &chunks[0]) > 0)
		;
	cr_assert(chunk_reader_whole(readers[0]));
	cr_assert_eq(chunk_reader_rest(readers[0]), 0);
	cr_assert_eq(chunk_reader_next(readers[1], &chunks[1]), 1);
	cr_assert_eq(chunks[1].offset, second);
	chunk_reader_destroy(readers[0]);
	chunk_reader_destroy(readers[1]);
	scope_file_close(file);
}
