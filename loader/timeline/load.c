// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/utf8.h"
#include "base/vec.h"
#include "file/index.h"
#include "file/spool.h"
#include "timeline/first_pass.h"

#define TIME_MAX ((uint64_t)INT64_MAX)

struct reader {
	struct scope_file *file;
	struct chunk chunk; /* at hand */
	uint16_t minor;	    /* of the file */
	struct footer_payload footer;
	struct trace_index *trace;
	struct timeline *timeline;
};

/* The file does not hold what its format says. */
static int damaged(const struct reader *reader, const char *what)
{
	return chunk_damaged(reader->file, reader->chunk.offset, what);
}

/* ---- what each kind of record becomes ---- */

static bool is_name(const struct reader *reader, uint32_t id)
{
	return id < reader->timeline->name_count;
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
		if (size > SCOPE_FILE_STRING_MAX || left - sizeof(size) < ((size + 3u) & ~3u))
			return damaged(reader, "a string longer than its chunk");
		if (!size)
			return damaged(reader, "an empty string that has a number of its own");
		padded = (size + 3u) & ~3u;
		if (vec_grow(&timeline->names, &reader->trace->name_capacity, timeline->name_count))
			return -ENOMEM;
		timeline->names[timeline->name_count] =
			name_from_bytes((const char *)at + sizeof(size), size);
		if (!timeline->names[timeline->name_count])
			return -ENOMEM;
		timeline->name_count++;
		at += sizeof(size) + padded;
		left -= sizeof(size) + padded;
	}
	return left ? damaged(reader, "bytes behind the last string") : 0;
}

static int note_change(struct reader *reader, uint32_t process)
{
	struct timeline *timeline = reader->timeline;
	const struct process_info *info = &timeline->processes[process];

	if (vec_grow(&timeline->process_changes, &reader->trace->change_capacity,
		     timeline->process_change_count))
		return -ENOMEM;
	timeline->process_changes[timeline->process_change_count] =
		(struct process_change){info->time_ns, process, info->name, info->command,
					(uint32_t)timeline->process_change_count};
	timeline->process_change_count++;
	return 0;
}

/* By exec it has another name and clock, and the same start. */
static int redeclare(struct reader *reader, uint32_t index, const struct process_info *now)
{
	struct process_info *process = &reader->timeline->processes[index];
	bool changed = process->name != now->name || process->command != now->command;
	uint32_t parent = now->parent ? now->parent : process->parent;

	*process = *now;
	process->parent = parent;
	return changed ? note_change(reader, index) : 0;
}

/* A segment is known by its process's pid and what the process is declared with. */
static int note_segment(struct trace_index *trace, const struct process_info *process)
{
	uint64_t key = (uint64_t)process->pid << 32 | process->segment;
	uint32_t i;

	trace->tally_pid = 0;
	if (hash_map_get(&trace->tally_by_segment, key, &i))
		return hash_map_put(&trace->tally_index, process->pid, i);
	i = (uint32_t)trace->tally_count;
	if (vec_grow(&trace->tallies, &trace->tally_capacity, trace->tally_count) ||
	    hash_map_put(&trace->tally_by_segment, key, i))
		return -ENOMEM;
	trace->tallies[trace->tally_count++] =
		(struct segment_tally){.pid = process->pid, .segment = process->segment};
	return hash_map_put(&trace->tally_index, process->pid, i);
}

/* NULL: its process was not declared. */
static struct segment_tally *tally_of(struct trace_index *trace, uint32_t pid)
{
	if (pid != trace->tally_pid) {
		if (!hash_map_get(&trace->tally_index, pid, &trace->tally_latest))
			return NULL;
		trace->tally_pid = pid;
	}
	return &trace->tallies[trace->tally_latest];
}

static int take_process(struct reader *reader, const void *record)
{
	const struct process_info *process = record;
	struct timeline *timeline = reader->timeline;
	struct hash_map *index = &reader->trace->process_index;
	uint32_t i;

	if (!is_name(reader, process->name) || !is_name(reader, process->command))
		return damaged(reader, "a process with a name that is not in the file");
	if (process->clock > CLOCK_ID_CNTVCT)
		return damaged(reader, "a process with an unknown clock");
	if (process->start_ns > TIME_MAX || process->time_ns > TIME_MAX)
		return damaged(reader, "a process at an impossible time");
	if (note_segment(reader->trace, process))
		return -ENOMEM;
	if (hash_map_get(index, process->pid, &i) &&
	    timeline->processes[i].start_ns == process->start_ns)
		return redeclare(reader, i, process);
	if (vec_grow(&timeline->processes, &reader->trace->process_capacity,
		     timeline->process_count) ||
	    hash_map_put(index, process->pid, (uint32_t)timeline->process_count))
		return -ENOMEM;
	timeline->processes[timeline->process_count] = *process;
	return note_change(reader, (uint32_t)timeline->process_count++);
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
	thread = trace_index_thread(reader->trace, info->pid, info->tid);
	if (!thread || vec_grow(&thread->infos, &thread->info_capacity, thread->info_count))
		return -ENOMEM;
	thread->infos[thread->info_count++] = *info;
	return 0;
}

static int take_function(struct reader *reader, const void *record)
{
	const struct function_info *function = record;
	struct timeline *timeline = reader->timeline;

	if (function->id != timeline->function_count || function->id >= SCOPE_FILE_FUNCTION_MAX)
		return damaged(reader, "functions out of order");
	if (!is_name(reader, function->name) || !is_name(reader, function->module))
		return damaged(reader, "a function with a name that is not in the file");
	if (vec_grow(&timeline->functions, &reader->trace->function_capacity,
		     timeline->function_count))
		return -ENOMEM;
	memset(&timeline->functions[function->id], 0, sizeof(timeline->functions[0]));
	timeline->functions[timeline->function_count++].info = *function;
	return 0;
}

static int take_anchor(struct reader *reader, const void *record)
{
	const struct clock_anchor *anchor = record;
	struct trace_index *trace = reader->trace;

	if (anchor->clock < CLOCK_ID_MONOTONIC || anchor->clock > CLOCK_ID_CNTVCT)
		return damaged(reader, "an anchor of an unknown clock");
	if (anchor->ns > TIME_MAX)
		return damaged(reader, "an anchor at an impossible time");
	if (vec_grow(&trace->anchors, &trace->anchor_capacity, trace->anchor_count))
		return -ENOMEM;
	trace->anchors[trace->anchor_count++] = *anchor;
	return 0;
}

static int take_hooked(struct reader *reader, const void *record)
{
	const char *wrong;
	int err = first_pass_add_hooked(reader->trace, record, &wrong);

	return err == -EBADMSG ? damaged(reader, wrong) : err;
}

static int take_manual(struct reader *reader, const void *record)
{
	const char *wrong;
	struct segment_tally *tally =
		tally_of(reader->trace, ((const struct manual_event *)record)->pid);
	int err = first_pass_add_manual(reader->trace, record, reader->minor, &wrong);

	if (tally)
		tally->events++;
	return err == -EBADMSG ? damaged(reader, wrong) : err;
}

static int take_loss(struct reader *reader, const void *record)
{
	const struct loss_event *loss = record;
	struct timeline *timeline = reader->timeline;
	struct segment_tally *tally = tally_of(reader->trace, loss->pid);

	if (tally && (loss->place == LOSS_SEGMENT_LAP || loss->place == LOSS_WRITTEN_OFF))
		tally->lost += loss->count;
	if (loss->place < LOSS_KERNEL_RING || loss->place > LOSS_HANDOFF)
		return reader->minor > SCOPE_FILE_MINOR
			       ? 0
			       : damaged(reader, "a loss at an unknown place");
	if (vec_grow(&timeline->losses, &reader->trace->loss_capacity, timeline->loss_count))
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
	struct trace_index *trace = reader->trace;

	if (vec_grow(&trace->segments, &trace->segment_capacity, trace->segment_count))
		return -ENOMEM;
	memcpy(&trace->segments[trace->segment_count++], record, sizeof(struct segment_accounting));
	return 0;
}

static int take_footer(struct reader *reader, const void *record)
{
	memcpy(&reader->footer, record, sizeof(reader->footer));
	return 0;
}

/* ---- chunks ---- */

/* How each record of a type is taken; strings are taken by the chunk. */
static int (*const takers[CHUNK_TYPES])(struct reader *reader, const void *record) = {
	[CHUNK_PROCESS] = take_process,
	[CHUNK_THREAD] = take_thread,
	[CHUNK_FUNCTION] = take_function,
	[CHUNK_HOOKED] = take_hooked,
	[CHUNK_MANUAL] = take_manual,
	[CHUNK_LOSS] = take_loss,
	[CHUNK_FUNCTION_ACCOUNTING] = take_function_account,
	[CHUNK_SEGMENT_ACCOUNTING] = take_segment_accounting,
	[CHUNK_FOOTER] = take_footer,
};

static int take_chunk(struct reader *reader)
{
	const struct chunk *chunk = &reader->chunk;

	if (chunk->type < CHUNK_FOOTER)
		reader->trace->records[chunk->type] += chunk->count;
	if (chunk->type == CHUNK_STRING)
		return take_strings(reader, chunk->payload, chunk->length);
	for (uint32_t i = 0; i < chunk->count && takers[chunk->type]; i++) {
		bool timed = chunk->type == CHUNK_HOOKED || chunk->type == CHUNK_MANUAL;
		int err = timed ? first_pass_enter_region(reader->trace, chunk->offset, i) : 0;

		if (!err)
			err = takers[chunk->type](reader, chunk->payload + (size_t)i * chunk->size);
		if (err)
			return err;
	}
	return 0;
}

/* ---- the file ---- */

/* The timeline takes the texts of the header over. */
static void take_header(struct reader *reader)
{
	struct scope_file *file = reader->file;
	const struct header_payload *header = &file->header;
	struct timeline *timeline = reader->timeline;

	reader->minor = header->minor;
	timeline->start_ns = header->monotonic_ns;
	timeline->realtime_offset_ns = header->realtime_ns - header->monotonic_ns;
	timeline->boottime_offset_ns = (int64_t)(header->boottime_ns - header->monotonic_ns);
	timeline->host = file->host;
	timeline->kernel = file->kernel;
	timeline->command = file->command;
	file->host = file->kernel = file->command = NULL;
	reader->trace->records[CHUNK_HEADER]++;
}

/* names[0] is the empty name. */
static int add_empty_name(struct trace_index *trace)
{
	struct timeline *timeline = trace->timeline;

	if (vec_grow(&timeline->names, &trace->name_capacity, 0))
		return -ENOMEM;
	timeline->names[0] = strdup("");
	if (!timeline->names[0])
		return -ENOMEM;
	timeline->name_count = 1;
	return 0;
}

static void conclude(struct reader *reader, const struct chunk_reader *chunks)
{
	struct timeline *timeline = reader->timeline;

	if (chunk_reader_whole(chunks)) {
		timeline->start_ns = reader->footer.start_ns;
		timeline->end_ns = reader->footer.end_ns;
		timeline->accounting.recursion_misses = reader->footer.recursion_misses;
	} else {
		timeline->truncated = true;
		timeline->truncated_at = chunk_reader_end(chunks);
		timeline->truncated_rest = chunk_reader_rest(chunks);
	}
}

/* ---- what must be known before: how clocks are converted ---- */

/* A process's last clock, for threads of which it was not told in time. */
static int take_clock(struct trace_index *trace, const struct process_info *process)
{
	if (process->clock < CLOCK_ID_MONOTONIC || process->clock > CLOCK_ID_CNTVCT)
		return 0;
	return hash_map_put(&trace->clock_index, process->pid, process->clock);
}

static int take_early(struct reader *reader)
{
	const struct chunk *chunk = &reader->chunk;
	int err = 0;

	for (uint32_t i = 0; i < chunk->count && !err; i++) {
		const unsigned char *record = chunk->payload + (size_t)i * chunk->size;

		if (chunk->type == CHUNK_ANCHOR)
			err = take_anchor(reader, record);
		else if (chunk->type == CHUNK_PROCESS)
			err = take_clock(reader->trace, (const struct process_info *)record);
	}
	return err;
}

/*
 * An entry may lead into the middle of a chunk, where another seems to begin: so one would be read
 * often.
 */
static int read_entry(struct reader *reader, struct chunk_reader *chunks,
		      const struct index_entry *entry, uint64_t *end)
{
	struct chunk *chunk = &reader->chunk;
	int more;

	chunk_reader_seek(chunks, entry->offset);
	more = chunk_reader_any(chunks, chunk);
	if (more <= 0)
		return more;
	if (chunk->offset != entry->offset || chunk->offset < *end || chunk->type != entry->type ||
	    chunk->count != entry->count)
		return damaged(reader, "a chunk that is not what the index tells of it");
	*end = chunk->next;
	return take_early(reader);
}

static int read_early(struct reader *reader, const struct index_entry *entries, size_t count)
{
	struct chunk_reader *chunks = chunk_reader_create(reader->file);
	uint64_t end = 0;
	int err = chunks ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++) {
		if (entries[i].type == CHUNK_ANCHOR || entries[i].type == CHUNK_PROCESS)
			err = read_entry(reader, chunks, &entries[i], &end);
	}
	chunk_reader_destroy(chunks);
	return err;
}

static int read_clocks(struct reader *reader)
{
	struct trace_index *trace = reader->trace;
	struct index_entry *entries = NULL;
	size_t count;
	int err = scope_file_index_read(reader->file, &entries, &count);

	if (!err)
		err = read_early(reader, entries, count);
	free(entries);
	for (uint32_t clock = CLOCK_ID_MONOTONIC; clock < CLOCKS && !err; clock++)
		err = clock_line_build(&trace->clocks[clock], clock, trace->anchors,
				       trace->anchor_count);
	return err;
}

static int read_chunks(struct reader *reader)
{
	struct chunk_reader *chunks = chunk_reader_create(reader->file);
	int err = chunks ? add_empty_name(reader->trace) : -ENOMEM, more = 1;

	if (!err)
		err = read_clocks(reader);
	if (!err)
		take_header(reader);
	while (!err && (more = chunk_reader_next(chunks, &reader->chunk)) > 0)
		err = take_chunk(reader);
	if (!err)
		err = more;
	if (!err)
		conclude(reader, chunks);
	chunk_reader_destroy(chunks);
	return err;
}

int trace_index_load(const char *path, struct trace_index *trace)
{
	struct reader reader = {
		.file = scope_file_open_spooled(path), .trace = trace, .timeline = trace->timeline};
	int err;

	if (!reader.file)
		return -errno;
	trace->file = reader.file;
	err = read_chunks(&reader);
	if (!err)
		err = first_pass_end(trace);
	if (err == -ENOMEM)
		log_error("out of memory while reading the capture %s", path);
	return err;
}
