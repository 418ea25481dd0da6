// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/shm_source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "libscope/reader.h"

static_assert((int)CLOCK_ID_MONOTONIC == (int)SCOPE_CLOCK_MONOTONIC,
	      "the reader's clocks are the timeline's");
static_assert((int)MANUAL_FLOW == (int)SCOPE_KIND_FLOW, "the segment's kinds are the timeline's");

/* Capture stays on for this long without a renewal: a reader that dies stops costing the writers after it. */
#define CAPTURE_NS	3000000000ull
#define RENEW_NS	1000000000ull
#define ANCHOR_NS	100000000ull
#define ANCHOR_BRACKETS 9
#define BATCH		1024
#define LONGEST_NAME	1024

/* A record whose name goes on in continuation records: one per thread at most, as a thread writes them in a
 * row. */
struct partial {
	struct manual_event event;
	size_t length;
	char name[LONGEST_NAME];
};

struct shm_source {
	struct source source;
	struct scope_reader *reader;
	struct tid_translator translator;
	bool translates;
	pid_t pid;
	uint64_t renewed_ns;
	uint64_t anchored_ns;
	struct scope_reader_counts before; /* what was done with before this capture */
	uint64_t drained_ns; /* begin of the drain before this one: where the time of a gap may begin */
	struct event_output *output; /* of the drain in progress */
	struct manual_event batch[BATCH];
	size_t batched;
	struct hash_map tids; /* own-namespace tid -> ours */
	struct partial **partials;
	size_t partial_count;
	size_t partial_capacity;
};

static struct shm_source *of(const struct source *source)
{
	return (struct shm_source *)source;
}

static int put_batch(struct shm_source *s)
{
	size_t count = s->batched;

	s->batched = 0;
	return count ? s->output->manual(s->output, s->batch, count) : 0;
}

static int put_event(struct shm_source *s, const struct manual_event *event)
{
	s->batch[s->batched++] = *event;
	return s->batched == BATCH ? put_batch(s) : 0;
}

/* A dead thread cannot be asked for its id in our namespace: then its own id must do. */
static uint32_t translate(struct shm_source *s, uint32_t namespace_tid, bool fresh)
{
	uint32_t tid;

	if (!s->translates)
		return namespace_tid;
	if (!fresh && hash_map_get(&s->tids, namespace_tid, &tid))
		return tid;
	tid = s->translator.translate(s->translator.context, namespace_tid);
	if (!tid)
		tid = namespace_tid;
	hash_map_put(&s->tids, namespace_tid, tid);
	return tid;
}

static bool has_value(uint8_t kind)
{
	return kind == SCOPE_KIND_COMPLETE || kind == SCOPE_KIND_COUNTER_INT ||
	       kind == SCOPE_KIND_COUNTER_DOUBLE || kind == SCOPE_KIND_ASYNC_START ||
	       kind == SCOPE_KIND_ASYNC_STOP || kind == SCOPE_KIND_ARGUMENT || kind == SCOPE_KIND_FLOW;
}

static struct partial **find_partial(struct shm_source *s, uint32_t tid)
{
	for (size_t i = 0; i < s->partial_count; i++) {
		if (s->partials[i]->event.tid == tid)
			return &s->partials[i];
	}
	return NULL;
}

/* The name is whole, or will not get any longer: the event goes out. */
static int finish_partial(struct shm_source *s, struct partial **slot)
{
	struct partial *partial = *slot;
	int err;

	*slot = s->partials[--s->partial_count];
	err = s->output->string(s->output, partial->name, partial->length, &partial->event.name);
	if (!err)
		err = put_event(s, &partial->event);
	free(partial);
	return err;
}

static int start_partial(struct shm_source *s, const struct manual_event *event, const char *name,
			 size_t length)
{
	struct partial *partial;

	if (vec_grow(&s->partials, &s->partial_capacity, s->partial_count))
		return -ENOMEM;
	partial = malloc(sizeof(*partial));
	if (!partial)
		return -ENOMEM;
	partial->event = *event;
	partial->length = length;
	memcpy(partial->name, name, length);
	s->partials[s->partial_count++] = partial;
	return 0;
}

static int continue_partial(struct shm_source *s, struct partial **slot, const struct scope_record *record,
			    size_t length)
{
	struct partial *partial = *slot;
	size_t room = sizeof(partial->name) - partial->length;

	if (length > room)
		length = room;
	memcpy(partial->name + partial->length, record->name, length);
	partial->length += length;
	if (record->flags & SCOPE_RECORD_CONTINUED)
		return 0;
	return finish_partial(s, slot);
}

static int take_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct shm_source *s = context;
	bool value = has_value(record->kind);
	size_t room = value ? sizeof(record->name) - sizeof(uint64_t) : sizeof(record->name);
	size_t length = record->name_length < room ? record->name_length : room;
	uint32_t tid = translate(s, record->tid, record->kind == SCOPE_KIND_THREAD_START);
	struct partial **slot = s->partial_count ? find_partial(s, tid) : NULL;
	struct manual_event event = {.ticks = record->ticks,
				     .scope_id = record->scope_id,
				     .pid = (uint32_t)s->pid,
				     .tid = tid,
				     .kind = record->kind,
				     .ring = (uint8_t)ring,
				     .flags = 0};
	int err;

	if (record->kind == SCOPE_KIND_CONTINUATION)
		return slot && (*slot)->event.scope_id == record->scope_id
			       ? continue_partial(s, slot, record, length)
			       : 0;
	/* Any other record of the thread says that the rest of its name was lost. */
	if (slot) {
		err = finish_partial(s, slot);
		if (err)
			return err;
	}
	if (value)
		memcpy(&event.value, record->name + room, sizeof(event.value));
	if (record->flags & SCOPE_RECORD_CONTINUED)
		return start_partial(s, &event, record->name, length);
	if (length) {
		err = s->output->string(s->output, record->name, length, &event.name);
		if (err)
			return err;
	}
	return put_event(s, &event);
}

static int take_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	struct shm_source *s = context;
	struct loss_event loss = {.first_ns = s->drained_ns,
				  .last_ns = io_now_ns(),
				  .count = count,
				  .pid = (uint32_t)s->pid,
				  .place = reason == SCOPE_GAP_LAPPED ? LOSS_SEGMENT_LAP : LOSS_WRITTEN_OFF,
				  .index = (uint16_t)ring};
	int err = put_batch(s);

	return err ? err : s->output->loss(s->output, &loss);
}

/* The tightest of several brackets of one reading of the segment's clock by two of CLOCK_MONOTONIC. */
static struct clock_anchor take_anchor(const struct shm_source *s)
{
	struct clock_anchor best = {.clock = scope_reader_clock(s->reader), .width_ns = UINT32_MAX};

	for (int i = 0; i < ANCHOR_BRACKETS; i++) {
		uint64_t before = io_now_ns();
		uint64_t ticks = scope_reader_ticks(s->reader);
		uint64_t width = io_now_ns() - before;

		if (width < best.width_ns) {
			best.ticks = ticks;
			best.ns = before + width / 2;
			best.width_ns = (uint32_t)width;
		}
	}
	return best;
}

static int put_anchor(struct shm_source *s, uint64_t now)
{
	struct clock_anchor anchor;

	s->anchored_ns = now;
	if (scope_reader_clock(s->reader) == SCOPE_CLOCK_MONOTONIC)
		return 0;
	anchor = take_anchor(s);
	return s->output->anchor(s->output, &anchor);
}

static struct scope_reader_events events_of(struct shm_source *s)
{
	return (struct scope_reader_events){.context = s, .record = take_record, .gap = take_gap};
}

static ssize_t drain_all(struct shm_source *s, struct event_output *output)
{
	struct scope_reader_events events = events_of(s);
	uint64_t now = io_now_ns();
	int64_t drained;
	int err = 0;

	s->output = output;
	if (now - s->anchored_ns >= ANCHOR_NS)
		err = put_anchor(s, now);
	if (err)
		return err;
	drained = scope_reader_drain(s->reader, &events, 0);
	err = put_batch(s);
	s->drained_ns = now;
	return err ? err : (ssize_t)drained;
}

static ssize_t shm_drain(struct source *source, struct event_output *output)
{
	struct shm_source *s = of(source);
	uint64_t now = io_now_ns();

	if (now - s->renewed_ns >= RENEW_NS) {
		scope_reader_capture(s->reader, CAPTURE_NS);
		s->renewed_ns = now;
	}
	return drain_all(s, output);
}

/*
 * Writers that passed the test of capture_until just before it was cleared publish within moments: what they
 * claimed is a hole until then. A stopped writer is not waited for longer than this.
 */
#define LAST_WRITERS_NS 20000000ull

static int shm_finish(struct source *source, struct event_output *output)
{
	struct shm_source *s = of(source);
	struct scope_reader_events events = events_of(s);
	uint64_t deadline = io_now_ns() + LAST_WRITERS_NS;
	ssize_t drained;
	int err = 0;

	scope_reader_capture(s->reader, 0);
	do {
		drained = drain_all(s, output);
	} while (drained >= 0 && (drained > 0 || scope_reader_counts(s->reader).holes) &&
		 io_now_ns() < deadline);
	if (drained < 0)
		return (int)drained;
	if (scope_reader_gone(s->reader))
		err = scope_reader_write_off(s->reader, &events);
	while (!err && s->partial_count)
		err = finish_partial(s, &s->partials[0]);
	if (!err)
		err = put_batch(s);
	return err ? err : put_anchor(s, io_now_ns());
}

static bool shm_gone(struct source *source)
{
	return scope_reader_gone(of(source)->reader);
}

static void shm_destroy(struct source *source)
{
	struct shm_source *s = of(source);

	if (!s)
		return;
	scope_reader_close(s->reader);
	for (size_t i = 0; i < s->partial_count; i++)
		free(s->partials[i]);
	free(s->partials);
	hash_map_clear(&s->tids);
	free(s);
}

static const struct source_ops shm_ops = {
	.name = "libscope segment",
	.drain = shm_drain,
	.finish = shm_finish,
	.gone = shm_gone,
	.destroy = shm_destroy,
};

static void say_open_failure(pid_t pid, int err)
{
	switch (err) {
	case ENOENT:
	case EAGAIN:
	case ESRCH:
		break;
	case EBUSY:
		log_error("the manual scopes of process %d are being captured by another reader; a segment "
			  "has one "
			  "at a time: stop that capture first",
			  pid);
		break;
	case EPROTO:
		log_error("process %d uses a libscope of another major version; use the scopetrace that came "
			  "with it",
			  pid);
		break;
	case EBADMSG:
		log_error("the libscope segment of process %d is damaged: its header does not add up", pid);
		break;
	case EACCES:
	case EPERM:
		log_error("no permission to read the libscope segment of process %d: run as its user, or as "
			  "root",
			  pid);
		break;
	default:
		log_error("cannot open the libscope segment of process %d: %s", pid, strerror(err));
	}
}

static int pass_over_record(void *context, uint32_t ring, const struct scope_record *record)
{
	(void)context, (void)ring, (void)record;
	return 0;
}

static int pass_over_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context, (void)ring, (void)reason, (void)count;
	return 0;
}

/* The ends of scopes that were open when an earlier capture was over: no part of this one. */
static void pass_over_leftovers(struct shm_source *s)
{
	struct scope_reader_events events = {.record = pass_over_record, .gap = pass_over_gap};

	scope_reader_drain(s->reader, &events, 0);
}

struct source *shm_source_open(pid_t pid, const struct tid_translator *translator)
{
	struct shm_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->source.ops = &shm_ops;
	s->pid = pid;
	s->reader = scope_reader_open(pid);
	if (!s->reader) {
		int err = errno;

		say_open_failure(pid, err);
		free(s);
		errno = err;
		return NULL;
	}
	if (translator) {
		s->translator = *translator;
		s->translates = true;
	}
	if (!scope_reader_resumes(s->reader))
		pass_over_leftovers(s);
	s->before = scope_reader_counts(s->reader);
	scope_reader_capture(s->reader, CAPTURE_NS);
	s->renewed_ns = s->drained_ns = io_now_ns();
	return &s->source;
}

uint32_t shm_source_clock(const struct source *source)
{
	return scope_reader_clock(of(source)->reader);
}

struct segment_accounting shm_source_accounting(const struct source *source)
{
	const struct scope_reader_counts *before = &of(source)->before;
	struct scope_reader_counts counts = scope_reader_counts(of(source)->reader);
	uint64_t settled = before->delivered + before->lost + before->written_off;

	/* What is claimed but not looked at (backlog) is the next reader's. */
	return (struct segment_accounting){.cursor = counts.cursor - counts.backlog - settled,
					   .delivered = counts.delivered - before->delivered,
					   .lost = counts.lost - before->lost,
					   .written_off = counts.written_off - before->written_off,
					   .holes = counts.holes,
					   .pid = (uint32_t)of(source)->pid};
}
