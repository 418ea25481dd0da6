// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/concat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "file/chunk.h"
#include "file/join.h"
#include "file/writer.h"

struct joining {
	struct scope_file **files; /* by the time at which they were begun */
	size_t count;
	struct scope_file_join *join;
	struct scope_file_writer *writer;
	struct event_output *output;
	uint32_t *strings; /* of the file at hand: its ids -> ours */
	size_t string_count, string_capacity;
	uint32_t functions; /* declared so far */
	struct footer_payload footer;
	uint64_t position; /* in the kernel's ring, to which the files before the one at hand go */
	size_t cut;	   /* files that were cut short */
	char *missing;	   /* the first of what none of them has */
};

/* ---- records, with their names as ours ---- */

static int take_strings(struct joining *j, const struct chunk *chunk)
{
	const unsigned char *at = chunk->payload + sizeof(struct string_batch);
	const unsigned char *end = chunk->payload + chunk->length;
	int err = 0;

	for (uint32_t i = 0; i < chunk->count && !err; i++) {
		uint32_t length;

		if ((size_t)(end - at) < sizeof(length))
			return -EBADMSG;
		memcpy(&length, at, sizeof(length));
		at += sizeof(length);
		if (length > SCOPE_FILE_STRING_MAX || (size_t)(end - at) < length + (-length & 3u))
			return -EBADMSG;
		err = vec_grow(&j->strings, &j->string_capacity, j->string_count);
		if (!err)
			err = j->output->string(j->output, (const char *)at, length,
						&j->strings[j->string_count++]);
		at += length + (-length & 3u);
	}
	return err;
}

/* 0, or -EBADMSG if the file has no such string. */
static int rename_id(const struct joining *j, uint32_t *id)
{
	if (*id >= j->string_count)
		return -EBADMSG;
	*id = j->strings[*id];
	return 0;
}

/* All files declare the same functions, in the same order. */
static int take_function(struct joining *j, struct function_info info)
{
	int err = rename_id(j, &info.name);

	if (!err)
		err = rename_id(j, &info.module);
	if (err || info.id < j->functions)
		return err;
	j->functions++;
	return scope_file_writer_function(j->writer, &info);
}

static int take_process(struct joining *j, struct process_info info)
{
	int err = rename_id(j, &info.name);

	if (!err)
		err = rename_id(j, &info.command);
	return err ? err : scope_file_writer_process(j->writer, &info);
}

static int take_thread(struct joining *j, struct thread_info info)
{
	int err = rename_id(j, &info.name);

	return err ? err : j->output->thread(j->output, &info);
}

static int take_manual(struct joining *j, struct manual_event event)
{
	int err = rename_id(j, &event.name);

	return err ? err : j->output->manual(j->output, &event, 1);
}

static void take_footer(struct joining *j, const struct footer_payload *footer)
{
	if (footer->start_ns < j->footer.start_ns)
		j->footer.start_ns = footer->start_ns;
	if (footer->end_ns > j->footer.end_ns)
		j->footer.end_ns = footer->end_ns;
	j->footer.recursion_misses += footer->recursion_misses;
}

static int take_record(struct joining *j, const struct chunk *chunk, const void *record)
{
	const struct function_account *account = record;

	switch (chunk->type) {
	case CHUNK_PROCESS:
		return take_process(j, *(const struct process_info *)record);
	case CHUNK_THREAD:
		return take_thread(j, *(const struct thread_info *)record);
	case CHUNK_FUNCTION:
		return take_function(j, *(const struct function_info *)record);
	case CHUNK_ANCHOR:
		return j->output->anchor(j->output, record);
	case CHUNK_MANUAL:
		return take_manual(j, *(const struct manual_event *)record);
	case CHUNK_LOSS:
		return j->output->loss(j->output, record);
	case CHUNK_FUNCTION_ACCOUNTING:
		return scope_file_writer_function_accounting(j->writer, account->function,
							     &account->accounting);
	case CHUNK_SEGMENT_ACCOUNTING:
		return scope_file_writer_segment_accounting(j->writer, record);
	case CHUNK_FOOTER:
		take_footer(j, record);
		return 0;
	default:
		return 0;
	}
}

/* A file that was cut short has no footer to tell when it ended. */
static void note_ends(struct joining *j, const struct hooked_scope *scopes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (scopes[i].end_ns > j->footer.end_ns)
			j->footer.end_ns = scopes[i].end_ns;
}

static int take_chunk(struct joining *j, const struct chunk *chunk)
{
	int err = 0;

	if (chunk->type == CHUNK_STRING)
		return take_strings(j, chunk);
	if (chunk->type == CHUNK_HOOKED) {
		note_ends(j, (const struct hooked_scope *)chunk->payload, chunk->count);
		if (j->output->span)
			j->output->span(j->output, chunk->span.first, chunk->span.last);
		return j->output->hooked(j->output, (const struct hooked_scope *)chunk->payload,
					 chunk->count);
	}
	for (uint32_t i = 0; i < chunk->count && !err; i++)
		err = take_record(j, chunk, chunk->payload + (size_t)i * chunk->size);
	return err;
}

/*
 * Each drainer begins where the last had given the ring back, which is never behind what is in its
 * file.
 */
static int compare_ends(struct joining *j, size_t index, const struct chunk_reader *reader)
{
	const struct ring_span span = chunk_reader_span(reader);
	const char *path = j->files[index]->path;
	bool is_cut = !chunk_reader_whole(reader);
	int length = 0;

	j->cut += is_cut;
	if (!j->missing && span.last && j->position && span.first > j->position)
		length = asprintf(&j->missing,
				  "between %s and the file before it %" PRIu64
				  " bytes of the kernel's ring are in no file",
				  path, span.first - j->position);
	else if (!j->missing && is_cut && index + 1 == j->count)
		length = asprintf(&j->missing,
				  "%s, the last of the files, was cut short after byte %" PRIu64
				  ": what came later is missing",
				  path, chunk_reader_end(reader));
	if (span.last > j->position)
		j->position = span.last;
	return length < 0 ? -ENOMEM : 0;
}

static int copy_file(struct joining *j, size_t index)
{
	struct chunk_reader *reader = chunk_reader_create(j->files[index]);
	struct chunk chunk;
	int more = reader ? 1 : -ENOMEM, err = 0;

	j->string_count = 0;
	if (vec_grow(&j->strings, &j->string_capacity, j->string_count))
		more = -ENOMEM;
	else
		j->strings[j->string_count++] = 0; /* the empty string */
	if (reader)
		scope_file_join_apply(j->join, index, reader);
	while (more > 0 && !err && (more = chunk_reader_next(reader, &chunk)) > 0) {
		err = take_chunk(j, &chunk);
		if (err == -EBADMSG)
			chunk_damaged(j->files[index], chunk.offset,
				      "a name that is not in the file");
	}
	if (!err && !more)
		err = compare_ends(j, index, reader);
	chunk_reader_destroy(reader);
	return err ? err : more;
}

/* ---- the whole ---- */

static int by_begin(const void *left, const void *right)
{
	const struct scope_file *a = *(struct scope_file *const *)left,
				*b = *(struct scope_file *const *)right;

	return (a->header.monotonic_ns > b->header.monotonic_ns) -
	       (a->header.monotonic_ns < b->header.monotonic_ns);
}

static int open_files(struct joining *j, const char *const *paths)
{
	for (size_t i = 0; i < j->count; i++) {
		j->files[i] = scope_file_open(paths[i]);
		if (!j->files[i])
			return -errno;
	}
	qsort(j->files, j->count, sizeof(*j->files), by_begin);
	j->join = scope_file_join_create(j->files, j->count);
	return j->join ? 0 : -errno;
}

static int copy_all(struct joining *j)
{
	uint64_t start = j->files[0]->header.monotonic_ns;
	int err = 0;

	j->footer = (struct footer_payload){.start_ns = start, .end_ns = start};
	for (size_t i = 0; i < j->count && !err; i++)
		err = copy_file(j, i);
	if (err == -ENOMEM)
		log_error("out of memory while joining %zu captures", j->count);
	return err;
}

static int write_whole(struct joining *j, const char *path)
{
	const struct header_payload *header = &j->files[0]->header;
	struct scope_file_writer_options options = {.kind = header->capture_kind,
						    .number = header->capture_number,
						    .start_ns = header->capture_start_ns,
						    .like = j->files[0]};
	char *command[] = {j->files[0]->command, NULL};
	int err, finished;

	j->writer = scope_file_writer_create_with(path, &options, 1, command);
	if (!j->writer)
		return -errno;
	j->output = scope_file_writer_output(j->writer);
	err = copy_all(j);
	finished = scope_file_writer_finish(j->writer, j->footer.start_ns, j->footer.end_ns,
					    j->footer.recursion_misses);
	return err ? err : finished;
}

/*
 * The writer opens it by the name that the kernel has for it, so that nothing is left if we are
 * killed.
 */
static int write_unnamed(struct joining *j)
{
	char path[32];
	int fd = io_open_unnamed(), err;

	if (fd < 0) {
		log_error(
			"cannot make a temporary file for the joined capture in %s: %s; set TMPDIR",
			io_temporary_directory(), strerror(-fd));
		return fd;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = write_whole(j, path);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int scope_file_concat(const char *const *paths, size_t count, char **missing)
{
	struct joining j = {.count = count};
	int fd = -ENOMEM;

	j.files = calloc(count, sizeof(*j.files));
	if (j.files)
		fd = open_files(&j, paths);
	if (!fd)
		fd = write_unnamed(&j);
	if (fd >= 0 && j.cut)
		log_info(
			"%zu of the %zu files were cut short; the next of each goes on where it ends",
			j.cut, count);
	*missing = fd >= 0 ? j.missing : NULL;
	if (fd < 0)
		free(j.missing);
	scope_file_join_destroy(j.join);
	for (size_t i = 0; j.files && i < count; i++)
		if (j.files[i])
			scope_file_close(j.files[i]);
	free(j.files);
	free(j.strings);
	return fd;
}
