// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of other versions: an old one is a file that was written by the scopetrace of then (kept in
 * tests/golden); a future one is made from one of ours by what a later minor version may do: more
 * types of chunks, longer records, a longer header and footer.
 */
#include "support/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

enum { PID = 100, TID = 101 };

static struct maker maker;

static void begin(void)
{
	make_begin(&maker);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(capture_versions, .init = begin, .fini = end);

static void make_capture(void)
{
	struct loss_event loss = {10, 20, 3, PID, LOSS_KERNEL_RING, 1, 0};
	struct segment_accounting segment = {.cursor = 2, .delivered = 2, .events = 2, .pid = PID};
	uint32_t outer, inner;

	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	outer = make_function(&maker, "outer", "program");
	inner = make_function(&maker, "inner", "program");
	make_thread(&maker, THREAD_NAMED, PID, TID, 5, 6, "worker");
	make_call(&maker, PID, TID, inner, 1100, 1200, 0);
	make_call(&maker, PID, TID, outer, 1000, 1900, 0);
	make_start(&maker, PID, TID, 1300, 1, "m");
	make_stop(&maker, PID, TID, 1600, 1);
	cr_assert(!maker.output->loss(maker.output, &loss));
	cr_assert(!scope_file_writer_segment_accounting(maker.writer, &segment));
	make_end(&maker, 0, 3000);
}

static const char expected[] = "outer 1000-1900\n"
			       " inner 1100-1200\n"
			       " m 1300-1600\n";

/* ---- an old one ---- */

Test(capture_versions, first)
{
	struct timeline *timeline = timeline_open("tests/golden/capture-1.0.scope");
	const struct lane *lane;

	cr_assert(timeline, "%s", said(&maker));
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_str_eq(timeline->command, "scopetrace record old");
	cr_assert_str_eq(timeline->host, "vm");
	cr_assert_eq(timeline->start_ns, 900);
	cr_assert_eq(timeline->end_ns, 3000);
	cr_assert_eq(timeline->accounting.recursion_misses, 7);
	cr_assert_eq(timeline->processes[0].time_ns, 0, "what it does not tell is zero");
	cr_assert_eq(timeline->functions[0].accounting.instants, 0);
	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_str_eq(timeline->names[lane->name], "worker");
	cr_assert_str_eq(lane_text(timeline, lane), "f 1000-1500 lost\n"
						    " g 1050-1100\n"
						    " m 1200-1300\n");
	lane = lane_of(timeline, PID, 102, 0);
	cr_assert_str_eq(lane_text(timeline, lane), "g 1200-3000 unfinished lost\n");
	timeline_close(timeline);
	cr_assert_str_empty(said(&maker));
}

/* ---- a future one ---- */

/* A file being put together, chunk by chunk. */
struct paper {
	unsigned char *bytes;
	size_t length;
};

static void put_chunk(struct paper *paper, uint32_t type, const void *payload, uint32_t length)
{
	struct chunk_header header = {
		.magic = SCOPE_FILE_CHUNK_MAGIC, .type = (uint16_t)type, .length = length};
	size_t at = paper->length;

	paper->length += sizeof(header) + chunk_padded(length);
	paper->bytes = realloc(paper->bytes, paper->length);
	memset(paper->bytes + at, 0, paper->length - at);
	memcpy(paper->bytes + at, &header, sizeof(header));
	memcpy(paper->bytes + at + sizeof(header), payload, length);
	chunk_sign(paper->bytes, at);
}

/* Something that only a later version knows. */
static void put_unknown(struct paper *paper, uint32_t type)
{
	static const unsigned char bytes[77] = {0xff, 0xfe, 0xfd};

	put_chunk(paper, type, bytes, sizeof(bytes));
}

/* Every record `more` bytes longer, by what must not be taken for anything. */
static void put_longer(struct paper *paper, uint32_t type, const unsigned char *payload,
		       uint32_t length, uint32_t more)
{
	uint32_t size = scope_file_record_sizes[type].here, count = length / size;
	unsigned char *longer = malloc((size_t)count * (size + more));

	memset(longer, 0xee, (size_t)count * (size + more));
	for (uint32_t i = 0; i < count; i++)
		memcpy(longer + (size_t)i * (size + more), payload + (size_t)i * size, size);
	put_chunk(paper, type, longer, count * (size + more));
	free(longer);
}

static void put_header(struct paper *paper, const unsigned char *payload, uint32_t length,
		       uint32_t more)
{
	unsigned char *longer = malloc(length + more);
	struct header_payload header;

	memcpy(&header, payload, sizeof(header));
	header.minor = SCOPE_FILE_MINOR + 5;
	header.fixed_length += more;
	for (int type = 0; type < CHUNK_TYPES; type++)
		header.record_size[type] = (uint16_t)(scope_file_record_sizes[type].here + more);
	memset(longer, 0xdd, length + more);
	memcpy(longer, &header, sizeof(header));
	memcpy(longer + sizeof(header) + more, payload + sizeof(header), length - sizeof(header));
	put_chunk(paper, CHUNK_HEADER, longer, length + more);
	free(longer);
}

/* New members of the footer stand before its tail. */
static void put_footer(struct paper *paper, const unsigned char *payload, uint32_t more)
{
	unsigned char longer[sizeof(struct footer_payload) + 64];
	const size_t tail = offsetof(struct footer_payload, chunk_length);
	uint32_t length = (uint32_t)sizeof(struct footer_payload) + more, chunk = length + 16;
	uint64_t index = 0;

	memset(longer, 0xcc, sizeof(longer));
	memcpy(longer, payload, tail);
	/* Where the index lay in the file that this one was made from means nothing. */
	memcpy(longer + offsetof(struct footer_payload, index_offset), &index, sizeof(index));
	memcpy(longer + length - 8, &chunk, sizeof(chunk));
	memcpy(longer + length - 4, payload + tail + 4, 4);
	put_chunk(paper, CHUNK_FOOTER, longer, length);
}

static void write_future(uint32_t more)
{
	struct paper paper = {0};
	struct chunk_header header;
	size_t length;
	unsigned char *bytes = file_read(maker.path, &length);

	for (size_t at = 0; at < length; at += sizeof(header) + chunk_padded(header.length)) {
		const unsigned char *payload = bytes + at + sizeof(header);

		memcpy(&header, bytes + at, sizeof(header));
		if (header.type == CHUNK_HEADER)
			put_header(&paper, payload, header.length, more);
		else if (header.type == CHUNK_FOOTER)
			put_footer(&paper, payload, more);
		else if (header.type == CHUNK_STRING)
			put_chunk(&paper, CHUNK_STRING, payload, header.length);
		else if (header.type != CHUNK_INDEX)
			put_longer(&paper, header.type, payload, header.length, more);
		if (header.type != CHUNK_FOOTER)
			put_unknown(&paper, (uint32_t)(CHUNK_TYPES + at % 1000));
	}
	file_write(maker.path, paper.bytes, paper.length);
	free(paper.bytes);
	free(bytes);
}

static void expect_capture(void)
{
	struct timeline *timeline = timeline_open(maker.path);

	cr_assert(timeline, "%s", said(&maker));
	cr_assert(!timeline->truncated);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_str_eq(timeline->command, "scopetrace record -f x");
	cr_assert_eq(timeline->end_ns, 3000);
	cr_assert_eq(timeline->lane_count, 1);
	cr_assert_eq(timeline->loss_count, 1);
	cr_assert_str_eq(lane_text(timeline, &timeline->lanes[0]), expected);
	timeline_close(timeline);
	cr_assert_str_empty(said(&maker));
}

Test(capture_versions, future_minor)
{
	for (uint32_t more = 0; more <= 24; more += 4) {
		make_capture();
		write_future(more);
		expect_capture();
		maker.writer = scope_file_writer_create(
			maker.path, 4, (char *[]){"scopetrace", "record", "-f", "x"});
		maker.output = scope_file_writer_output(maker.writer);
		memset(maker.hooked, 0, sizeof(maker.hooked));
		maker.functions = 0;
	}
}

/*
 * The same file without the higher number is damaged: what is unknown in our own version cannot be
 * right.
 */
Test(capture_versions, unknown_in_our_own)
{
	size_t length;
	unsigned char *bytes;
	uint16_t minor = SCOPE_FILE_MINOR;

	make_capture();
	write_future(0);
	bytes = file_read(maker.path, &length);
	memcpy(bytes + 16 + offsetof(struct header_payload, minor), &minor, sizeof(minor));
	chunk_sign(bytes, 0);
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	cr_assert(strstr(said(&maker), "unknown type"));
	free(bytes);
}

static int open_changed(size_t chunk, size_t at, uint16_t value)
{
	size_t length;
	unsigned char *bytes = file_read(maker.path, &length), *copy = malloc(length);
	struct timeline *timeline;

	memcpy(copy, bytes, length);
	memcpy(copy + chunk + at, &value, sizeof(value));
	chunk_sign(copy, chunk);
	file_write(maker.path, copy, length);
	errno = 0;
	timeline = timeline_open(maker.path);
	timeline_close(timeline);
	file_write(maker.path, bytes, length);
	free(bytes);
	free(copy);
	return timeline ? 0 : errno;
}

#define HEADER(member) (16 + offsetof(struct header_payload, member))

Test(capture_versions, sizes_that_cannot_be)
{
	make_capture();
	for (int type = 0; type < CHUNK_TYPES; type++) {
		size_t at = HEADER(record_size) + 2 * (size_t)type;
		uint16_t first = scope_file_record_sizes[type].first;

		if (!first)
			continue;
		cr_assert_eq(open_changed(0, at, 0), EBADMSG, "type %d", type);
		cr_assert_eq(open_changed(0, at, first - 1), EBADMSG);
		cr_assert_eq(open_changed(0, at, SCOPE_FILE_RECORD_MAX + 1), EBADMSG);
		cr_assert(strstr(said(&maker), "impossible size"));
	}
	cr_assert_eq(open_changed(0, HEADER(fixed_length), 55), EBADMSG);
	cr_assert_eq(open_changed(0, HEADER(fixed_length), 0xffff), EBADMSG);
	cr_assert_eq(open_changed(0, HEADER(fixed_length), sizeof(struct header_payload) + 1),
		     EBADMSG);
	cr_assert(strstr(said(&maker), "the header"));
	cr_assert_eq(open_changed(0, HEADER(major), SCOPE_FILE_MAJOR + 1), EINVAL);
	cr_assert(strstr(said(&maker), "this scopetrace reads version 1"));
}

/* A way of packing that we do not know: said as such, in whatever version. */
Test(capture_versions, unknown_flags)
{
	size_t length;
	unsigned char *bytes;

	make_capture();
	bytes = file_read(maker.path, &length);
	cr_assert_eq(open_changed(chunk_at(bytes, length, CHUNK_HOOKED, 0),
				  offsetof(struct chunk_header, flags), 0x8000),
		     EINVAL);
	cr_assert(strstr(said(&maker), "newer"));
	free(bytes);
}
