// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/shm_source.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/capability.h"
#include "libscope/reader.h"
#include "source/held.h"

static_assert((int)CLOCK_ID_MONOTONIC == (int)SCOPE_CLOCK_MONOTONIC,
	      "the reader's clocks are the timeline's");
static_assert((int)MANUAL_FLOW == (int)SCOPE_KIND_FLOW, "the segment's kinds are the timeline's");
static_assert((int)MANUAL_INSIDE_MAX == (int)SCOPE_RECORD_INSIDE_MAX,
	      "the segment's counts are the timeline's");

/*
 * Capture stays on for this long without a renewal: a reader that dies stops costing the writers
 * after it.
 */
#define CAPTURE_NS	3000000000ull
#define RENEW_NS	1000000000ull
#define ANCHOR_NS	100000000ull
#define ANCHOR_IDLE_NS	1000000000ull /* while nothing comes */
#define ANCHOR_BRACKETS 9
#define BATCH		1024
#define LONGEST_HOLD_NS 1000000000ull
/* Losses of one ring that follow each other are told as one, but at least so often. */
#define LOSS_NS 100000000ull

/* What is lost and not yet told. */
struct gap {
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t count;
	uint64_t claim; /* of the first */
	uint64_t drain; /* the latest drain that added to it */
};

struct shm_source {
	struct source source;
	struct scope_reader *reader;
	struct tid_translator translator;
	bool translates;
	pid_t pid;
	uint64_t renewed_ns;
	struct clock_anchor first_anchor;
	uint64_t anchored_ns;		   /* 0: none is put out yet */
	bool unanchored;		   /* something came since */
	struct scope_reader_counts before; /* what was done with before this capture */
	uint64_t begun[SCOPE_RINGS_MAX];   /* by ring: the first claim that is not from before */
	uint64_t overwritten;		   /* lost events from before */
	/* begin of the drain before this one: where the time of a gap may begin */
	uint64_t drained_ns;
	uint64_t drains;
	struct event_output *output;	     /* of the drain in progress */
	uint64_t events;		     /* put out */
	uint64_t continuations;		     /* records that only went on with a name */
	struct hash_map names;		     /* tid (ours) -> string id of the comm last told */
	struct gap gaps[SCOPE_RINGS_MAX][2]; /* by ring, and lapped or written off */
	size_t gap_count;		     /* of them that hold something */
	struct manual_event batch[BATCH];
	size_t batched;
	struct held held; /* events whose names are not whole yet */
	bool holds;	  /* what is taken counts as such with shm_source_commit */
	bool goes_on;	  /* where another reader of the same capture stopped */
	uint64_t committed_ns;
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

static int put_event(void *context, const struct manual_event *event)
{
	struct shm_source *s = context;

	s->batch[s->batched++] = *event;
	s->events++;
	return s->batched == BATCH ? put_batch(s) : 0;
}

static int put_name(void *context, const char *bytes, size_t length, uint32_t *id)
{
	struct shm_source *s = context;

	return s->output->string(s->output, bytes, length, id);
}

/* A dead thread cannot be asked for its id in our namespace: then its own id must do. */
static uint32_t translate(struct shm_source *s, uint32_t namespace_tid, bool fresh)
{
	uint32_t tid;

	if (!s->translates)
		return namespace_tid;
	tid = s->translator.translate(s->translator.context, namespace_tid, fresh);
	return tid ? tid : namespace_tid;
}

/* ---- names of threads that gave themselves none ---- */

/* Tells the kernel's name of a thread if it is not the one told before. */
static int tell_name(struct shm_source *s, uint32_t tid)
{
	struct thread_info info = {.time_ns = io_now_ns(),
				   .pid = (uint32_t)s->pid,
				   .tid = tid,
				   .change = THREAD_NAMED};
	char path[64], *comm = NULL;
	size_t length;
	uint32_t told;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/task/%" PRIu32 "/comm", (int)s->pid, tid);
	if (io_read_file(path, &comm, &length)) /* it has ended */
		return hash_map_put(&s->names, tid, 0);
	err = s->output->string(s->output, comm, strcspn(comm, "\n"), &info.name);
	free(comm);
	if (err || (hash_map_get(&s->names, tid, &told) && told == info.name))
		return err;
	err = hash_map_put(&s->names, tid, info.name);
	return err ? err : s->output->thread(s->output, &info);
}

/* Those of the capture's threads that have another name by now. */
static int tell_last_names(struct shm_source *s, uint64_t deadline)
{
	int err = 0;

	for (size_t i = 0; i < s->names.size && !err && io_now_ns() < deadline; i++) {
		if (s->names.used[i])
			err = tell_name(s, (uint32_t)s->names.keys[i]);
	}
	return err;
}

/* ---- records ---- */

static int take_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct shm_source *s = context;
	bool value = scope_kind_has_value(record->kind);
	size_t room = value ? sizeof(record->name) - sizeof(uint64_t) : sizeof(record->name);
	size_t length = record->name_length < room ? record->name_length : room;
	uint32_t tid = translate(s, record->tid, record->kind == SCOPE_KIND_THREAD_START);
	struct manual_event event = {.ticks = record->ticks,
				     .scope_id = record->scope_id,
				     .pid = (uint32_t)s->pid,
				     .tid = tid,
				     .kind = record->kind,
				     .ring = (uint8_t)ring,
				     .flags = record->kind == SCOPE_KIND_COMPLETE
						      ? record->flags >> SCOPE_RECORD_INSIDE_SHIFT
						      : 0};
	uint32_t told;
	int err;

	if (record->kind == SCOPE_KIND_CONTINUATION) {
		s->continuations++;
		return held_continue(&s->held, tid, record->scope_id, record->name, length,
				     !(record->flags & SCOPE_RECORD_CONTINUED));
	}
	if (record->kind == SCOPE_KIND_THREAD_START || !hash_map_get(&s->names, tid, &told)) {
		err = tell_name(s, tid);
		if (err)
			return err;
	}
	if (value)
		memcpy(&event.value, record->name + room, sizeof(event.value));
	else if (record->kind == SCOPE_KIND_STOP)
		event.value = scope_reader_claim(s->reader);
	if (record->flags & SCOPE_RECORD_CONTINUED)
		return held_begin(&s->held, &event, record->name, length);
	if (length) {
		err = s->output->string(s->output, record->name, length, &event.name);
		if (err)
			return err;
	}
	return held_put(&s->held, &event);
}

/* ---- losses ---- */

static int put_gap(struct shm_source *s, uint32_t ring, bool written_off)
{
	struct gap *gap = &s->gaps[ring][written_off];
	struct loss_event loss = {.first_ns = gap->first_ns,
				  .last_ns = gap->last_ns,
				  .count = gap->count,
				  .pid = (uint32_t)s->pid,
				  .place = written_off ? LOSS_WRITTEN_OFF : LOSS_SEGMENT_LAP,
				  .index = (uint16_t)ring,
				  .claim = s->holds ? gap->claim + 1 : 0};

	gap->count = 0;
	s->gap_count--;
	return s->output->loss(s->output, &loss);
}

/* Tells the losses that nothing more was added to, and those that go on for long; or all. */
static int put_gaps(struct shm_source *s, bool all)
{
	int err = 0;

	for (uint32_t ring = 0; ring < SCOPE_RINGS_MAX && s->gap_count && !err; ring++) {
		for (int kind = 0; kind < 2 && !err; kind++) {
			const struct gap *gap = &s->gaps[ring][kind];

			if (gap->count && (all || gap->drain != s->drains ||
					   gap->last_ns - gap->first_ns >= LOSS_NS))
				err = put_gap(s, ring, kind);
		}
	}
	return err;
}

/* How many of `count` claims are from before this capture. */
static uint64_t of_before(const struct shm_source *s, uint32_t ring, uint64_t claim, uint64_t count)
{
	uint64_t before = s->begun[ring] > claim ? s->begun[ring] - claim : 0;

	return before < count ? before : count;
}

static int take_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	struct shm_source *s = context;
	bool written_off = reason == SCOPE_GAP_WRITTEN_OFF;
	struct gap *gap = &s->gaps[ring][written_off];
	uint64_t claim = scope_reader_claim(s->reader);
	int err = 0;

	/* The next reader may tell the same again: which they are must be known then. */
	if (s->holds && gap->count && claim != gap->claim + gap->count)
		err = put_gap(s, ring, written_off);
	if (err)
		return err;
	if (!gap->count) {
		gap->first_ns = s->drained_ns;
		gap->claim = claim;
		s->gap_count++;
	}
	gap->last_ns = io_now_ns();
	gap->count += count;
	if (!written_off)
		s->overwritten += of_before(s, ring, claim, count);
	gap->drain = s->drains;
	return 0;
}

/* ---- clock ---- */

/*
 * The tightest of several brackets of one reading of the segment's clock by two of CLOCK_MONOTONIC.
 */
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

static int put_anchor(struct shm_source *s, const struct clock_anchor *anchor)
{
	if (anchor->clock == CLOCK_ID_MONOTONIC)
		return 0;
	return s->output->anchor(s->output, anchor);
}

/* The first one was taken before capture was turned on, so that it lies before all events: no time is
 * extrapolated. */
static int put_anchors(struct shm_source *s, uint64_t now)
{
	struct clock_anchor anchor;
	int err = 0;

	if (!s->anchored_ns)
		err = put_anchor(s, &s->first_anchor);
	s->anchored_ns = now;
	s->unanchored = false;
	anchor = take_anchor(s);
	return err ? err : put_anchor(s, &anchor);
}

static struct scope_reader_events events_of(struct shm_source *s)
{
	return (struct scope_reader_events){.context = s, .record = take_record, .gap = take_gap};
}

static ssize_t drain_all(struct shm_source *s, struct event_output *output)
{
	struct scope_reader_events events = events_of(s);
	uint64_t now = io_now_ns(), age = now - s->anchored_ns;
	bool due = age >= (s->unanchored ? ANCHOR_NS : ANCHOR_IDLE_NS);
	int64_t drained;
	int err = 0;

	s->output = output;
	if (due)
		err = put_anchors(s, now);
	if (err)
		return err;
	s->drains++;
	drained = scope_reader_drain(s->reader, &events, 0);
	s->unanchored |= drained > 0;
	/* What comes first after a rest lies close to an anchor, too. */
	if (drained > 0 && !due && age >= ANCHOR_NS)
		err = put_anchors(s, io_now_ns());
	if (!err)
		err = put_batch(s);
	if (!err && s->gap_count)
		err = put_gaps(s, s->holds);
	s->drained_ns = now;
	return err ? err : (ssize_t)drained;
}

static ssize_t shm_drain(struct source *source, struct event_output *output)
{
	shm_source_renew(source);
	return drain_all(of(source), output);
}

/*
 * Writers that passed the test of capture_until just before it was cleared publish within moments:
 * what they claimed is a hole until then. A stopped writer is not waited for longer than this.
 */
#define LAST_WRITERS_NS 20000000ull
#define LAST_NAMES_NS	100000000ull

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
	if (!err)
		err = held_finish(&s->held);
	if (!err)
		err = put_batch(s);
	if (!err)
		err = put_gaps(s, true);
	if (!err)
		err = tell_last_names(s, io_now_ns() + LAST_NAMES_NS);
	return err ? err : put_anchors(s, io_now_ns());
}

void shm_source_stop(struct source *source)
{
	scope_reader_capture(of(source)->reader, 0);
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
	held_clear(&s->held);
	hash_map_clear(&s->names);
	free(s);
}

static const struct source_ops shm_ops = {
	.name = "libscope segment",
	.drain = shm_drain,
	.finish = shm_finish,
	.gone = shm_gone,
	.destroy = shm_destroy,
};

static void say_other_version(pid_t pid)
{
	uint16_t major = 0, minor = 0;

	scope_reader_refused_version(pid, &major, &minor);
	log_error(
		"the libscope segment of process %d is of version %u.%u, and this scopetrace (%u.%u) reads "
		"version %u only: use the scopetrace that came with the process's libscope",
		pid, major, minor, SCOPE_ABI_MAJOR, SCOPE_ABI_MINOR, SCOPE_ABI_MAJOR);
}

void shm_source_say(pid_t pid, int err)
{
	switch (err) {
	case ENOENT:
	case EAGAIN:
	case ESRCH:
		break;
	case EBUSY:
		log_error("the manual scopes of process %d are being captured by another reader; a "
			  "segment has one at a time: stop that capture first",
			  pid);
		break;
	case EPROTO:
		say_other_version(pid);
		break;
	case EBADMSG:
		log_error(
			"the libscope segment of process %d is damaged: its header does not add up",
			pid);
		break;
	case EACCES:
	case EPERM:
		log_error("no permission to read the libscope segment of process %d: %s", pid,
			  right_to_look());
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

/*
 * Of a recorder that was killed, of a process that opened capture itself, or since the last reader
 * stopped.
 */
static void say_backlog(const struct shm_source *s)
{
	const struct scope_reader_counts *before = &s->before;
	uint64_t there = before->backlog - before->overwritten;
	const char *since = s->goes_on ? "since the last reader of this capture stopped"
				       : "before this capture began, and not read,";

	if (there)
		log_info("%" PRIu64 " manual events that were written %s come first", there, since);
	if (before->overwritten)
		log_info("%" PRIu64
			 " that were written before these are lost: nobody read them in time",
			 before->overwritten);
}

struct source *shm_source_open(pid_t pid, const struct tid_translator *translator)
{
	struct source *source = shm_source_try(pid, translator);
	int err = errno;

	if (!source)
		shm_source_say(pid, err);
	errno = err;
	return source;
}

/* `capture`: 0 of this reader alone. */
static struct shm_source *open_reader(pid_t pid, uint64_t capture)
{
	struct shm_source *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->source.ops = &shm_ops;
	s->held.output = (struct held_output){.name = put_name, .event = put_event, .context = s};
	s->pid = pid;
	s->reader = scope_reader_open(pid);
	if (!s->reader) {
		int err = errno;

		free(s);
		errno = err;
		return NULL;
	}
	s->holds = capture != 0;
	s->goes_on = s->holds && scope_reader_accounts_of(s->reader) == capture;
	if (!s->goes_on && !scope_reader_resumes(s->reader))
		pass_over_leftovers(s);
	s->before = scope_reader_counts(s->reader);
	for (uint32_t i = 0; i < SCOPE_RINGS_MAX; i++)
		s->begun[i] = scope_reader_cursor(s->reader, i);
	say_backlog(s);
	if (s->holds) {
		scope_reader_hold(s->reader);
		scope_reader_account(s->reader, capture);
	}
	return s;
}

struct source *shm_source_try_again(pid_t pid, const struct tid_translator *translator,
				    uint64_t capture)
{
	struct shm_source *s = open_reader(pid, capture);

	if (!s)
		return NULL;
	if (translator) {
		s->translator = *translator;
		s->translates = true;
	}
	s->first_anchor = take_anchor(s);
	scope_reader_capture(s->reader, CAPTURE_NS);
	s->renewed_ns = s->drained_ns = io_now_ns();
	return &s->source;
}

struct source *shm_source_try(pid_t pid, const struct tid_translator *translator)
{
	return shm_source_try_again(pid, translator, 0);
}

void shm_source_renew(struct source *source)
{
	struct shm_source *s = of(source);
	uint64_t now = io_now_ns();

	if (now - s->renewed_ns < RENEW_NS)
		return;
	scope_reader_capture(s->reader, CAPTURE_NS);
	s->renewed_ns = now;
}

/*
 * The position is behind an event whose name is not whole yet, so it waits; but not for a stopped
 * writer.
 */
void shm_source_commit(struct source *source)
{
	struct shm_source *s = of(source);
	uint64_t now = io_now_ns();

	if (s->held.count && now - s->committed_ns < LONGEST_HOLD_NS)
		return;
	s->committed_ns = now;
	scope_reader_commit(s->reader);
}

void shm_source_leave(struct source *source)
{
	struct shm_source *s = of(source);

	scope_reader_leave(s->reader);
	s->reader = NULL;
	shm_destroy(source);
}

uint32_t shm_source_clock(const struct source *source)
{
	return scope_reader_clock(of(source)->reader);
}

uint32_t shm_source_segment(const struct source *source)
{
	uint32_t inode = (uint32_t)scope_reader_inode(of(source)->reader);

	return inode ? inode : 1;
}

uint64_t shm_source_overwritten(const struct source *source)
{
	return of(source)->overwritten;
}

uint32_t shm_source_slots(const struct source *source)
{
	return scope_reader_slots(of(source)->reader);
}

static struct segment_accounting account_of_all(const struct source *source)
{
	struct scope_reader_account sum = scope_reader_accounted(of(source)->reader);
	uint64_t delivered = sum.events + sum.continuations;

	return (struct segment_accounting){.cursor = delivered + sum.lost + sum.written_off +
						     sum.holes,
					   .delivered = delivered,
					   .events = sum.events,
					   .continuations = sum.continuations,
					   .lost = sum.lost,
					   .written_off = sum.written_off,
					   .holes = sum.holes,
					   .pid = (uint32_t)of(source)->pid,
					   .segment = shm_source_segment(source)};
}

static struct segment_accounting account_of_one(const struct source *source)
{
	const struct scope_reader_counts *before = &of(source)->before;
	struct scope_reader_counts counts = scope_reader_counts(of(source)->reader);
	uint64_t settled = before->delivered + before->lost + before->written_off;

	/* What is claimed but not looked at (backlog) is the next reader's. */
	return (struct segment_accounting){.cursor = counts.cursor - counts.backlog - settled,
					   .delivered = counts.delivered - before->delivered,
					   .events = of(source)->events,
					   .continuations = of(source)->continuations,
					   .lost = counts.lost - before->lost,
					   .written_off = counts.written_off - before->written_off,
					   .holes = counts.holes,
					   .pid = (uint32_t)of(source)->pid};
}

struct segment_accounting shm_source_accounting(const struct source *source)
{
	if (of(source)->holds)
		return account_of_all(source);
	return account_of_one(source);
}
