// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The reader on a whole segment that a hostile process fills, and goes on changing while it is
 * read: libFuzzer target. The input is a list of steps, done one by one by this thread; a second
 * thread repeats those that only write, until the input is done. Nothing may crash, hang, or come
 * out of the reader that its header excludes.
 */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "reader.h"
#include "segment.h"

enum { RINGS = 2, SLOTS = 16, STEPS_MAX = 64, HEADER_BYTES = sizeof(struct scope_header) };

enum step_kind { WORD, HEADER, CURSOR, PUBLISH, CLAIM, DRAIN, REOPEN, GONE, WRITE_OFF, STEP_KINDS };

/* As it stands in the input. */
struct __attribute__((packed)) step {
	uint8_t kind;
	uint8_t ring;
	uint16_t index;
	uint64_t value;
	uint8_t record[24]; /* of a published record: its fixed fields */
};

static struct {
	char *segment;
	struct scope_layout layout;
	int descriptor;
	sem_t begin, end;
	const struct step *steps;
	size_t count;
	int stop;
} f;

static struct scope_ring *ring_at(unsigned index)
{
	return (struct scope_ring *)(f.segment + f.layout.rings_offset +
				     index % RINGS * f.layout.ring_size);
}

static void store(uint64_t *at, uint64_t value)
{
	__atomic_store_n(at, value, __ATOMIC_RELAXED);
}

static struct scope_header valid_header(void)
{
	return (struct scope_header){.magic = SCOPE_MAGIC,
				     .endian = SCOPE_ENDIAN_MARK,
				     .abi_major = SCOPE_ABI_MAJOR,
				     .abi_minor = SCOPE_ABI_MINOR,
				     .header_size = sizeof(struct scope_header),
				     .record_size = sizeof(struct scope_record),
				     .slot_size = sizeof(struct scope_slot),
				     .ring_count = RINGS,
				     .slots_per_ring = SLOTS,
				     .clock = SCOPE_CLOCK_MONOTONIC,
				     .segment_size = f.layout.segment_size,
				     .control_offset = f.layout.control_offset,
				     .control_size = f.layout.control_size,
				     .threads_offset = f.layout.threads_offset,
				     .threads_size = f.layout.threads_size,
				     .rings_offset = f.layout.rings_offset,
				     .ring_size = f.layout.ring_size,
				     .pid = (uint32_t)getpid()};
}

/* The control area with its positions, or the rings: where the reader looks again and again. */
static void write_word(const struct step *step)
{
	size_t control = sizeof(struct scope_control) + RINGS * sizeof(struct scope_ring_position);
	size_t words = (step->ring & 1 ? control : RINGS * f.layout.ring_size) / sizeof(uint64_t);
	uint64_t offset = step->ring & 1 ? f.layout.control_offset : f.layout.rings_offset;

	store((uint64_t *)(f.segment + offset) + step->index % words, step->value);
}

static void write_header(const struct step *step)
{
	memcpy(f.segment + step->index % (HEADER_BYTES - 3), &step->value, step->ring % 4 + 1u);
}

/* A record with a right check, whatever is in it. */
static void publish(const struct step *step)
{
	struct scope_ring *ring = ring_at(step->ring);
	uint64_t claim = step->index & 1
				 ? __atomic_fetch_add(&ring->write_cursor, 1, __ATOMIC_RELAXED)
				 : __atomic_load_n(&ring->write_cursor, __ATOMIC_RELAXED) - 1 -
					   (step->index >> 1) % (2 * SLOTS);
	struct scope_slot *slot = (struct scope_slot *)(ring + 1) + claim % SLOTS;
	uint64_t word[SCOPE_RECORD_WORDS] = {0};

	memcpy(word, step->record, sizeof(step->record));
	word[3] = step->value;
	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		store(&slot->word[i], word[i]);
	__atomic_store_n(&slot->stamp, scope_check(claim, word), __ATOMIC_RELEASE);
}

/* False if it is one for the reader. */
static int hostile_step(const struct step *step)
{
	switch (step->kind % STEP_KINDS) {
	case WORD:
		write_word(step);
		return 1;
	case CURSOR:
		store(&ring_at(step->ring)->write_cursor, step->value);
		return 1;
	case PUBLISH:
		publish(step);
		return 1;
	case CLAIM:
		__atomic_fetch_add(&ring_at(step->ring)->write_cursor, step->index % 80,
				   __ATOMIC_RELAXED);
		return 1;
	}
	return 0;
}

/* libFuzzer's alarm interrupts. */
static void wait_for(sem_t *semaphore)
{
	while (sem_wait(semaphore) != 0)
		;
}

static void *mutate(void *argument)
{
	(void)argument;
	for (;;) {
		wait_for(&f.begin);
		while (!__atomic_load_n(&f.stop, __ATOMIC_RELAXED))
			for (size_t i = 0; i < f.count; i++)
				hostile_step(&f.steps[i]);
		sem_post(&f.end);
	}
	return NULL;
}

static int take_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct scope_reader *reader = *(struct scope_reader **)context;
	size_t room =
		scope_kind_has_value(record->kind) ? SCOPE_VALUE_OFFSET : sizeof(record->name);

	if (ring >= RINGS || record->kind < SCOPE_KIND_START || record->kind > SCOPE_KIND_LAST ||
	    record->name_length > room || record->tid == 0 ||
	    scope_reader_claim(reader) == UINT64_MAX)
		abort();
	return 0;
}

static int take_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context;
	if (ring >= RINGS || count == 0 ||
	    (reason != SCOPE_GAP_LAPPED && reason != SCOPE_GAP_WRITTEN_OFF))
		abort();
	return 0;
}

static void check_counts(const struct scope_reader *reader)
{
	struct scope_reader_counts c = scope_reader_counts(reader);

	if (c.cursor != c.delivered + c.lost + c.written_off + c.holes + c.backlog ||
	    c.holes > RINGS * SCOPE_HOLES_MAX)
		abort();
}

static void reader_step(struct scope_reader **reader, const struct step *step)
{
	struct scope_reader_events events = {
		.context = reader, .record = take_record, .gap = take_gap};

	if (step->kind % STEP_KINDS == HEADER) {
		write_header(step);
	} else if (step->kind % STEP_KINDS == REOPEN) {
		scope_reader_close(*reader);
		*reader = scope_reader_open(getpid());
	} else if (*reader) {
		if (step->kind % STEP_KINDS == DRAIN)
			scope_reader_drain(*reader, &events, step->index % 8);
		else if (step->kind % STEP_KINDS == WRITE_OFF)
			scope_reader_write_off(*reader, &events);
		else
			scope_reader_capture(*reader, step->value);
	}
	if (*reader)
		check_counts(*reader);
}

static void set_up(void)
{
	pthread_t thread;

	f.layout = scope_layout(RINGS, SLOTS);
	f.descriptor = memfd_create(SCOPE_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (f.descriptor < 0 || ftruncate(f.descriptor, (off_t)f.layout.segment_size) != 0 ||
	    fcntl(f.descriptor, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		exit(2);
	f.segment = mmap(NULL, f.layout.segment_size, PROT_READ | PROT_WRITE, MAP_SHARED,
			 f.descriptor, 0);
	if (f.segment == MAP_FAILED || sem_init(&f.begin, 0, 0) != 0 ||
	    sem_init(&f.end, 0, 0) != 0 || pthread_create(&thread, NULL, mutate, NULL) != 0)
		exit(2);
}

static void reset(void)
{
	struct scope_header header = valid_header();

	memset(f.segment + f.layout.control_offset, 0, 4096);
	memset(f.segment + f.layout.rings_offset, 0, RINGS * f.layout.ring_size);
	memcpy(f.segment, &header, sizeof(header));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct scope_reader *reader;
	struct scope_reader_events events = {
		.context = &reader, .record = take_record, .gap = take_gap};
	int mutated = size && data[0] & 1;

	if (!f.segment)
		set_up();
	f.steps = (const struct step *)(data + 1);
	f.count = size ? (size - 1) / sizeof(struct step) : 0;
	if (f.count > STEPS_MAX)
		return -1;
	reset();
	__atomic_store_n(&f.stop, 0, __ATOMIC_RELAXED);
	reader = scope_reader_open(getpid());
	if (mutated)
		sem_post(&f.begin);
	for (size_t i = 0; i < f.count; i++)
		if (!hostile_step(&f.steps[i]))
			reader_step(&reader, &f.steps[i]);
	if (reader)
		scope_reader_drain(reader, &events, 0);
	__atomic_store_n(&f.stop, 1, __ATOMIC_RELAXED);
	if (mutated)
		wait_for(&f.end);
	if (reader) {
		scope_reader_drain(reader, &events, 0);
		scope_reader_gone(reader);
		check_counts(reader);
	}
	scope_reader_close(reader);
	return 0;
}
