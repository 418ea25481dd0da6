// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/writer.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/vec.h"
#include "file/page_cache.h"
#include "file/deflate.h"
#include "file/header.h"
#include "file/index.h"
#include "file/output.h"
#include "base/intern.h"

/*
 * A chunk of this size is written out; one more string of the greatest length still fits behind it.
 */
#define BATCH_FULL (64u << 10)
#define BATCH_ROOM (BATCH_FULL + SCOPE_FILE_STRING_MAX + 16)
static_assert(BATCH_ROOM <= SCOPE_FILE_CHUNK_MAX, "readers accept what we write");

/* One chunk being filled: room for its header, then the payload. */
struct batch {
	unsigned char *bytes;
	uint32_t length; /* of the payload */
};

struct scope_file_writer {
	struct event_output output;
	struct scope_file_output file;
	struct scope_file_cache cache;
	int error; /* the first that a write met; nothing is written after it */
	char *path;
	struct deflater *deflater; /* NULL: chunks are written as they are */
	struct intern strings;
	uint32_t strings_written; /* ids up to this one are in chunks that are written */
	struct batch batches[CHUNK_TYPES];
	uint64_t records[CHUNK_FOOTER];
	struct scopes_in_file *in_file; /* by function */
	size_t in_file_capacity;
	struct ring_span span;	     /* of the hooked scopes that come */
	struct ring_span batch_span; /* of those in the batch; last 0: unknown */
	uint64_t told;		     /* spans in the file reach to here */
	uint64_t index_offset;	     /* of the last index chunk */
};

static const char *cure_of(int err)
{
	switch (-err) {
	case ENOSPC:
	case EDQUOT:
		return ": free some space, or choose another place with -o";
	case EFBIG:
		return ": a file may not be longer there (ulimit -f); choose another place with -o";
	case EIO:
		return ": the disk, or the way to it, is failing; choose another place with -o";
	default:
		return "";
	}
}

static int fail(struct scope_file_writer *writer, int err)
{
	if (!writer->error) {
		writer->error = err;
		log_error(
			"writing the capture %s failed after %llu bytes: %s; what is in the file can still "
			"be read, the rest is lost%s",
			writer->path, (unsigned long long)writer->file.bytes, strerror(-err),
			cure_of(err));
	}
	return writer->error;
}

/* ---- chunks ---- */

static void append(struct scope_file_writer *writer, enum chunk_type type, const void *bytes,
		   size_t length)
{
	struct batch *batch = &writer->batches[type];

	memcpy(batch->bytes + sizeof(struct chunk_header) + batch->length, bytes, length);
	batch->length += (uint32_t)length;
}

/* Puts the header before a payload, and zeros behind it. Returns the length of the chunk. */
static size_t seal(unsigned char *chunk, enum chunk_type type, uint16_t flags, uint32_t length)
{
	struct chunk_header *header = (struct chunk_header *)chunk;
	unsigned char *payload = chunk + sizeof(*header);
	uint32_t padded = chunk_padded(length);

	memset(payload + length, 0, padded - length);
	*header = (struct chunk_header){SCOPE_FILE_CHUNK_MAGIC, (uint16_t)type, flags, length, 0};
	header->crc = chunk_crc(header, payload);
	return sizeof(*header) + padded;
}

/*
 * The chunk of a batch, deflated if that was asked for and is worth it. Header and footer never
 * are.
 */
static unsigned char *make_chunk(struct scope_file_writer *writer, enum chunk_type type,
				 size_t *length)
{
	const struct batch *batch = &writer->batches[type];
	unsigned char *packed = NULL;
	uint32_t packed_length;

	if (writer->deflater && type != CHUNK_HEADER && type != CHUNK_FOOTER)
		packed = deflater_pack(writer->deflater, batch->bytes + sizeof(struct chunk_header),
				       batch->length, &packed_length);
	*length = packed ? seal(packed, type, CHUNK_DEFLATED, packed_length)
			 : seal(batch->bytes, type, 0, batch->length);
	return packed ? packed : batch->bytes;
}

static uint32_t records_in(const struct batch *batch, enum chunk_type type)
{
	const void *payload = batch->bytes + sizeof(struct chunk_header);

	if (type == CHUNK_STRING)
		return ((const struct string_batch *)payload)->count;
	return batch->length / scope_file_record_sizes[type].here;
}

static int write_chunk(struct scope_file_writer *writer, enum chunk_type type);

/* Enters the chunk that was just written at `offset`. */
static int note_chunk(struct scope_file_writer *writer, enum chunk_type type, uint64_t offset)
{
	const struct batch *batch = &writer->batches[type];
	struct batch *index = &writer->batches[CHUNK_INDEX];
	struct index_head head = {.previous = writer->index_offset};
	struct index_entry entry = index_entry_make(
		offset, type, batch->bytes + sizeof(struct chunk_header), records_in(batch, type));

	if (!index->length)
		append(writer, CHUNK_INDEX, &head, sizeof(head));
	append(writer, CHUNK_INDEX, &entry, sizeof(entry));
	((struct index_head *)(index->bytes + sizeof(struct chunk_header)))->count++;
	return index->length >= BATCH_FULL ? write_chunk(writer, CHUNK_INDEX) : 0;
}

static int append_span(struct scope_file_writer *writer, struct ring_span span)
{
	writer->told = span.last;
	append(writer, CHUNK_SPAN, &span, sizeof(span));
	return write_chunk(writer, CHUNK_SPAN);
}

/* From where the scopes came is told before them. */
static int write_span(struct scope_file_writer *writer)
{
	struct ring_span span = writer->batch_span;

	writer->batch_span.last = 0;
	return span.last ? append_span(writer, span) : 0;
}

/* Drains that gave no scope, as the last of a file: who joins it to the next must not think that it lacks
 * any. */
static void write_last_span(struct scope_file_writer *writer)
{
	struct ring_span span = writer->span;

	if (writer->error || span.last <= writer->told)
		return;
	if (span.first < writer->told)
		span.first = writer->told;
	append_span(writer, span);
}

static int write_chunk(struct scope_file_writer *writer, enum chunk_type type)
{
	struct batch *batch = &writer->batches[type];
	const unsigned char *chunk;
	uint64_t offset;
	size_t length;
	int err = writer->error;

	if (!err && type == CHUNK_HOOKED)
		err = write_span(writer);
	if (err)
		return err;
	offset = writer->file.bytes;
	chunk = make_chunk(writer, type, &length);
	err = scope_file_output_write(&writer->file, chunk, length);
	if (err)
		return fail(writer, err);
	scope_file_cache_written(&writer->cache, writer->file.fd,
				 writer->file.base + writer->file.bytes);
	if (type == CHUNK_INDEX)
		writer->index_offset = offset;
	else if (type != CHUNK_HEADER && type != CHUNK_FOOTER)
		err = note_chunk(writer, type, offset);
	if (type == CHUNK_STRING)
		writer->strings_written = (uint32_t)writer->strings.count;
	batch->length = 0;
	return err;
}

/* All batches, in the order of their types: what is named comes before what names it. */
int scope_file_writer_flush(struct scope_file_writer *writer)
{
	for (int type = CHUNK_HEADER; type < CHUNK_FOOTER; type++) {
		if (writer->batches[type].length)
			write_chunk(writer, type);
	}
	write_last_span(writer);
	return writer->error;
}

/* Scopes are about to be added to the batch: it is of this drain too. */
static void widen_span(struct scope_file_writer *writer)
{
	if (!writer->batches[CHUNK_HOOKED].length)
		writer->batch_span = writer->span;
	else if (writer->batch_span.last)
		writer->batch_span.last = writer->span.last;
}

/* Appends `count` records of `size` bytes, writing out whenever the batch is full. */
static int put(struct scope_file_writer *writer, enum chunk_type type, const void *records,
	       size_t count, size_t size)
{
	const unsigned char *from = records;

	while (count && !writer->error) {
		size_t room = (BATCH_FULL - writer->batches[type].length) / size;
		size_t now = count < room ? count : room;

		if (type == CHUNK_HOOKED)
			widen_span(writer);
		append(writer, type, from, now * size);
		writer->records[type] += now;
		from += now * size;
		count -= now;
		if (now == room)
			scope_file_writer_flush(writer);
	}
	return writer->error;
}

/* ---- what the sources call ---- */

static struct scope_file_writer *writer_of(struct event_output *output)
{
	return (struct scope_file_writer *)((char *)output -
					    offsetof(struct scope_file_writer, output));
}

static void put_string(struct scope_file_writer *writer, const char *bytes, uint32_t length)
{
	struct batch *batch = &writer->batches[CHUNK_STRING];
	struct string_batch head = {writer->strings_written + 1, 0};
	static const char zeros[4];

	if (!batch->length)
		append(writer, CHUNK_STRING, &head, sizeof(head));
	append(writer, CHUNK_STRING, &length, sizeof(length));
	append(writer, CHUNK_STRING, bytes, length);
	append(writer, CHUNK_STRING, zeros, -length & 3u);
	((struct string_batch *)(batch->bytes + sizeof(struct chunk_header)))->count++;
	writer->records[CHUNK_STRING]++;
	if (batch->length >= BATCH_FULL)
		write_chunk(writer, CHUNK_STRING);
}

static int output_string(struct event_output *output, const char *bytes, size_t length,
			 uint32_t *id)
{
	struct scope_file_writer *writer = writer_of(output);
	bool added;
	int err;

	if (writer->error)
		return writer->error;
	if (length > SCOPE_FILE_STRING_MAX)
		length = SCOPE_FILE_STRING_MAX;
	err = intern_put(&writer->strings, bytes, length, id, &added);
	if (err)
		return fail(writer, err);
	if (added)
		put_string(writer, bytes, (uint32_t)length);
	return writer->error;
}

static int output_hooked(struct event_output *output, const struct hooked_scope *scopes,
			 size_t count)
{
	struct scope_file_writer *writer = writer_of(output);

	for (size_t i = 0; i < count; i++) {
		if (scopes[i].function >= writer->records[CHUNK_FUNCTION]) {
			log_error("a scope of function %u, which was not declared, is not written",
				  scopes[i].function);
			return -EINVAL;
		}
		scopes_in_file_add(&writer->in_file[scopes[i].function], scopes[i].flags);
	}
	return put(writer, CHUNK_HOOKED, scopes, count, sizeof(*scopes));
}

static int output_manual(struct event_output *output, const struct manual_event *events,
			 size_t count)
{
	return put(writer_of(output), CHUNK_MANUAL, events, count, sizeof(*events));
}

static int output_thread(struct event_output *output, const struct thread_info *thread)
{
	return put(writer_of(output), CHUNK_THREAD, thread, 1, sizeof(*thread));
}

static int output_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	return put(writer_of(output), CHUNK_ANCHOR, anchor, 1, sizeof(*anchor));
}

static int output_loss(struct event_output *output, const struct loss_event *loss)
{
	return put(writer_of(output), CHUNK_LOSS, loss, 1, sizeof(*loss));
}

static void output_span(struct event_output *output, uint64_t first, uint64_t last)
{
	writer_of(output)->span = (struct ring_span){first, last};
}

static int output_process(struct event_output *output, const struct process_info *process)
{
	return scope_file_writer_process(writer_of(output), process);
}

/* ---- the writer ---- */

static void destroy(struct scope_file_writer *writer)
{
	scope_file_output_close(&writer->file);
	deflater_destroy(writer->deflater);
	for (int type = 0; type < CHUNK_TYPES; type++)
		free(writer->batches[type].bytes);
	intern_clear(&writer->strings);
	free(writer->in_file);
	free(writer->path);
	free(writer);
}

static struct scope_file_writer *allocate(const char *path)
{
	struct scope_file_writer *writer = calloc(1, sizeof(*writer));

	if (!writer)
		return NULL;
	writer->file.fd = -1;
	writer->path = strdup(path);
	for (int type = CHUNK_HEADER; type < CHUNK_TYPES; type++) {
		writer->batches[type].bytes = malloc(sizeof(struct chunk_header) + BATCH_ROOM);
		if (!writer->batches[type].bytes || !writer->path) {
			destroy(writer);
			errno = ENOMEM;
			return NULL;
		}
	}
	writer->output.string = output_string;
	writer->output.hooked = output_hooked;
	writer->output.manual = output_manual;
	writer->output.thread = output_thread;
	writer->output.anchor = output_anchor;
	writer->output.loss = output_loss;
	writer->output.span = output_span;
	writer->output.process = output_process;
	return writer;
}

static int write_header(struct scope_file_writer *writer,
			const struct scope_file_writer_options *options, int argc,
			char *const *argv)
{
	struct scope_file_header header;

	scope_file_header_make(&header, options, argc, argv);
	append(writer, CHUNK_HEADER, &header.payload, sizeof(header.payload));
	append(writer, CHUNK_HEADER, header.host, header.payload.host_length);
	append(writer, CHUNK_HEADER, header.kernel, header.payload.kernel_length);
	append(writer, CHUNK_HEADER, header.command, header.payload.command_length);
	writer->records[CHUNK_HEADER] = 1;
	return scope_file_writer_flush(writer);
}

static int open_output(struct scope_file_writer *writer,
		       const struct scope_file_writer_options *options)
{
	if (!options->opened)
		return scope_file_output_open(&writer->file, writer->path, options->numbered);
	writer->file = *options->opened;
	options->opened->fd = -1;
	return 0;
}

static int open_writer(struct scope_file_writer *writer,
		       const struct scope_file_writer_options *options, int argc, char *const *argv)
{
	int err;

	if (options->level) {
		writer->deflater = deflater_create(options->level, BATCH_ROOM);
		if (!writer->deflater)
			return fail(writer, -ENOMEM);
	}
	err = open_output(writer, options);
	scope_file_cache_init(&writer->cache, writer->file.base);
	/* What is made of other files is about to be read. */
	writer->cache.is_off = !writer->file.is_regular || options->like;
	return err ? err : write_header(writer, options, argc, argv);
}

struct scope_file_writer *
scope_file_writer_create_with(const char *path, const struct scope_file_writer_options *options,
			      int argc, char *const *argv)
{
	static const struct scope_file_writer_options plain;
	struct scope_file_writer *writer = allocate(path);
	int err;

	if (!writer) {
		log_error("cannot create the capture %s: out of memory", path);
		return NULL;
	}
	err = open_writer(writer, options ? options : &plain, argc, argv);
	if (err) {
		destroy(writer);
		errno = -err;
		return NULL;
	}
	return writer;
}

struct scope_file_writer *scope_file_writer_create(const char *path, int argc, char *const *argv)
{
	return scope_file_writer_create_with(path, NULL, argc, argv);
}

struct event_output *scope_file_writer_output(struct scope_file_writer *writer)
{
	return &writer->output;
}

int scope_file_writer_function(struct scope_file_writer *writer,
			       const struct function_info *function)
{
	if (function->id != writer->records[CHUNK_FUNCTION] ||
	    function->id >= SCOPE_FILE_FUNCTION_MAX) {
		log_error(
			"function id %u out of order: a capture declares functions 0, 1, 2 ... up to %u",
			function->id, SCOPE_FILE_FUNCTION_MAX - 1);
		return -EINVAL;
	}
	if (vec_grow(&writer->in_file, &writer->in_file_capacity, function->id))
		return fail(writer, -ENOMEM);
	writer->in_file[function->id] = (struct scopes_in_file){0};
	return put(writer, CHUNK_FUNCTION, function, 1, sizeof(*function));
}

int scope_file_writer_process(struct scope_file_writer *writer, const struct process_info *process)
{
	/* Events before this are of the process as it was declared before, its clock included. */
	scope_file_writer_flush(writer);
	return put(writer, CHUNK_PROCESS, process, 1, sizeof(*process));
}

int scope_file_writer_function_accounting(struct scope_file_writer *writer, uint32_t id,
					  const struct function_accounting *accounting)
{
	struct function_account account = {.function = id, .accounting = *accounting};

	return put(writer, CHUNK_FUNCTION_ACCOUNTING, &account, 1, sizeof(account));
}

int scope_file_writer_segment_accounting(struct scope_file_writer *writer,
					 const struct segment_accounting *accounting)
{
	return put(writer, CHUNK_SEGMENT_ACCOUNTING, accounting, 1, sizeof(*accounting));
}

void scope_file_writer_set_stalled(struct scope_file_writer *writer, void (*stalled)(void *context),
				   void *context)
{
	scope_file_output_set_stalled(&writer->file, stalled, context);
}

uint64_t scope_file_writer_manual_in_file(const struct scope_file_writer *writer)
{
	return writer->records[CHUNK_MANUAL];
}

struct scopes_in_file scope_file_writer_in_file(const struct scope_file_writer *writer, uint32_t id)
{
	return id < writer->records[CHUNK_FUNCTION] ? writer->in_file[id]
						    : (struct scopes_in_file){0};
}

uint64_t scope_file_writer_bytes(const struct scope_file_writer *writer)
{
	return writer->file.bytes;
}

static int close_writer(struct scope_file_writer *writer)
{
	int err = scope_file_output_close(&writer->file);

	if (err)
		fail(writer, err);
	err = writer->error;
	destroy(writer);
	return err;
}

int scope_file_writer_finish(struct scope_file_writer *writer, uint64_t start_ns, uint64_t end_ns,
			     uint64_t recursion_misses)
{
	struct footer_payload footer = {.start_ns = start_ns,
					.end_ns = end_ns,
					.recursion_misses = recursion_misses,
					.chunk_length =
						sizeof(struct chunk_header) + sizeof(footer),
					.end_magic = SCOPE_FILE_END_MAGIC};

	scope_file_writer_flush(writer);
	if (writer->batches[CHUNK_INDEX].length)
		write_chunk(writer, CHUNK_INDEX);
	footer.index_offset = writer->index_offset;
	memcpy(footer.records, writer->records, sizeof(footer.records));
	append(writer, CHUNK_FOOTER, &footer, sizeof(footer));
	write_chunk(writer, CHUNK_FOOTER);
	return close_writer(writer);
}

int scope_file_writer_abandon(struct scope_file_writer *writer)
{
	scope_file_writer_flush(writer);
	return close_writer(writer);
}
