// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "record/handoff.h"
#include "record/pending.h"
#include "file/format.h"
#include "event/forward.h"
#include "base/intern.h"

/* The header of a record of the hand-off. */
enum { HEADER_KIND, HEADER_COUNT, HEADER_FIRST, HEADER_LAST, HEADER_WORDS };

enum batch_kind {
	BATCH_NOTES = 1,
	BATCH_HOOKED = 2, /* first, last: the span of the kernel's ring, 0 and 0: unknown */
	BATCH_MANUAL = 3,
};

/* A note is a word, kind << 32 | bytes, and the bytes, filled up to whole words. */
enum note_kind {
	NOTE_STRING = 1,
	NOTE_THREAD = 2,
	NOTE_ANCHOR = 3,
	NOTE_PROCESS = 4,
	NOTE_LOSS = 5,
	NOTE_RESTART = 6, /* the names before are forgotten: the next one's id is this + 1 */
};

#define WORD	    sizeof(uint64_t)
#define NOTES_WORDS 4096u /* of one record, or one longer note */
#define NOTES_MOST \
	((64u << 20) / WORD)	 /* of all that wait for room, before threads are discarded */
#define NAMES_BYTES   (8u << 20) /* of all names that are known */
#define LOSSES_ONCE   64u	 /* in one record */
#define RINGS	      256u	 /* manual_event.ring has 8 bits */
#define WORDS_PER_TAG 16u	 /* so short no batch is, but a few in a row */

static_assert(2 * (SCOPE_FILE_STRING_MAX / WORD + 1 + HANDOFF_FIXED_WORDS + HEADER_WORDS) <=
		      RELAY_BYTES_LEAST / WORD,
	      "the longest note finds room in the smallest buffer");
static_assert(RELAY_BYTES_MOST / WORD < HANDOFF_SIZE_END, "the largest buffer is one");

/* The names of a time, by id - base - 1: what the sink calls them. */
struct name_ids {
	uint32_t base;
	uint32_t *ids;
	size_t count, capacity;
};

struct relay {
	struct event_output output;
	struct renaming sink; /* under its own names */
	struct handoff *handoff;
	bool started;

	/* The drain side's. */
	struct intern strings; /* their ids and `base` are those that are told */
	uint32_t base;
	uint64_t *notes; /* not handed off yet, from `noted` on */
	size_t noted, note_count, note_capacity;
	struct loss_event *losses; /* not handed off yet; one for each place, index and process */
	size_t loss_count, loss_capacity;
	struct ring_span span;
	uint64_t before_ns, began_ns; /* the drain before this one, and this one */
	uint64_t refused;	      /* writes that found no room */
	uint64_t *lost_calls;	      /* by function */
	size_t function_count;
	uint64_t lost_events, lost_threads;

	/* The write side's. */
	struct name_ids names, older; /* some events may still bear a name of the time before */
	struct ring_span put_span;
	uint64_t told; /* of `refused`, by the hand-off's own records */
	bool stuck;    /* one of them had counted to its end */
	int failed;    /* the first error of the sink: it gets nothing after that */
};

static struct relay *of(struct event_output *output)
{
	return (struct relay *)((char *)output - offsetof(struct relay, output));
}

/* ---- into the sink ---- */

/* What is not put any more leaves names without an id: nothing after it may be looked at. */
static int keep_failure(struct relay *relay, int err)
{
	if (err && !relay->failed)
		relay->failed = err;
	return relay->failed;
}

static int put_string(struct relay *relay, const char *bytes, size_t length)
{
	struct event_output *sink = relay->sink.next;
	struct name_ids *names = &relay->names;
	int err = vec_grow(&names->ids, &names->capacity, names->count);

	if (!err)
		err = sink->string(sink, bytes, length, &names->ids[names->count]);
	names->count += !err;
	return err;
}

static void put_restart(struct relay *relay, const uint64_t *base)
{
	free(relay->older.ids);
	relay->older = relay->names;
	relay->names = (struct name_ids){.base = (uint32_t)*base};
}

static bool has_name(const struct name_ids *names, uint32_t id)
{
	return id > names->base && id - names->base <= names->count;
}

/* *id becomes the sink's. */
static int rename_for_sink(struct renaming *sink, uint32_t *id)
{
	const struct relay *relay = (struct relay *)((char *)sink - offsetof(struct relay, sink));
	const struct name_ids *names = &relay->names, *older = &relay->older;

	if (has_name(names, *id)) {
		*id = names->ids[*id - names->base - 1];
	} else if (has_name(older, *id)) {
		*id = older->ids[*id - older->base - 1];
	} else if (*id > names->base && older->base <= names->base) {
		log_error(
			"a name was not handed off before what bears it (%u of %u and %zu), which is a bug "
			"of scopetrace",
			*id, names->base, names->count);
		return -EBADMSG;
	} else { /* long forgotten */
		*id = 0;
	}
	return 0;
}

static int put_note(struct relay *relay, enum note_kind kind, const void *bytes, size_t length)
{
	struct event_output *sink = relay->sink.next;

	if (relay->failed)
		return relay->failed;
	switch (kind) {
	case NOTE_STRING:
		return keep_failure(relay, put_string(relay, bytes, length));
	case NOTE_THREAD:
		return keep_failure(relay, renaming_thread(&relay->sink, bytes));
	case NOTE_ANCHOR:
		return keep_failure(relay, sink->anchor(sink, bytes));
	case NOTE_PROCESS:
		return keep_failure(relay, renaming_process(&relay->sink, bytes));
	case NOTE_LOSS:
		return keep_failure(relay, sink->loss(sink, bytes));
	case NOTE_RESTART:
		put_restart(relay, bytes);
		return 0;
	}
	return -EBADMSG;
}

/* Words of the note that begins at `at`. */
static size_t note_words(const uint64_t *at)
{
	return 1 + ((uint32_t)*at + WORD - 1) / WORD;
}

static int put_notes(struct relay *relay, const uint64_t *notes, size_t words)
{
	int err = 0;

	for (size_t at = 0; at < words && !err; at += note_words(&notes[at]))
		err = put_note(relay, (enum note_kind)(notes[at] >> 32), &notes[at + 1],
			       (uint32_t)notes[at]);
	return err;
}

static int put_hooked(struct relay *relay, struct ring_span span, const struct hooked_scope *scopes,
		      size_t count)
{
	struct event_output *sink = relay->sink.next;
	bool other;

	if (relay->failed)
		return relay->failed;
	other = span.first != relay->put_span.first || span.last != relay->put_span.last;
	if (sink->span && span.last && other)
		sink->span(sink, span.first, span.last);
	relay->put_span = span;
	return keep_failure(relay, sink->hooked(sink, scopes, count));
}

static int put_manual(struct relay *relay, const struct manual_event *events, size_t count)
{
	if (relay->failed)
		return relay->failed;
	return keep_failure(relay, renaming_manual(&relay->sink, events, count));
}

/* ---- the drain side: what is kept ---- */

static int reserve_note(struct relay *relay, size_t length)
{
	size_t words = 1 + (length + WORD - 1) / WORD;

	return vec_reserve((void **)&relay->notes, &relay->note_capacity, relay->note_count + words,
			   WORD);
}

static int keep_note(struct relay *relay, enum note_kind kind, const void *bytes, size_t length)
{
	size_t words = 1 + (length + WORD - 1) / WORD;
	uint64_t *note;

	if (!relay->started)
		return put_note(relay, kind, bytes, length);
	if (reserve_note(relay, length))
		return -ENOMEM;
	note = &relay->notes[relay->note_count];
	note[words - 1] = 0;
	note[0] = (uint64_t)kind << 32 | length;
	memcpy(note + 1, bytes, length);
	relay->note_count += words;
	return 0;
}

/* Those of one place, ring and process that follow each other become one. */
static int keep_loss(struct relay *relay, const struct loss_event *loss)
{
	if (!relay->started)
		return put_note(relay, NOTE_LOSS, loss, sizeof(*loss));
	for (size_t i = 0; i < relay->loss_count; i++) {
		struct loss_event *kept = &relay->losses[i];

		if (kept->place != loss->place || kept->index != loss->index ||
		    kept->pid != loss->pid)
			continue;
		kept->count += loss->count;
		if (loss->first_ns < kept->first_ns)
			kept->first_ns = loss->first_ns;
		if (loss->last_ns > kept->last_ns)
			kept->last_ns = loss->last_ns;
		return 0;
	}
	if (vec_grow(&relay->losses, &relay->loss_capacity, relay->loss_count))
		return -ENOMEM;
	relay->losses[relay->loss_count++] = *loss;
	return 0;
}

/* True if it is handed off. */
static bool hand_off(struct relay *relay, enum batch_kind kind, size_t count, const void *payload,
		     size_t words)
{
	const uint64_t header[HEADER_WORDS] = {
		[HEADER_KIND] = kind,
		[HEADER_COUNT] = count,
		[HEADER_FIRST] = relay->span.first,
		[HEADER_LAST] = relay->span.last,
	};
	const struct handoff_record record = {.tag = relay,
					      .time_ns = relay->began_ns,
					      .header = header,
					      .header_words = HEADER_WORDS,
					      .payload = payload,
					      .payload_words = words};

	if (!handoff_write(relay->handoff, &record))
		return true;
	relay->refused++;
	return false;
}

static bool hand_off_losses(struct relay *relay)
{
	enum { ENTRY = 1 + sizeof(struct loss_event) / WORD };
	uint64_t words[LOSSES_ONCE * ENTRY];

	while (relay->loss_count) {
		size_t count = relay->loss_count < LOSSES_ONCE ? relay->loss_count : LOSSES_ONCE;

		for (size_t i = 0; i < count; i++) {
			words[i * ENTRY] = (uint64_t)NOTE_LOSS << 32 | sizeof(struct loss_event);
			memcpy(&words[i * ENTRY + 1], &relay->losses[i], sizeof(struct loss_event));
		}
		if (!hand_off(relay, BATCH_NOTES, 0, words, count * ENTRY))
			return false;
		relay->loss_count -= count;
		memmove(relay->losses, relay->losses + count,
			relay->loss_count * sizeof(*relay->losses));
	}
	return true;
}

/* True when nothing is kept any more. */
static bool hand_off_kept(struct relay *relay)
{
	while (relay->noted < relay->note_count) {
		const uint64_t *notes = &relay->notes[relay->noted];
		size_t left = relay->note_count - relay->noted, words = note_words(notes);

		while (words < left && words + note_words(&notes[words]) <= NOTES_WORDS)
			words += note_words(&notes[words]);
		if (!hand_off(relay, BATCH_NOTES, 0, notes, words))
			return false;
		relay->noted += words;
	}
	relay->noted = relay->note_count = 0;
	return hand_off_losses(relay);
}

/* ---- the drain side: names ---- */

/* Tells `fresh` of a name that is borne by what is kept, under its new id. */
static int keep_name(struct relay *fresh, const struct relay *relay, uint32_t *id)
{
	const struct intern_entry *entry;
	bool added;
	int err;

	if (*id <= relay->base || *id - relay->base > relay->strings.count)
		return 0;
	entry = &relay->strings.entries[*id - relay->base - 1];
	err = intern_put(&fresh->strings, relay->strings.bytes + entry->offset, entry->length, id,
			 &added);
	*id += fresh->base;
	if (err || !added)
		return err;
	return keep_note(fresh, NOTE_STRING, relay->strings.bytes + entry->offset, entry->length);
}

static int keep_again(struct relay *fresh, const struct relay *relay, const uint64_t *note)
{
	enum note_kind kind = (enum note_kind)(*note >> 32);
	struct process_info process;
	struct thread_info thread;
	int err;

	switch (kind) {
	case NOTE_STRING:
	case NOTE_RESTART:
		return 0;
	case NOTE_THREAD:
		memcpy(&thread, note + 1, sizeof(thread));
		err = keep_name(fresh, relay, &thread.name);
		return err ? err : keep_note(fresh, kind, &thread, sizeof(thread));
	case NOTE_PROCESS:
		memcpy(&process, note + 1, sizeof(process));
		err = keep_name(fresh, relay, &process.name);
		if (!err)
			err = keep_name(fresh, relay, &process.command);
		return err ? err : keep_note(fresh, kind, &process, sizeof(process));
	default:
		return keep_note(fresh, kind, note + 1, (uint32_t)*note);
	}
}

/*
 * Forgets all names but those that what is kept bears: most are borne by nothing any more, where a
 * program makes them up. Without memory all stays as it is.
 */
static void restart_names(struct relay *relay)
{
	struct relay fresh = {.started = true};
	uint64_t base = (uint64_t)relay->base + relay->strings.count;
	int err;

	if (base > UINT32_MAX / 2)
		base = 0;
	fresh.base = (uint32_t)base;
	err = keep_note(&fresh, NOTE_RESTART, &base, sizeof(base));
	for (size_t at = relay->noted; at < relay->note_count && !err;
	     at += note_words(&relay->notes[at]))
		err = keep_again(&fresh, relay, &relay->notes[at]);
	if (err) {
		intern_clear(&fresh.strings);
		free(fresh.notes);
		return;
	}
	intern_clear(&relay->strings);
	free(relay->notes);
	relay->strings = fresh.strings;
	relay->base = fresh.base;
	relay->notes = fresh.notes;
	relay->noted = 0;
	relay->note_count = fresh.note_count;
	relay->note_capacity = fresh.note_capacity;
}

/* ---- the drain side: what is discarded ---- */

static int lose_hooked(struct relay *relay, const struct hooked_scope *scopes, size_t count)
{
	struct loss_event loss = {.first_ns = UINT64_MAX, .count = count, .place = LOSS_HANDOFF};

	for (size_t i = 0; i < count; i++) {
		if (scopes[i].end_ns < loss.first_ns)
			loss.first_ns = scopes[i].end_ns;
		if (scopes[i].end_ns > loss.last_ns)
			loss.last_ns = scopes[i].end_ns;
		if (!(scopes[i].flags & SCOPE_FLAG_UNFINISHED) &&
		    scopes[i].function < relay->function_count)
			relay->lost_calls[scopes[i].function]++;
	}
	return keep_loss(relay, &loss);
}

/*
 * Their ticks say nothing here: they were written after the drain before this one, and before now.
 */
static int lose_manual(struct relay *relay, const struct manual_event *events, size_t count)
{
	uint32_t by_ring[RINGS] = {0};
	struct loss_event loss = {.first_ns = relay->before_ns,
				  .last_ns = io_now_ns(),
				  .pid = events[0].pid,
				  .place = LOSS_HANDOFF};
	int err = 0;

	for (size_t i = 0; i < count; i++)
		by_ring[events[i].ring]++;
	for (uint32_t ring = 0; ring < RINGS && !err; ring++) {
		loss.count = by_ring[ring];
		loss.index = (uint16_t)ring;
		if (loss.count)
			err = keep_loss(relay, &loss);
	}
	relay->lost_events += count;
	return err;
}

/* ---- the drain side: what the source calls ---- */

static int output_string(struct event_output *output, const char *bytes, size_t length,
			 uint32_t *id)
{
	struct relay *relay = of(output);
	bool added;
	int err;

	if (length > SCOPE_FILE_STRING_MAX)
		length = SCOPE_FILE_STRING_MAX;
	/* First: a string that has an id and is not told would shift the ids of all after it. */
	err = reserve_note(relay, length);
	if (err)
		return err;
	err = intern_put(&relay->strings, bytes, length, id, &added);
	*id += *id ? relay->base : 0;
	return err || !added ? err : keep_note(relay, NOTE_STRING, bytes, length);
}

static int output_hooked(struct event_output *output, const struct hooked_scope *scopes,
			 size_t count)
{
	struct relay *relay = of(output);

	if (!relay->started)
		return put_hooked(relay, relay->span, scopes, count);
	if (!count || (hand_off_kept(relay) && hand_off(relay, BATCH_HOOKED, count, scopes,
							count * sizeof(*scopes) / WORD)))
		return 0;
	return lose_hooked(relay, scopes, count);
}

static int output_manual(struct event_output *output, const struct manual_event *events,
			 size_t count)
{
	struct relay *relay = of(output);

	if (!relay->started)
		return put_manual(relay, events, count);
	if (!count || (hand_off_kept(relay) && hand_off(relay, BATCH_MANUAL, count, events,
							count * sizeof(*events) / WORD)))
		return 0;
	return lose_manual(relay, events, count);
}

static int output_thread(struct event_output *output, const struct thread_info *thread)
{
	struct relay *relay = of(output);

	/* Threads come and go as long as nothing is written. */
	if (relay->note_count - relay->noted >= NOTES_MOST) {
		relay->lost_threads++;
		return 0;
	}
	return keep_note(relay, NOTE_THREAD, thread, sizeof(*thread));
}

static int output_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	return keep_note(of(output), NOTE_ANCHOR, anchor, sizeof(*anchor));
}

static int output_process(struct event_output *output, const struct process_info *process)
{
	return keep_note(of(output), NOTE_PROCESS, process, sizeof(*process));
}

static int output_loss(struct event_output *output, const struct loss_event *loss)
{
	return keep_loss(of(output), loss);
}

static void output_span(struct event_output *output, uint64_t first, uint64_t last)
{
	of(output)->span = (struct ring_span){first, last};
}

struct event_output *relay_output(struct relay *relay)
{
	return &relay->output;
}

void relay_begin(struct relay *relay, uint64_t now_ns)
{
	relay->before_ns = relay->began_ns;
	relay->began_ns = now_ns;
	if (relay->started &&
	    (relay->strings.count >= RELAY_NAMES_MOST || relay->strings.byte_count >= NAMES_BYTES))
		restart_names(relay);
}

void relay_end(struct relay *relay)
{
	if (relay->started)
		hand_off_kept(relay);
}

uint64_t relay_lost_calls(const struct relay *relay, uint32_t function)
{
	return function < relay->function_count ? relay->lost_calls[function] : 0;
}

uint64_t relay_lost_events(const struct relay *relay)
{
	return relay->lost_events;
}

uint64_t relay_lost_threads(const struct relay *relay)
{
	return relay->lost_threads;
}

/* ---- the write side ---- */

static int put_record(struct relay *relay, const uint64_t *data, const void *tag)
{
	const uint64_t *header = data + HANDOFF_FIXED_WORDS, *payload = header + HEADER_WORDS;
	size_t words = data[0] - HANDOFF_FIXED_WORDS - HEADER_WORDS;

	if (!tag) {
		relay->told += payload[0];
		relay->stuck |= payload[0] == PENDING_COUNT_MAX;
		return 0;
	}
	switch ((enum batch_kind)header[HEADER_KIND]) {
	case BATCH_NOTES:
		return put_notes(relay, payload, words);
	case BATCH_HOOKED:
		return put_hooked(relay,
				  (struct ring_span){header[HEADER_FIRST], header[HEADER_LAST]},
				  (const struct hooked_scope *)payload, header[HEADER_COUNT]);
	case BATCH_MANUAL:
		return put_manual(relay, (const struct manual_event *)payload,
				  header[HEADER_COUNT]);
	}
	return -EBADMSG;
}

int relay_take(struct relay *relay)
{
	struct handoff_batch batch;
	const uint64_t *data;
	int err = 0;

	if (handoff_read(relay->handoff, false, &batch) != HANDOFF_RECORDS)
		return 0;
	data = batch.data;
	for (size_t i = 0; i < batch.records && !err; i++, data += data[0])
		err = put_record(relay, data, batch.tags[i]);
	return err ? err : 1;
}

bool relay_sleep(struct relay *relay)
{
	return handoff_sleep(relay->handoff);
}

int relay_fd(const struct relay *relay)
{
	return handoff_fd(relay->handoff);
}

void relay_visit_names(struct relay *relay, intern_visitor visit, void *context)
{
	for (size_t i = 0; i < relay->names.count; i++)
		visit(context, &relay->names.ids[i]);
	for (size_t i = 0; i < relay->older.count; i++)
		visit(context, &relay->older.ids[i]);
}

/* ---- both sides ---- */

void relay_start(struct relay *relay)
{
	relay->started = true;
}

static int put_kept(struct relay *relay)
{
	int err = 0;

	if (relay->note_count)
		err = put_notes(relay, &relay->notes[relay->noted],
				relay->note_count - relay->noted);
	for (size_t i = 0; i < relay->loss_count && !err; i++)
		err = put_note(relay, NOTE_LOSS, &relay->losses[i], sizeof(relay->losses[i]));
	relay->noted = relay->note_count = relay->loss_count = 0;
	return err;
}

int relay_settle(struct relay *relay)
{
	int err;

	do
		err = relay_take(relay);
	while (err > 0);
	if (!err && relay->started)
		err = put_kept(relay);
	relay->started = false;
	keep_failure(relay, err);
	err = relay->failed;
	if (err || relay->told == relay->refused || relay->stuck)
		return err;
	log_error(
		"the hand-off buffer tells of %llu writes without room, but there were %llu, which is a bug "
		"of scopetrace",
		(unsigned long long)relay->told, (unsigned long long)relay->refused);
	return -EBADMSG;
}

void relay_destroy(struct relay *relay)
{
	if (!relay)
		return;
	handoff_destroy(relay->handoff);
	intern_clear(&relay->strings);
	free(relay->notes);
	free(relay->losses);
	free(relay->lost_calls);
	free(relay->names.ids);
	free(relay->older.ids);
	free(relay);
}

struct relay *relay_create(struct event_output *sink, size_t bytes, size_t function_count)
{
	struct relay *relay = calloc(1, sizeof(*relay));
	int err;

	if (!relay)
		goto fail;
	relay->output = (struct event_output){
		.string = output_string,
		.hooked = output_hooked,
		.manual = output_manual,
		.thread = output_thread,
		.anchor = output_anchor,
		.loss = output_loss,
		.span = output_span,
		.process = output_process,
	};
	relay->sink = (struct renaming){sink, rename_for_sink};
	relay->before_ns = relay->began_ns = io_now_ns();
	relay->function_count = function_count;
	relay->lost_calls = calloc(function_count + 1, sizeof(*relay->lost_calls));
	relay->handoff = handoff_create(HEADER_WORDS, bytes / WORD, bytes / WORD / WORDS_PER_TAG);
	if (relay->lost_calls && relay->handoff)
		return relay;
fail:
	err = errno;
	log_error("cannot make a hand-off buffer of %zu bytes: %s; choose a smaller --buffer",
		  bytes, strerror(err));
	relay_destroy(relay);
	errno = err;
	return NULL;
}
