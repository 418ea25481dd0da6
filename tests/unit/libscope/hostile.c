// SPDX-License-Identifier: GPL-2.0-or-later
/* What a reader must refuse: headers, positions, records and whole segments that a hostile or broken process
 * shows it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper.h"
#include "validate.h"

static struct scope_header valid_header(void)
{
	return *own_header();
}

#define CHECK_REFUSED(field, value, error)                                                           \
	do {                                                                                         \
		struct scope_header forged = valid_header();                                         \
		forged.field = (value);                                                              \
		cr_assert_eq(scope_validate_header(&forged, length), -(error), #field " = " #value); \
	} while (0)

Test(hostile, every_forged_header_field_is_refused)
{
	struct scope_header header = valid_header();
	uint64_t length = header.segment_size;

	cr_assert_eq(scope_validate_header(&header, length), 0);
	CHECK_REFUSED(magic, 0, EAGAIN);
	CHECK_REFUSED(magic, SCOPE_MAGIC + 1, EBADMSG);
	CHECK_REFUSED(endian, 0x04030201, EBADMSG);
	CHECK_REFUSED(abi_major, SCOPE_ABI_MAJOR + 1, EPROTO);
	CHECK_REFUSED(header_size, sizeof(header) - 1, EBADMSG);
	CHECK_REFUSED(header_size, SCOPE_SEGMENT_ALIGN + 1, EBADMSG);
	CHECK_REFUSED(record_size, 48, EBADMSG);
	CHECK_REFUSED(slot_size, 128, EBADMSG);
	CHECK_REFUSED(ring_count, 0, EBADMSG);
	CHECK_REFUSED(ring_count, 17, EBADMSG);
	CHECK_REFUSED(ring_count, 129, EBADMSG);
	CHECK_REFUSED(ring_count, UINT32_MAX, EBADMSG);
	CHECK_REFUSED(slots_per_ring, 0, EBADMSG);
	CHECK_REFUSED(slots_per_ring, 8191, EBADMSG);
	CHECK_REFUSED(slots_per_ring, 16384, EBADMSG);
	CHECK_REFUSED(slots_per_ring, 1u << 31, EBADMSG);
	CHECK_REFUSED(clock, 0, EBADMSG);
	CHECK_REFUSED(clock, 4, EBADMSG);
	CHECK_REFUSED(segment_size, length * 2, EBADMSG);
	CHECK_REFUSED(control_offset, 0, EBADMSG);
	CHECK_REFUSED(control_offset, length, EBADMSG);
	CHECK_REFUSED(control_size, 64, EBADMSG);
	CHECK_REFUSED(threads_offset, header.control_offset, EBADMSG);
	CHECK_REFUSED(threads_size, UINT64_MAX, EBADMSG);
	CHECK_REFUSED(rings_offset, length, EBADMSG);
	CHECK_REFUSED(rings_offset, UINT64_MAX - 63, EBADMSG);
	CHECK_REFUSED(ring_size, header.ring_size * 16, EBADMSG);
	CHECK_REFUSED(pid, 0, EBADMSG);
	cr_assert_eq(scope_validate_header(&header, length - 1), -EBADMSG, "cut");
	cr_assert_eq(scope_validate_header(&header, 0), -EBADMSG);
}

Test(hostile, positions_that_do_not_add_up_are_refused)
{
	struct scope_position good = {
		.next = 100, .lost = 10, .written_off = 5, .hole_count = 2, .hole = {7, 99}};
	struct scope_position bad;

	cr_assert(scope_validate_position(&good, 100));
	cr_assert_not(scope_validate_position(&good, 99));
	bad = good, bad.lost = 94;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.lost = UINT64_MAX;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.written_off = UINT64_MAX - 4;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.hole_count = 65;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.hole_count = UINT64_MAX;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.hole[1] = 100;
	cr_assert_not(scope_validate_position(&bad, 100));
	bad = good, bad.hole[1] = 7;
	cr_assert_not(scope_validate_position(&bad, 100));
}

static void publish_forged(struct scope_record record)
{
	uint64_t claim = forge_claim(0);

	forge_publish(0, claim, &record);
}

Test(hostile, records_beyond_their_limits_are_gaps)
{
	struct scope_record good, bad;
	struct log log;

	start_capture(&log, 1, 64);
	good = forge_record(7, 0, "name");
	publish_forged(good);
	bad = good, bad.kind = 0;
	publish_forged(bad);
	bad = good, bad.kind = SCOPE_KIND_LAST + 1;
	publish_forged(bad);
	bad = good, bad.name_length = 33;
	publish_forged(bad);
	bad = good, bad.kind = SCOPE_KIND_COMPLETE, bad.name_length = 25;
	publish_forged(bad);
	bad = good, bad.flags = 0x8000;
	publish_forged(bad);
	bad = good, bad.tid = 0;
	publish_forged(bad);
	publish_forged(good);
	drain_and_check(&log);
	cr_assert_eq(log.count, 2);
	cr_assert_eq(log.written_off, 6);
	finish(&log);
}

Test(hostile, a_cursor_that_jumps_or_steps_back_does_no_harm)
{
	struct scope_ring *ring;
	struct log log;

	start_capture(&log, 1, 64);
	ring = own_ring(0);
	SCOPE_INSTANT("one");
	forge_claim(0);
	drain_and_check(&log);
	ring->write_cursor = 0;
	drain_and_check(&log);
	cr_assert_eq(log.count, 2);
	cr_assert_eq(scope_reader_counts(log.reader).holes, 1, "not lost by a lap backwards");
	cr_assert_eq(scope_reader_counts(log.reader).backlog, 0);
	ring->write_cursor = UINT64_MAX - 1;
	drain_and_check(&log);
	ring->write_cursor = 1;
	drain_and_check(&log);
	cr_assert_eq(log.count, 2);
	finish(&log);
}

/* While a record is taken, the cursor goes to and fro. */
static void move_cursor(struct log *log, const struct scope_record *record)
{
	(void)record;
	own_ring(0)->write_cursor = *(uint64_t *)log->hook_context;
}

Test(hostile, a_cursor_that_steps_back_during_a_drain_ends_the_drain, .timeout = 30)
{
	uint64_t moved_to[] = {0, 1, 40, UINT64_MAX};

	for (size_t i = 0; i < sizeof(moved_to) / sizeof(moved_to[0]); i++) {
		struct scope_reader_counts before, after;
		struct log log;

		if (i == 0)
			start_capture(&log, 1, 64);
		else
			log = (struct log){.reader = scope_reader_open(getpid())};
		cr_assert_not_null(log.reader);
		scope_reader_capture(log.reader, LONG_CAPTURE_NS);
		own_ring(0)->write_cursor = (i + 1) << 40;
		before = scope_reader_counts(log.reader);
		publish_forged(forge_record(7, 0, "hostile"));
		for (int j = 0; j < 40; j++)
			forge_claim(0);
		log.hook = move_cursor;
		log.hook_context = &moved_to[i];
		cr_assert_eq(drain(&log), 1);
		after = scope_reader_counts(log.reader);
		cr_assert(after.lost >= before.lost && after.written_off >= before.written_off);
		cr_assert(after.holes <= SCOPE_HOLES_MAX);
		own_ring(0)->write_cursor = after.cursor;
		finish(&log);
	}
}

/* ---- whole segments, of a child ---- */

struct forgery {
	bool unsealed;
	bool no_memfd_content;
	int cut; /* bytes missing at the end */
	void (*change)(struct scope_header *header);
};

static struct forgery forgery;

/* Shows the reader a segment as libscope would make it, but for one thing. */
static void show_forgery(int from_parent, int to_parent)
{
	struct scope_layout layout = scope_layout(1, 8);
	int descriptor = memfd_create(SCOPE_MEMFD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct scope_header header = {.magic = SCOPE_MAGIC,
				      .endian = SCOPE_ENDIAN_MARK,
				      .abi_major = SCOPE_ABI_MAJOR,
				      .header_size = sizeof(header),
				      .record_size = sizeof(struct scope_record),
				      .slot_size = sizeof(struct scope_slot),
				      .ring_count = 1,
				      .slots_per_ring = 8,
				      .clock = SCOPE_CLOCK_MONOTONIC,
				      .segment_size = layout.segment_size,
				      .control_offset = layout.control_offset,
				      .control_size = layout.control_size,
				      .threads_offset = layout.threads_offset,
				      .threads_size = layout.threads_size,
				      .rings_offset = layout.rings_offset,
				      .ring_size = layout.ring_size,
				      .pid = (uint32_t)getpid()};
	void *at;

	if (forgery.change)
		forgery.change(&header);
	if (ftruncate(descriptor, (off_t)layout.segment_size - forgery.cut) != 0 ||
	    (!forgery.no_memfd_content && pwrite(descriptor, &header, sizeof(header), 0) != sizeof(header)) ||
	    (!forgery.unsealed && fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK) != 0))
		_exit(1);
	at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
	if (at == MAP_FAILED)
		_exit(2);
	step(to_parent);
	wait_step(from_parent);
}

static void check_forgery(struct forgery wanted, int error)
{
	struct scope_reader *reader;
	struct child child;

	forgery = wanted;
	child = start_child(show_forgery);
	wait_step(child.from);
	errno = 0;
	reader = scope_reader_open(child.pid);
	if (error) {
		cr_assert_null(reader);
		cr_assert_eq(errno, error, "%s instead of %s", strerror(errno), strerror(error));
	} else {
		cr_assert_not_null(reader, "%s", strerror(errno));
	}
	scope_reader_close(reader);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

static void of_version_2(struct scope_header *header)
{
	header->abi_major = 2;
}
static void of_129_rings(struct scope_header *header)
{
	header->ring_count = 129;
}
static void of_another_process(struct scope_header *header)
{
	header->pid = 1;
}
static void of_another_time(struct scope_header *header)
{
	header->process_start = 1;
}

Test(hostile, forged_segments_are_refused_with_the_reason)
{
	check_forgery((struct forgery){0}, 0);
	check_forgery((struct forgery){.unsealed = true}, EBADMSG);
	check_forgery((struct forgery){.cut = 1}, EBADMSG);
	check_forgery((struct forgery){.cut = 65536}, EBADMSG);
	check_forgery((struct forgery){.no_memfd_content = true}, EAGAIN);
	check_forgery((struct forgery){.change = of_version_2}, EPROTO);
	check_forgery((struct forgery){.change = of_129_rings}, EBADMSG);
	check_forgery((struct forgery){.change = of_another_process}, ENOENT);
	check_forgery((struct forgery){.change = of_another_time}, ENOENT);
}

Test(hostile, the_segment_cannot_be_cut_by_its_own_process)
{
	char path[64];
	int descriptor;
	struct log log;

	start_capture(&log, 1, 64);
	/* Ours is the one with the number that libscope moves it to, or above. */
	for (descriptor = 200; descriptor < 1024; descriptor++) {
		ssize_t length;
		char link[64];

		snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
		length = readlink(path, link, sizeof(link) - 1);
		if (length > 0 && (link[length] = '\0', strstr(link, SCOPE_MEMFD_NAME)))
			break;
	}
	cr_assert(descriptor < 1024);
	cr_assert_eq(ftruncate(descriptor, 4096), -1);
	cr_assert_eq(errno, EPERM);
	SCOPE_INSTANT("still there");
	drain_and_check(&log);
	cr_assert_eq(log.count, 2);
	finish(&log);
}
