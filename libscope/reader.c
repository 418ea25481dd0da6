// SPDX-License-Identifier: BSD-2-Clause
#include "reader.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "find.h"
#include "validate.h"

/* A scan of a process's mappings may take this share of the time: 1/400. */
enum { SCAN_SHARE = 400, SCAN_PAUSE_NS = 20000000 };

/* In ticks: years, and it cannot overflow. */
#define LONGEST_CAPTURE 0x1p62

/* The rate of a raw counter is taken over this time at least. */
enum { RATE_AFTER_NS = 1000000 };

struct ring {
	const struct scope_ring *ring;	   /* theirs, read-only */
	struct scope_ring_position *saved; /* for the next reader; never read back */
	struct scope_position at;
	struct scope_account account;
	uint64_t current; /* which copy of `saved` holds */
	bool held;	  /* what is taken is not saved before scope_reader_commit */
	bool behind;	  /* `saved` is */
};

struct scope_reader {
	struct scope_found segment;
	pid_t pid;
	int pidfd;
	struct scope_control *control;
	void *rings_address;
	uint64_t rings_size;
	int64_t clock_offset;	   /* of their CLOCK_MONOTONIC to ours */
	struct clock_moment first; /* when it was opened */
	uint64_t claim;
	uint64_t next_scan_ns;
	uint64_t epoch; /* ours, in the lowest bits of capture_until */
	bool counts;	/* into the accounts */
	bool resumes;
	bool gone;
	struct ring ring[SCOPE_RINGS_MAX];
};

/* One call of drain. */
struct drain {
	struct scope_reader *reader;
	const struct scope_reader_events *events;
	struct ring *ring;
	uint32_t index;
	uint64_t delivered;
};

static const struct scope_header *header_of(const struct scope_reader *reader)
{
	return &reader->segment.header;
}

/* ---- positions ---- */

/* Takes the record at `next` for good: one store, so that a reader that dies has taken it or has not. */
static void save_next(struct ring *ring)
{
	if (ring->held) {
		ring->behind = true;
		return;
	}
	__atomic_store_n(&ring->saved->position[ring->current].next, ring->at.next, __ATOMIC_RELAXED);
}

/* The same for any other change, through the copy not in use. */
static void save_all(struct ring *ring)
{
	struct scope_position *copy = &ring->saved->position[!ring->current];

	if (ring->held) {
		ring->behind = true;
		return;
	}
	copy->next = ring->at.next;
	copy->lost = ring->at.lost;
	copy->written_off = ring->at.written_off;
	copy->hole_count = ring->at.hole_count;
	memcpy(copy->hole, ring->at.hole, ring->at.hole_count * sizeof(copy->hole[0]));
	ring->saved->account[!ring->current] = ring->account;
	ring->current = !ring->current;
	/* Release: whoever sees this copy named sees it whole. Pairs with the acquire in load_position. */
	__atomic_store_n(&ring->saved->current, ring->current, __ATOMIC_RELEASE);
}

/* Never behind what was seen before, `seen`: a cursor that steps back is a hostile writer's. */
static uint64_t load_cursor(const struct ring *ring, uint64_t seen)
{
	uint64_t cursor = __atomic_load_n(&ring->ring->write_cursor, __ATOMIC_RELAXED);

	return cursor > seen ? cursor : seen;
}

/* From where the last reader stopped. False if that cannot be. */
static bool load_position(struct ring *ring)
{
	ring->current = __atomic_load_n(&ring->saved->current, __ATOMIC_ACQUIRE);
	if (ring->current > 1)
		return false;
	ring->at = ring->saved->position[ring->current];
	ring->account = ring->saved->account[ring->current];
	return scope_validate_position(&ring->at,
				       __atomic_load_n(&ring->ring->write_cursor, __ATOMIC_RELAXED));
}

/* ---- slots ---- */

/*
 * A copy of the slot of `claim`, believed only if its check is that of this claim and these words. Then no
 * second look is needed: a mixture of two writers' words does not pass. Wait-free.
 */
static bool copy_slot(const struct drain *drain, uint64_t claim, struct scope_record *record)
{
	uint32_t mask = header_of(drain->reader)->slots_per_ring - 1;
	const struct scope_slot *slot = (const struct scope_slot *)(drain->ring->ring + 1) + (claim & mask);
	/* Acquire: pairs with the release in the producer's publish. */
	uint64_t stamp = __atomic_load_n(&slot->stamp, __ATOMIC_ACQUIRE);
	uint64_t word[SCOPE_RECORD_WORDS];

	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		word[i] = __atomic_load_n(&slot->word[i], __ATOMIC_RELAXED);
	if (stamp != scope_check(claim, word))
		return false;
	memcpy(record, word, sizeof(*record));
	return true;
}

static bool lapped(const struct drain *drain, uint64_t claim, uint64_t cursor)
{
	return cursor - claim > header_of(drain->reader)->slots_per_ring;
}

/* Into our CLOCK_MONOTONIC. */
static void shift_times(const struct scope_reader *reader, struct scope_record *record)
{
	uint64_t value;

	if (!reader->clock_offset)
		return;
	record->ticks -= (uint64_t)reader->clock_offset;
	if (record->kind == SCOPE_KIND_COMPLETE) {
		memcpy(&value, record->name + SCOPE_VALUE_OFFSET, sizeof(value));
		value -= (uint64_t)reader->clock_offset;
		memcpy(record->name + SCOPE_VALUE_OFFSET, &value, sizeof(value));
	}
}

/* From `claim` on. */
static int tell_gap(const struct drain *drain, enum scope_gap_reason reason, uint64_t claim, uint64_t count)
{
	drain->reader->claim = claim;
	if (drain->reader->counts)
		drain->ring->account.lost += count;
	return drain->events->gap(drain->events->context, drain->index, reason, count);
}

/* Hands out a record that passed its check. `*taken` is false for one that no writer of ours makes: that is a
 * gap. */
static int deliver(struct drain *drain, uint64_t claim, struct scope_record *record, bool *taken)
{
	*taken = scope_validate_record(record);
	if (!*taken)
		return tell_gap(drain, SCOPE_GAP_WRITTEN_OFF, claim, 1);
	shift_times(drain->reader, record);
	drain->reader->claim = claim;
	if (drain->reader->counts && record->kind == SCOPE_KIND_CONTINUATION)
		drain->ring->account.continuations++;
	else if (drain->reader->counts)
		drain->ring->account.events++;
	drain->delivered++;
	return drain->events->record(drain->events->context, drain->index, record);
}

/* ---- holes ---- */

static void remove_hole(struct scope_position *at, uint64_t index)
{
	at->hole_count--;
	memmove(&at->hole[index], &at->hole[index + 1], (at->hole_count - index) * sizeof(at->hole[0]));
}

/*
 * Which of the holes have been published meanwhile, as bits. Looked at from the newest on: a thread publishes
 * one record before the next, so having seen a record we see those that it wrote before it.
 */
static uint64_t published_holes(const struct drain *drain)
{
	const struct scope_position *at = &drain->ring->at;
	uint64_t published = 0;

	for (uint64_t i = at->hole_count; i-- > 0;) {
		struct scope_record record;

		published = published << 1 | copy_slot(drain, at->hole[i], &record);
	}
	return published;
}

/* Looks at the holes again: those published meanwhile are delivered, oldest first, those a lap old are lost.
 */
static int settle_holes(struct drain *drain, uint64_t cursor)
{
	struct scope_position *at = &drain->ring->at;
	uint64_t published = published_holes(drain), i = 0;
	int result = 0;

	for (; !result && i < at->hole_count; published >>= 1) {
		uint64_t claim = at->hole[i];
		struct scope_record record;
		bool taken;

		if (lapped(drain, claim, cursor)) {
			result = tell_gap(drain, SCOPE_GAP_LAPPED, claim, 1);
			at->lost++;
		} else if (published & 1 && copy_slot(drain, claim, &record)) {
			result = deliver(drain, claim, &record, &taken);
			at->written_off += !taken;
		} else {
			i++;
			continue;
		}
		remove_hole(at, i);
		save_all(drain->ring);
	}
	return result;
}
static_assert(sizeof(((struct scope_position *)0)->hole) <= 64 * sizeof(uint64_t), "a bit for each hole");

static int write_off_oldest(struct drain *drain)
{
	uint64_t claim = drain->ring->at.hole[0];

	remove_hole(&drain->ring->at, 0);
	drain->ring->at.written_off++;
	save_all(drain->ring);
	return tell_gap(drain, SCOPE_GAP_WRITTEN_OFF, claim, 1);
}

/* The claim at `next` is not published yet: passed over, not waited for. */
static int open_hole(struct drain *drain)
{
	struct scope_position *at = &drain->ring->at;
	int result = at->hole_count == SCOPE_HOLES_MAX ? write_off_oldest(drain) : 0;

	at->hole[at->hole_count++] = at->next++;
	save_all(drain->ring);
	return result;
}

/* ---- draining ---- */

/* To the oldest slot that is still there. */
static int skip_lap(struct drain *drain, uint64_t cursor)
{
	struct scope_position *at = &drain->ring->at;
	uint64_t oldest = cursor - header_of(drain->reader)->slots_per_ring;
	uint64_t claim = at->next, count = oldest - claim;

	at->lost += count;
	at->next = oldest;
	save_all(drain->ring);
	return tell_gap(drain, SCOPE_GAP_LAPPED, claim, count);
}

/* The record at `next`, which has been copied. */
static int take_next(struct drain *drain, struct scope_record *record, uint64_t cursor)
{
	struct ring *ring = drain->ring;
	bool taken;
	int result = 0;

	/*
	 * A hole may have been filled since it was last looked at, and this record be of the same thread,
	 * written after it. The thread published the hole first, so having seen this one we see that one.
	 */
	if (ring->at.hole_count)
		result = settle_holes(drain, cursor);
	if (result)
		return result;
	result = deliver(drain, ring->at.next, record, &taken);
	ring->at.next++;
	if (taken) {
		save_next(ring);
	} else {
		ring->at.written_off++;
		save_all(ring);
	}
	return result;
}

static int drain_ring(struct drain *drain, uint64_t limit)
{
	struct scope_position *at = &drain->ring->at;
	uint64_t cursor = load_cursor(drain->ring, at->next);
	uint64_t end = cursor, before = drain->delivered;
	int result = settle_holes(drain, cursor);

	while (!result && at->next < end && (!limit || drain->delivered - before < limit)) {
		struct scope_record record;

		if (lapped(drain, at->next, cursor)) {
			result = skip_lap(drain, cursor);
		} else if (copy_slot(drain, at->next, &record)) {
			result = take_next(drain, &record, cursor);
		} else {
			cursor = load_cursor(drain->ring, cursor);
			if (!lapped(drain, at->next, cursor))
				result = open_hole(drain);
		}
	}
	return result;
}

int64_t scope_reader_drain(struct scope_reader *reader, const struct scope_reader_events *events,
			   uint64_t limit)
{
	struct drain drain = {.reader = reader, .events = events};
	int result = 0;

	for (uint32_t i = 0; !result && i < header_of(reader)->ring_count; i++) {
		drain.ring = &reader->ring[i];
		drain.index = i;
		result = drain_ring(&drain, limit);
	}
	return result ? result : (int64_t)drain.delivered;
}

int scope_reader_write_off(struct scope_reader *reader, const struct scope_reader_events *events)
{
	struct drain drain = {.reader = reader, .events = events};
	int result = 0;

	for (uint32_t i = 0; !result && i < header_of(reader)->ring_count; i++) {
		drain.ring = &reader->ring[i];
		drain.index = i;
		result = settle_holes(&drain, load_cursor(drain.ring, drain.ring->at.next));
		while (!result && drain.ring->at.hole_count)
			result = write_off_oldest(&drain);
	}
	return result;
}

void scope_reader_hold(struct scope_reader *reader)
{
	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++)
		reader->ring[i].held = true;
}

/* Read is what was committed alone: between the accounts' beginning and its name nothing is. */
void scope_reader_account(struct scope_reader *reader, uint64_t capture)
{
	reader->counts = true;
	if (reader->control->account_of == capture)
		return;
	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++) {
		struct ring *ring = &reader->ring[i];

		memset(&ring->account, 0, sizeof(ring->account));
		memset(ring->saved->account, 0, sizeof(ring->saved->account));
		ring->saved->written_off_before = ring->at.written_off;
	}
	reader->control->account_of = capture;
}

uint64_t scope_reader_accounts_of(const struct scope_reader *reader)
{
	return reader->control->account_of;
}

struct scope_reader_account scope_reader_accounted(const struct scope_reader *reader)
{
	struct scope_reader_account sum = {0};

	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++) {
		const struct ring *ring = &reader->ring[i];
		uint64_t written_off = ring->at.written_off - ring->saved->written_off_before;

		/* Other readers may have written off as well. */
		if (written_off > ring->account.lost)
			written_off = ring->account.lost;
		sum.events += ring->account.events;
		sum.continuations += ring->account.continuations;
		sum.lost += ring->account.lost - written_off;
		sum.written_off += written_off;
		sum.holes += ring->at.hole_count;
	}
	return sum;
}

void scope_reader_commit(struct scope_reader *reader)
{
	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++) {
		struct ring *ring = &reader->ring[i];

		if (!ring->behind)
			continue;
		ring->held = ring->behind = false;
		save_all(ring);
		ring->held = true;
	}
}

struct scope_reader_counts scope_reader_counts(const struct scope_reader *reader)
{
	struct scope_reader_counts counts = {0};

	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++) {
		const struct ring *ring = &reader->ring[i];
		const struct scope_position *at = &ring->at;
		uint64_t cursor = load_cursor(ring, at->next), slots = header_of(reader)->slots_per_ring;

		if (cursor - at->next > slots)
			counts.overwritten += cursor - at->next - slots;
		counts.cursor += cursor;
		counts.delivered += at->next - at->lost - at->written_off - at->hole_count;
		counts.lost += at->lost;
		counts.written_off += at->written_off;
		counts.holes += at->hole_count;
		counts.backlog += cursor - at->next;
	}
	return counts;
}

uint64_t scope_reader_cursor(const struct scope_reader *reader, uint32_t ring)
{
	if (ring >= header_of(reader)->ring_count)
		return 0;
	return load_cursor(&reader->ring[ring], reader->ring[ring].at.next);
}

uint64_t scope_reader_claim(const struct scope_reader *reader)
{
	return reader->claim;
}

/* ---- clock ---- */

uint32_t scope_reader_clock(const struct scope_reader *reader)
{
	return header_of(reader)->clock;
}

uint64_t scope_reader_ticks(const struct scope_reader *reader)
{
	return clock_ticks(header_of(reader)->clock);
}

uint32_t scope_reader_slots(const struct scope_reader *reader)
{
	return header_of(reader)->slots_per_ring;
}

uint64_t scope_reader_inode(const struct scope_reader *reader)
{
	return reader->segment.inode;
}

pid_t scope_reader_pid(const struct scope_reader *reader)
{
	return (pid_t)header_of(reader)->pid;
}

static double ticks_per_ns(const struct scope_reader *reader)
{
	uint64_t passed = clock_monotonic_ns() - reader->first.ns;
	struct clock_moment now;

	if (header_of(reader)->clock == SCOPE_CLOCK_MONOTONIC)
		return 1;
	if (passed < RATE_AFTER_NS)
		nanosleep(&(struct timespec){.tv_nsec = (long)(RATE_AFTER_NS - passed)}, NULL);
	now = clock_moment(header_of(reader)->clock);
	return (double)(now.ticks - reader->first.ticks) / (double)(now.ns - reader->first.ns + 1);
}

void scope_reader_capture(struct scope_reader *reader, uint64_t ns)
{
	uint64_t until = 0;

	if (ns) {
		double span = (double)ns * ticks_per_ns(reader);

		until = scope_reader_ticks(reader) + (uint64_t)reader->clock_offset +
			(span < LONGEST_CAPTURE ? (uint64_t)span : (uint64_t)LONGEST_CAPTURE);
		/* Rounded up, so that it lies in the future. */
		until = (until | SCOPE_EPOCH_MASK) + 1 + reader->epoch;
	}
	__atomic_store_n(&reader->control->capture_until, until, __ATOMIC_RELAXED);
}

/* ---- life ---- */

static bool process_ended(const struct scope_reader *reader)
{
	struct pollfd poll_for = {.fd = reader->pidfd, .events = POLLIN};

	return poll(&poll_for, 1, 0) == 1;
}

/* Whether exec has replaced the memory that we read; looked up not too often, since it means reading all
 * mappings. */
static bool memory_replaced(struct scope_reader *reader)
{
	uint64_t now = clock_monotonic_ns(), pause;
	bool mapped;

	if (now < reader->next_scan_ns)
		return false;
	mapped = scope_find_mapped(reader->pid, reader->segment.inode);
	pause = (clock_monotonic_ns() - now) * SCAN_SHARE;
	reader->next_scan_ns = now + (pause > SCAN_PAUSE_NS ? pause : SCAN_PAUSE_NS);
	return !mapped;
}

bool scope_reader_gone(struct scope_reader *reader)
{
	if (!reader->gone)
		reader->gone = process_ended(reader) || memory_replaced(reader);
	return reader->gone;
}

static int map_segment(struct scope_reader *reader)
{
	const struct scope_header *header = header_of(reader);
	int descriptor = reader->segment.descriptor;
	void *control = mmap(NULL, header->control_size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor,
			     (off_t)header->control_offset);
	uint64_t size = header->segment_size - header->rings_offset;
	void *rings = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, (off_t)header->rings_offset);

	if (control != MAP_FAILED)
		reader->control = control;
	if (rings != MAP_FAILED) {
		reader->rings_address = rings;
		reader->rings_size = size;
	}
	return reader->control && reader->rings_address ? 0 : -ENOMEM;
}

static int load_positions(struct scope_reader *reader)
{
	struct scope_ring_position *saved = (struct scope_ring_position *)(reader->control + 1);

	for (uint32_t i = 0; i < header_of(reader)->ring_count; i++) {
		struct ring *ring = &reader->ring[i];

		ring->saved = &saved[i];
		ring->ring = (const struct scope_ring *)((const char *)reader->rings_address +
							 i * header_of(reader)->ring_size);
		if (!load_position(ring))
			return -EBADMSG;
	}
	return 0;
}

static int lock_segment(const struct scope_reader *reader)
{
	if (flock(reader->segment.descriptor, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return errno == EWOULDBLOCK ? -EBUSY : -errno;
}

static int open_segment(struct scope_reader *reader, pid_t pid)
{
	int err;

	/* First a hold on the process, so that its id cannot come to mean another. */
	reader->pid = pid;
	reader->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (reader->pidfd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	err = scope_find(pid, &reader->segment);
	if (process_ended(reader))
		err = -ESRCH;
	if (!err)
		err = lock_segment(reader);
	if (!err)
		err = map_segment(reader);
	if (!err)
		err = load_positions(reader);
	return err;
}

static void destroy(struct scope_reader *reader)
{
	if (reader->control)
		munmap(reader->control, header_of(reader)->control_size);
	if (reader->rings_address)
		munmap(reader->rings_address, reader->rings_size);
	if (reader->segment.descriptor >= 0)
		close(reader->segment.descriptor);
	if (reader->pidfd >= 0)
		close(reader->pidfd);
	free(reader);
}

/* The next reader after the last one: threads will tell it their names. */
static void take_turn(struct scope_reader *reader)
{
	struct scope_control *control = reader->control;
	uint64_t now = reader->first.ticks + (uint64_t)reader->clock_offset;

	uint64_t last = __atomic_load_n(&control->reader_epoch, __ATOMIC_RELAXED);
	bool died = last && !(last & SCOPE_EPOCH_CLOSED);

	reader->resumes = died || __atomic_load_n(&control->capture_until, __ATOMIC_RELAXED) > now;
	reader->epoch = (last & SCOPE_EPOCH_MASK) % SCOPE_EPOCH_MASK + 1;
	__atomic_store_n(&control->reader_epoch, reader->epoch, __ATOMIC_RELAXED);
}

struct scope_reader *scope_reader_open(pid_t pid)
{
	struct scope_reader *reader = calloc(1, sizeof(*reader));
	int err;

	if (!reader)
		return NULL;
	reader->pidfd = -1;
	reader->segment.descriptor = -1;
	err = open_segment(reader, pid);
	if (err) {
		destroy(reader);
		errno = -err;
		return NULL;
	}
	if (header_of(reader)->clock == SCOPE_CLOCK_MONOTONIC)
		reader->clock_offset = scope_find_clock_offset(pid);
	reader->first = clock_moment(header_of(reader)->clock);
	take_turn(reader);
	return reader;
}

int scope_reader_refused_version(pid_t pid, uint16_t *major, uint16_t *minor)
{
	return scope_find_version(pid, major, minor);
}

bool scope_reader_resumes(const struct scope_reader *reader)
{
	return reader->resumes;
}

void scope_reader_leave(struct scope_reader *reader)
{
	if (reader)
		destroy(reader);
}

void scope_reader_close(struct scope_reader *reader)
{
	if (!reader)
		return;
	scope_reader_capture(reader, 0);
	__atomic_store_n(&reader->control->reader_epoch, reader->epoch | SCOPE_EPOCH_CLOSED,
			 __ATOMIC_RELAXED);
	destroy(reader);
}
