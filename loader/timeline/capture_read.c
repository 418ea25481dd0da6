// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/capture_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/vec.h"
#include "timeline/names.h"

#define TIME_MAX    ((uint64_t)INT64_MAX)
#define KNOWN_FLAGS (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_UNWOUND | SCOPE_FLAG_CUT | SCOPE_FLAG_LOST)

struct reader {
	const char *path;
	int fd;
	uint64_t offset; /* of the chunk at hand */
	struct chunk_header chunk;
	unsigned char *payload; /* room for CAPTURE_CHUNK_MAX bytes */
	size_t have;		/* bytes of it that could be read */
	uint16_t minor;		/* of the file */
	bool whole;		/* the footer was read */
	struct footer_payload footer;
	struct capture *capture;
	struct timeline *timeline;
};

/* The file does not hold what its format says. */
static int damaged(const struct reader *reader, const char *what)
{
	log_error("the capture %s is damaged at byte %llu: %s; copy it again from where it was made, or "
		  "record anew",
		  reader->path, (unsigned long long)reader->offset, what);
	return -EBADMSG;
}

static int refused(const struct reader *reader, const char *what)
{
	log_error("%s cannot be read as a capture: %s", reader->path, what);
	return -EINVAL;
}

/* ---- what each kind of record becomes ---- */

static bool is_name(const struct reader *reader, uint32_t id)
{
	return id < reader->timeline->name_count;
}

static struct thread_events *add_thread(struct capture *capture, uint64_t key)
{
	struct thread_events *thread;

	if (capture->thread_count >= UINT32_MAX ||
	    vec_grow(&capture->threads, &capture->thread_capacity, capture->thread_count) ||
	    hash_map_put(&capture->thread_index, key, (uint32_t)capture->thread_count))
		return NULL;
	thread = &capture->threads[capture->thread_count];
	memset(thread, 0, sizeof(*thread));
	thread->pid = (uint32_t)(key >> 32);
	thread->tid = (uint32_t)key;
	capture->latest = capture->thread_count++;
	return thread;
}

static struct thread_events *thread_of(struct capture *capture, uint32_t pid, uint32_t tid)
{
	struct thread_events *thread = capture->threads ? &capture->threads[capture->latest] : NULL;
	uint64_t key = (uint64_t)pid << 32 | tid;
	uint32_t index;

	if (thread && thread->pid == pid && thread->tid == tid)
		return thread;
	if (!hash_map_get(&capture->thread_index, key, &index))
		return add_thread(capture, key);
	capture->latest = index;
	return &capture->threads[index];
}

static int take_strings(struct reader *reader, const void *records, size_t length)
{
	const struct string_batch *batch = records;
	struct timeline *timeline = reader->timeline;
	const unsigned char *at = (const unsigned char *)(batch + 1);
	size_t left = length - sizeof(*batch);

	if (length < sizeof(*batch) || batch->first_id != timeline->name_count)
		return damaged(reader, "strings out of order");
	for (uint32_t i = 0; i < batch->count; i++) {
		uint32_t size, padded;

		if (left < sizeof(size))
			return damaged(reader, "more strings than there is room for");
		memcpy(&size, at, sizeof(size));
		if (size > CAPTURE_STRING_MAX || left - sizeof(size) < ((size + 3u) & ~3u))
			return damaged(reader, "a string longer than its chunk");
		padded = (size + 3u) & ~3u;
		if (vec_grow(&timeline->names, &reader->capture->name_capacity, timeline->name_count))
			return -ENOMEM;
		timeline->names[timeline->name_count] =
			name_from_bytes((const char *)at + sizeof(size), size);
		if (!timeline->names[timeline->name_count])
			return -ENOMEM;
		timeline->name_count++;
		at += sizeof(size) + padded;
		left -= sizeof(size) + padded;
	}
	reader->capture->records[CHUNK_STRING] += batch->count;
	return left ? damaged(reader, "bytes behind the last string") : 0;
}

/* A process may be declared again: by exec it has another name and clock, and the same start. */
static int take_process(struct reader *reader, const void *record)
{
	const struct process_info *process = record;
	struct timeline *timeline = reader->timeline;
	struct hash_map *index = &reader->capture->process_index;
	uint32_t i;

	if (!is_name(reader, process->name) || !is_name(reader, process->command))
		return damaged(reader, "a process with a name that is not in the file");
	if (process->clock > CLOCK_ID_CNTVCT)
		return damaged(reader, "a process with an unknown clock");
	if (hash_map_get(index, process->pid, &i) && timeline->processes[i].start_ns == process->start_ns) {
		timeline->processes[i] = *process;
		return 0;
	}
	if (vec_grow(&timeline->processes, &reader->capture->process_capacity, timeline->process_count) ||
	    hash_map_put(index, process->pid, (uint32_t)timeline->process_count))
		return -ENOMEM;
	timeline->processes[timeline->process_count++] = *process;
	return 0;
}

static int take_thread(struct reader *reader, const void *record)
{
	const struct thread_info *info = record;
	struct thread_events *thread;

	if (!is_name(reader, info->name))
		return damaged(reader, "a thread with a name that is not in the file");
	if (info->change < THREAD_SEEN || info->change > THREAD_EXITED)
		return damaged(reader, "an unknown kind of change of a thread");
	if (info->start_ns > TIME_MAX || info->time_ns > TIME_MAX)
		return damaged(reader, "a thread at an impossible time");
	thread = thread_of(reader->capture, info->pid, info->tid);
	if (!thread || vec_grow(&thread->infos, &thread->info_capacity, thread->info_count))
		return -ENOMEM;
	thread->infos[thread->info_count++] = *info;
	return 0;
}

static int take_function(struct reader *reader, const void *record)
{
	const struct function_info *function = record;
	struct timeline *timeline = reader->timeline;

	if (function->id != timeline->function_count || function->id >= CAPTURE_FUNCTION_MAX)
		return damaged(reader, "functions out of order");
	if (!is_name(reader, function->name) || !is_name(reader, function->module))
		return damaged(reader, "a function with a name that is not in the file");
	if (vec_grow(&timeline->functions, &reader->capture->function_capacity, timeline->function_count))
		return -ENOMEM;
	memset(&timeline->functions[function->id], 0, sizeof(timeline->functions[0]));
	timeline->functions[timeline->function_count++].info = *function;
	return 0;
}

static int take_anchor(struct reader *reader, const void *record)
{
	const struct clock_anchor *anchor = record;
	struct capture *capture = reader->capture;

	if (anchor->clock < CLOCK_ID_MONOTONIC || anchor->clock > CLOCK_ID_CNTVCT)
		return damaged(reader, "an anchor of an unknown clock");
	if (anchor->ns > TIME_MAX)
		return damaged(reader, "an anchor at an impossible time");
	if (vec_grow(&capture->anchors, &capture->anchor_capacity, capture->anchor_count))
		return -ENOMEM;
	capture->anchors[capture->anchor_count++] = *anchor;
	return 0;
}

static int take_hooked(struct reader *reader, const void *record)
{
	const struct hooked_scope *scope = record;
	bool finished = !(scope->flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_UNWOUND));
	struct thread_events *thread;
	struct raw_call *call;

	if (scope->function >= reader->timeline->function_count)
		return damaged(reader, "a scope of a function that is not in the file");
	if (scope->start_ns > TIME_MAX || scope->end_ns > TIME_MAX)
		return damaged(reader, "a scope at an impossible time");
	if (scope->end_ns < scope->start_ns && !(scope->flags & SCOPE_FLAG_UNFINISHED))
		return damaged(reader, "a scope that ends before it starts");
	thread = thread_of(reader->capture, scope->pid, scope->tid);
	if (!thread || vec_grow(&thread->calls, &thread->call_capacity, thread->call_count))
		return -ENOMEM;
	call = &thread->calls[thread->call_count];
	call->start_ns = scope->start_ns;
	call->end_ns = scope->end_ns;
	call->id = scope->function;
	call->order = (uint32_t)thread->call_count++;
	call->flags = scope->flags & KNOWN_FLAGS;
	reader->timeline->functions[scope->function].in_file += finished;
	return 0;
}

static bool manual_kind_known(uint8_t kind)
{
	return kind >= MANUAL_START && kind <= MANUAL_FLOW && kind != MANUAL_STOP + 1;
}

/* Notes from which manual event on the thread's ticks are of another clock. */
static int note_clock(struct capture *capture, struct thread_events *thread)
{
	uint32_t process, clock = 0;

	if (hash_map_get(&capture->process_index, thread->pid, &process))
		clock = capture->timeline->processes[process].clock;
	if (thread->run_count && thread->runs[thread->run_count - 1].clock == clock)
		return 0;
	if (vec_grow(&thread->runs, &thread->run_capacity, thread->run_count))
		return -ENOMEM;
	thread->runs[thread->run_count].first = thread->manual_count;
	thread->runs[thread->run_count++].clock = clock;
	return 0;
}

static int take_manual(struct reader *reader, const void *record)
{
	const struct manual_event *event = record;
	bool paired = event->kind == MANUAL_START || event->kind == MANUAL_STOP;
	struct thread_events *thread;
	struct raw_manual *raw;

	if (!manual_kind_known(event->kind)) {
		/* A newer minor version may have kinds of its own. */
		return reader->minor > CAPTURE_MINOR ? 0 : damaged(reader, "an unknown kind of manual event");
	}
	if (!is_name(reader, event->name))
		return damaged(reader, "a manual event with a name that is not in the file");
	thread = thread_of(reader->capture, event->pid, event->tid);
	if (!thread || vec_grow(&thread->manual, &thread->manual_capacity, thread->manual_count))
		return -ENOMEM;
	if ((!thread->run_count || event->kind == MANUAL_THREAD_START) && note_clock(reader->capture, thread))
		return -ENOMEM;
	raw = &thread->manual[thread->manual_count++];
	raw->time = event->ticks;
	raw->value = paired ? event->scope_id : event->value;
	raw->name = event->name;
	raw->kind = event->kind;
	raw->ring = event->ring;
	raw->inside = event->kind == MANUAL_COMPLETE ? event->flags : 0;
	return 0;
}

static int take_loss(struct reader *reader, const void *record)
{
	const struct loss_event *loss = record;
	struct timeline *timeline = reader->timeline;

	if (loss->place < LOSS_KERNEL_RING || loss->place > LOSS_HANDOFF)
		return reader->minor > CAPTURE_MINOR ? 0 : damaged(reader, "a loss at an unknown place");
	if (vec_grow(&timeline->losses, &reader->capture->loss_capacity, timeline->loss_count))
		return -ENOMEM;
	timeline->losses[timeline->loss_count++] = *loss;
	return 0;
}

static int take_function_account(struct reader *reader, const void *record)
{
	const struct function_account *account = record;
	struct function_entry *entry;

	if (account->function >= reader->timeline->function_count)
		return damaged(reader, "the accounting of a function that is not in the file");
	entry = &reader->timeline->functions[account->function];
	if (entry->accounted)
		return damaged(reader, "a second accounting of the same function");
	entry->accounting = account->accounting;
	entry->accounted = true;
	return 0;
}

static int take_segment_accounting(struct reader *reader, const void *record)
{
	struct capture *capture = reader->capture;

	if (vec_grow(&capture->segments, &capture->segment_capacity, capture->segment_count))
		return -ENOMEM;
	memcpy(&capture->segments[capture->segment_count++], record, sizeof(struct segment_accounting));
	return 0;
}

/* A footer that counts other records than the file holds: chunks are missing, or were put in. */
static int take_footer(struct reader *reader, const void *record)
{
	memcpy(&reader->footer, record, sizeof(reader->footer));
	if (reader->footer.start_ns > TIME_MAX || reader->footer.end_ns > TIME_MAX)
		return damaged(reader, "a footer with an impossible time");
	for (int type = CHUNK_HEADER; type < CHUNK_FOOTER; type++) {
		if (reader->footer.records[type] != reader->capture->records[type])
			return damaged(reader, "the footer counts other records than the file holds: "
					       "a part of the file is missing");
	}
	reader->whole = true;
	return 0;
}

/* ---- chunks ---- */

/* How each type of chunk is taken: `count` records of one size, or (size 0) by a function of its own. */
static const struct record_kind {
	size_t size;
	int (*take)(struct reader *reader, const void *record);
} record_kinds[CHUNK_TYPES] = {
	[CHUNK_PROCESS] = {sizeof(struct process_info), take_process},
	[CHUNK_THREAD] = {sizeof(struct thread_info), take_thread},
	[CHUNK_FUNCTION] = {sizeof(struct function_info), take_function},
	[CHUNK_ANCHOR] = {sizeof(struct clock_anchor), take_anchor},
	[CHUNK_HOOKED] = {sizeof(struct hooked_scope), take_hooked},
	[CHUNK_MANUAL] = {sizeof(struct manual_event), take_manual},
	[CHUNK_LOSS] = {sizeof(struct loss_event), take_loss},
	[CHUNK_FUNCTION_ACCOUNTING] = {sizeof(struct function_account), take_function_account},
	[CHUNK_SEGMENT_ACCOUNTING] = {sizeof(struct segment_accounting), take_segment_accounting},
	[CHUNK_FOOTER] = {sizeof(struct footer_payload), take_footer},
};

static int take_chunk(struct reader *reader)
{
	uint32_t type = reader->chunk.type, length = reader->chunk.length;
	const struct record_kind *kind;
	int err;

	if (type == CHUNK_STRING)
		return take_strings(reader, reader->payload, length);
	if (type <= CHUNK_HEADER || type >= CHUNK_TYPES)
		return type > CHUNK_HEADER && reader->minor > CAPTURE_MINOR
			       ? 0
			       : damaged(reader, "a chunk of an unknown type");
	kind = &record_kinds[type];
	if (!length || length % kind->size || (type == CHUNK_FOOTER && length != kind->size))
		return damaged(reader, "a chunk that does not hold whole records");
	for (uint32_t at = 0; at < length; at += kind->size) {
		err = kind->take(reader, reader->payload + at);
		if (err)
			return err;
	}
	if (type < CHUNK_FOOTER)
		reader->capture->records[type] += length / kind->size;
	return 0;
}

/* Reads up to `length` bytes, fewer only at the end of the file. Their number, or -errno (said). */
static ssize_t read_some(struct reader *reader, void *bytes, size_t length)
{
	size_t have = 0;

	while (have < length) {
		ssize_t done = read(reader->fd, (char *)bytes + have, length - have);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			int err = -errno;

			if (err == -EISDIR)
				log_error("%s is a directory; name the capture file in it", reader->path);
			else
				log_error("cannot read the capture %s: %s", reader->path, strerror(-err));
			return err;
		}
		if (!done)
			break;
		have += (size_t)done;
	}
	return (ssize_t)have;
}

static bool chunk_intact(const struct chunk_header *header, const unsigned char *payload, size_t have)
{
	return header->magic == CAPTURE_CHUNK_MAGIC && header->length <= CAPTURE_CHUNK_MAX &&
	       have >= chunk_padded(header->length) && header->crc == chunk_crc(header, payload);
}

/*
 * The last chunk reaches beyond the end of the file. If an intact chunk begins inside it, the file was not
 * cut short: the length is wrong. (A limited number of tries, so that a hostile file costs little.)
 */
static bool chunk_follows(const struct reader *reader)
{
	size_t end = reader->have;
	int tries = 64;

	for (size_t at = 0; at + sizeof(struct chunk_header) <= end && tries; at += 8) {
		const unsigned char *inside = reader->payload + at;
		struct chunk_header inner;

		memcpy(&inner, inside, sizeof(inner));
		if (inner.magic != CAPTURE_CHUNK_MAGIC)
			continue;
		if (chunk_intact(&inner, inside + sizeof(inner), end - at - sizeof(inner)))
			return true;
		tries--;
	}
	return false;
}

/* Reads the next chunk. 1: it is there, 0: the file ends here or inside it, or -errno (said). */
static int next_chunk(struct reader *reader)
{
	struct chunk_header *chunk = &reader->chunk;
	ssize_t have = read_some(reader, chunk, sizeof(*chunk));

	if (have < 0)
		return (int)have;
	if (have && reader->whole)
		return damaged(reader, "there is more behind the footer");
	if (have < (ssize_t)sizeof(*chunk))
		return 0;
	if (chunk->magic != CAPTURE_CHUNK_MAGIC)
		return damaged(reader, "no chunk begins here");
	if (chunk->length > CAPTURE_CHUNK_MAX)
		return damaged(reader, "a chunk of an impossible length");
	have = read_some(reader, reader->payload, chunk_padded(chunk->length));
	if (have < 0)
		return (int)have;
	reader->have = (size_t)have;
	if (reader->have < chunk_padded(chunk->length))
		return chunk_follows(reader) ? damaged(reader, "a chunk of a wrong length") : 0;
	if (!chunk_intact(chunk, reader->payload, reader->have))
		return damaged(reader, "a checksum does not match");
	return 1;
}

/* ---- the header ---- */

static char *copy_text(const unsigned char **at, uint32_t length)
{
	char *text = name_from_bytes((const char *)*at, length);

	*at += length;
	return text;
}

static int take_header(struct reader *reader)
{
	struct timeline *timeline = reader->timeline;
	struct header_payload header;
	const unsigned char *at = reader->payload + sizeof(header);

	memcpy(&header, reader->payload, sizeof(header));
	if (header.byte_order != CAPTURE_BYTE_ORDER)
		return refused(reader,
			       "it was written on a machine with the other byte order; read it there");
	if (header.major != CAPTURE_MAJOR) {
		log_error("the capture %s has version %u.%u of the format, this scopetrace reads version %u; "
			  "use the scopetrace that wrote it, or one of its age",
			  reader->path, header.major, header.minor, CAPTURE_MAJOR);
		return -EINVAL;
	}
	if ((uint64_t)header.host_length + header.kernel_length + header.command_length !=
	    reader->chunk.length - sizeof(header))
		return damaged(reader, "the texts of the header are longer than it");
	if (header.monotonic_ns > TIME_MAX || header.realtime_ns > TIME_MAX || header.boottime_ns > TIME_MAX)
		return damaged(reader, "a header with an impossible time");
	reader->minor = header.minor;
	timeline->start_ns = header.monotonic_ns;
	timeline->realtime_offset_ns = header.realtime_ns - header.monotonic_ns;
	timeline->boottime_offset_ns = (int64_t)(header.boottime_ns - header.monotonic_ns);
	timeline->host = copy_text(&at, header.host_length);
	timeline->kernel = copy_text(&at, header.kernel_length);
	timeline->command = copy_text(&at, header.command_length);
	reader->capture->records[CHUNK_HEADER]++;
	return timeline->host && timeline->kernel && timeline->command ? 0 : -ENOMEM;
}

/* Reads the first chunk: is this a capture at all, and one that we can read? */
static int read_header(struct reader *reader)
{
	struct chunk_header *chunk = &reader->chunk;
	ssize_t have = read_some(reader, chunk, sizeof(*chunk));

	if (have < 0)
		return (int)have;
	if (!have)
		return refused(reader, "it is empty; was the recording stopped before it began?");
	if (have >= 4 && chunk->magic == __builtin_bswap32(CAPTURE_CHUNK_MAGIC))
		return refused(reader,
			       "it was written on a machine with the other byte order; read it there");
	if (have >= 4 && chunk->magic != CAPTURE_CHUNK_MAGIC)
		return refused(reader, "it is not one; captures are made by scopetrace record");
	if (have < (ssize_t)sizeof(*chunk))
		return refused(reader, "it ends inside its header");
	if (chunk->type != CHUNK_HEADER || chunk->length > CAPTURE_CHUNK_MAX ||
	    chunk->length < sizeof(struct header_payload))
		return damaged(reader, "the first chunk is not a header");
	have = read_some(reader, reader->payload, chunk_padded(chunk->length));
	if (have < 0)
		return (int)have;
	if ((size_t)have < chunk_padded(chunk->length))
		return refused(reader, "it ends inside its header");
	if (!chunk_intact(chunk, reader->payload, (size_t)have))
		return damaged(reader, "a checksum does not match");
	if (memcmp(reader->payload, CAPTURE_MAGIC, 8))
		return refused(reader, "it is not one; captures are made by scopetrace record");
	reader->offset = sizeof(*chunk) + chunk_padded(chunk->length);
	return take_header(reader);
}

/* ---- the file ---- */

static int read_chunks(struct reader *reader)
{
	int more = read_header(reader);

	if (more)
		return more;
	while ((more = next_chunk(reader)) > 0) {
		int err = take_chunk(reader);

		if (err)
			return err;
		reader->offset += sizeof(reader->chunk) + chunk_padded(reader->chunk.length);
	}
	return more;
}

/* names[0] is the empty name. */
static int add_empty_name(struct capture *capture)
{
	struct timeline *timeline = capture->timeline;

	if (vec_grow(&timeline->names, &capture->name_capacity, 0))
		return -ENOMEM;
	timeline->names[0] = strdup("");
	if (!timeline->names[0])
		return -ENOMEM;
	timeline->name_count = 1;
	return 0;
}

static void conclude(struct reader *reader)
{
	struct timeline *timeline = reader->timeline;

	if (reader->whole) {
		timeline->start_ns = reader->footer.start_ns;
		timeline->end_ns = reader->footer.end_ns;
		timeline->accounting.recursion_misses = reader->footer.recursion_misses;
	} else {
		timeline->truncated = true;
		timeline->truncated_at = reader->offset;
	}
}

int capture_load(const char *path, struct capture *capture)
{
	struct reader reader = {.path = path, .capture = capture, .timeline = capture->timeline};
	int err;

	reader.fd = open(strcmp(path, "-") ? path : "/dev/stdin", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (reader.fd < 0) {
		err = -errno;
		log_error("cannot open the capture %s: %s%s", path, strerror(-err),
			  err == -ENOENT ? "; scopetrace record makes one" : "");
		return err;
	}
	reader.payload = malloc(CAPTURE_CHUNK_MAX);
	err = reader.payload ? add_empty_name(capture) : -ENOMEM;
	if (!err)
		err = read_chunks(&reader);
	if (!err)
		conclude(&reader);
	if (err == -ENOMEM)
		log_error("out of memory while reading the capture %s", path);
	free(reader.payload);
	close(reader.fd);
	return err;
}

void thread_events_clear(struct thread_events *thread)
{
	free(thread->calls);
	free(thread->manual);
	free(thread->runs);
	free(thread->infos);
	memset(thread, 0, sizeof(*thread));
}

void capture_clear(struct capture *capture)
{
	for (size_t i = 0; i < capture->thread_count; i++)
		thread_events_clear(&capture->threads[i]);
	free(capture->threads);
	hash_map_clear(&capture->thread_index);
	hash_map_clear(&capture->process_index);
	free(capture->anchors);
	free(capture->segments);
	memset(capture, 0, sizeof(*capture));
}
