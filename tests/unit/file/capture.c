// SPDX-License-Identifier: GPL-2.0-or-later
/* The file: what is written comes back, and nothing that is in a file can do harm. */
#include "support/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/io.h"
#include "timeline/trace_index.h"

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

TestSuite(capture, .init = begin, .fini = end);

/* A capture with something of everything. */
static void make_all_kinds(void)
{
	struct loss_event loss = {10, 20, 3, PID, LOSS_KERNEL_RING, 1, 0};
	struct segment_accounting segment = {.cursor = 10,
					     .delivered = 7,
					     .events = 3,
					     .continuations = 4,
					     .lost = 1,
					     .written_off = 1,
					     .holes = 1,
					     .pid = PID};
	uint32_t function;

	make_process(&maker, PID, "program", CLOCK_ID_TSC);
	function = make_function(&maker, "_ZN3geo4areaEii", "program");
	make_thread(&maker, THREAD_SEEN, PID, TID, 5, 6, "worker");
	make_anchor(&maker, CLOCK_ID_TSC, 3000, 1000);
	make_start(&maker, PID, TID, 3300, 1, "m");
	make_stop(&maker, PID, TID, 3600, 1);
	make_event(&maker, PID, TID, MANUAL_INSTANT, 3900, 0, 0, "i");
	make_anchor(&maker, CLOCK_ID_TSC, 6000, 2000);
	make_call(&maker, PID, TID, function, 1050, 1500, 0);
	make_call(&maker, PID, TID, function, 1600, 0, SCOPE_FLAG_UNFINISHED);
	cr_assert(!maker.output->loss(maker.output, &loss));
	loss.first_ns = 5;
	loss.place = LOSS_HANDOFF;
	cr_assert(!maker.output->loss(maker.output, &loss));
	cr_assert(!scope_file_writer_segment_accounting(maker.writer, &segment));
}

Test(capture, everything_comes_back)
{
	struct timeline *timeline;
	const struct lane *lane;

	make_all_kinds();
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 0).completed, 1);
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 1).completed, 0);
	timeline = make_open(&maker, 3000);
	cr_assert(!timeline->truncated);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_str_eq(timeline->command, "scopetrace record -f x");
	cr_assert(timeline->host[0] && timeline->kernel[0]);
	cr_assert_eq(timeline->end_ns, 3000);
	cr_assert_gt(timeline->realtime_offset_ns, 1000000000ull * 86400 * 365);
	cr_assert_geq(timeline->boottime_offset_ns, -1000000);

	cr_assert_eq(timeline->process_count, 1);
	cr_assert_eq(timeline->processes[0].pid, PID);
	cr_assert_str_eq(timeline->names[timeline->processes[0].name], "program");
	cr_assert_str_eq(timeline->names[timeline->processes[0].command], "a command line");
	cr_assert_eq(timeline->function_count, 1);
	cr_assert_str_eq(timeline->names[timeline->functions[0].info.name], "geo::area(int, int)");
	cr_assert_eq(timeline->functions[0].info.address, 0x1000);
	cr_assert_eq(timeline->functions[0].in_file.completed, 1);
	cr_assert_eq(timeline->functions[0].accounting.entries, 1);
	cr_assert_eq(timeline->loss_count, 2);
	cr_assert_eq(timeline->losses[0].first_ns, 5);
	cr_assert_eq(timeline->losses[0].place, LOSS_HANDOFF);
	cr_assert_eq(timeline->losses[1].count, 3);
	cr_assert_eq(timeline->accounting.segment_delivered, 7);
	cr_assert_eq(timeline->accounting.in_file, 1);

	lane = lane_of(timeline, PID, TID, 0);
	cr_assert_str_eq(timeline->names[lane->name], "worker");
	cr_assert_eq(lane->start_ns, 5);
	cr_assert_str_eq(lane_text(timeline, lane), "geo::area(int, int) 1050-1500\n"
						    " m 1100-1200\n"
						    "geo::area(int, int) 1600-3000 unfinished\n");
	cr_assert_eq(lane->mark_count, 1);
	cr_assert_eq(lane->marks[0].time_ns, 1300);
	timeline_close(timeline);
	cr_assert_str_empty(said(&maker));
}

/* More than one chunk of each kind, in calls of every size around the size of a chunk. */
Test(capture, many_records_in_any_batches)
{
	static struct hooked_scope scopes[5000];
	static const size_t batches[] = {1, 2, 1637, 1638, 1639, 3276, 5000, 0};
	struct timeline *timeline;
	uint64_t written = 0;

	make_function(&maker, "f", "program");
	for (size_t i = 0; batches[i]; i++) {
		for (size_t j = 0; j < batches[i]; j++, written++)
			scopes[j] = (struct hooked_scope){.start_ns = written * 10,
							  .end_ns = written * 10 + 5,
							  .pid = PID,
							  .tid = TID};
		cr_assert(!maker.output->hooked(maker.output, scopes, batches[i]));
		make_name(&maker, i & 1 ? "odd" : "even");
	}
	maker.hooked[0].completed = written;
	cr_assert_eq(scope_file_writer_in_file(maker.writer, 0).completed, written);
	timeline = make_open(&maker, 1);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_eq(timeline->lanes[0].scope_count, written);
	for (uint64_t i = 0; i < written; i++)
		cr_assert_eq(timeline->lanes[0].scopes[i].start_ns, i * 10);
	cr_assert_eq(timeline->end_ns, (written - 1) * 10 + 5);
	timeline_close(timeline);
}

Test(capture, names_are_interned_and_cut)
{
	char *longest = malloc(200000);
	struct timeline *timeline;
	uint32_t a, b, id;

	memset(longest, 'x', 200000);
	cr_assert(!maker.output->string(maker.output, "", 0, &id));
	cr_assert_eq(id, 0);
	a = make_name(&maker, "a");
	b = make_name(&maker, "b");
	cr_assert_neq(a, b);
	cr_assert_eq(make_name(&maker, "a"), a);
	for (int i = 0; i < 4; i++) {
		longest[0] = (char)('0' + i);
		cr_assert(!maker.output->string(maker.output, longest, 200000, &id));
	}
	cr_assert(!maker.output->string(maker.output, longest, SCOPE_FILE_STRING_MAX, &a));
	cr_assert_eq(id, a);
	timeline = make_open(&maker, 1);
	cr_assert_eq(strlen(timeline->names[id]), SCOPE_FILE_STRING_MAX);
	cr_assert_eq(timeline->names[id][0], '3');
	cr_assert_str_eq(timeline->names[b], "b");
	timeline_close(timeline);
	free(longest);
}

/*
 * Cut at every byte, the file opens up to its last whole chunk, or is refused as too short to be a
 * capture.
 */
Test(capture, cut_at_every_byte)
{
	size_t length, header, footer, opened = 0;
	unsigned char *bytes;
	struct timeline *timeline;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	header = chunk_at(bytes, length, CHUNK_STRING, 0);
	footer = chunk_at(bytes, length, CHUNK_FOOTER, 0);
	cr_assert_lt(footer, length);
	for (size_t cut = 0; cut < length; cut++) {
		file_write(maker.path, bytes, cut);
		timeline = timeline_open(maker.path);
		cr_assert_eq(!!timeline, cut >= header, "cut at %zu", cut);
		if (!timeline) {
			cr_assert_eq(errno, EINVAL);
			cr_assert(strstr(said(&maker), cut ? "ends inside its header" : "empty"));
			continue;
		}
		cr_assert(timeline->truncated);
		cr_assert_leq(timeline->truncated_at, cut);
		cr_assert_gt(timeline->truncated_at + sizeof(struct chunk_header) + 4096, cut);
		cr_assert(!timeline->accounting.balanced);
		cr_assert(strstr(timeline->accounting.imbalance, "cut short"));
		make_lanes(timeline);
		for (size_t i = 0; i < timeline->lane_count; i++)
			check_lane(&timeline->lanes[i]);
		opened++;
		if (cut == footer) {
			cr_assert_eq(timeline->truncated_at, footer);
			cr_assert_eq(timeline->lanes[0].scope_count, 3,
				     "all but the footer is there");
		}
		timeline_close(timeline);
	}
	cr_assert_eq(opened, length - header);
	free(bytes);
}

/* The end of the file is zeros, from any place on: the power failed before it was written. */
Test(capture, zeros_at_the_end)
{
	enum { MORE = 5000 };
	size_t length, header, changed, opened = 0;
	unsigned char *bytes;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	changed = length;
	header = chunk_at(bytes, length, CHUNK_STRING, 0);
	bytes = realloc(bytes, length + MORE);
	memset(bytes + length, 0, MORE);
	for (size_t from = length; from-- > header;) {
		struct timeline *timeline;

		if (bytes[from])
			changed = from;
		bytes[from] = 0;
		file_write(maker.path, bytes, length + MORE);
		timeline = timeline_open(maker.path);
		/* less than a sector of it is missing: nothing tells that from damage */
		if (!timeline) {
			cr_assert_eq(errno, EBADMSG);
			continue;
		}
		cr_assert(timeline->truncated);
		cr_assert_leq(timeline->truncated_at, changed);
		cr_assert_eq(timeline->truncated_at + timeline->truncated_rest, length + MORE);
		opened++;
		timeline_close(timeline);
	}
	cr_assert_gt(opened, 100);
	bytes[length + MORE - 1] = 1;
	file_write(maker.path, bytes, length + MORE);
	cr_assert(!timeline_open(maker.path));
	free(bytes);
}

/* Whatever bit is flipped, it does not go unseen. */
Test(capture, every_bit_counts)
{
	size_t length, damaged = 0, cut = 0;
	unsigned char *bytes;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	for (size_t bit = 0; bit < length * 8; bit++) {
		struct timeline *timeline;

		bytes[bit / 8] ^= 1 << bit % 8;
		file_write(maker.path, bytes, length);
		timeline = timeline_open(maker.path);
		bytes[bit / 8] ^= 1 << bit % 8;
		if (timeline) {
			/* Only the last chunk's length can look like a file cut short. */
			cr_assert(timeline->truncated, "bit %zu went unseen", bit);
			cr_assert_eq(timeline->truncated_at,
				     chunk_at(bytes, length, CHUNK_FOOTER, 0));
			cr_assert(!timeline->accounting.balanced);
			timeline_close(timeline);
			cut++;
		} else {
			cr_assert(errno == EBADMSG || errno == EINVAL);
			damaged += errno == EBADMSG;
		}
		if (!(bit & 255))
			cr_assert(timeline || strlen(said(&maker)) > 40);
	}
	cr_assert_leq(cut, 20);
	cr_assert_geq(damaged, length * 8 - 20 - 160);
	free(bytes);
}

Test(capture, damage_is_told_with_its_place)
{
	size_t length, at;
	unsigned char *bytes;
	const char *text;
	char place[64];

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	at = chunk_at(bytes, length, CHUNK_HOOKED, 0);
	snprintf(place, sizeof(place), "damaged at byte %zu", at);
	bytes[at + 20] ^= 4;
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	cr_assert(strstr(said(&maker), place));
	bytes[at + 20] ^= 4;
	/* which the index is looked for by */
	bytes[chunk_at(bytes, length, CHUNK_FOOTER, 0) + 20] ^= 4;
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	text = said(&maker);
	cr_assert(strstr(text, "damaged") && !strstr(strstr(text, "damaged") + 1, "damaged"),
		  "once: %s", text);
	free(bytes);
}

/* ---- forged: the checksum is right, what it covers is not ---- */

struct forgery {
	uint32_t chunk;
	size_t at; /* within the payload */
	uint32_t value;
	size_t size;
	const char *says;
};

#define FIELD(type, member) offsetof(struct type, member)

static const struct forgery forgeries[] = {
	{CHUNK_STRING, FIELD(string_batch, first_id), 2, 4, "strings out of order"},
	{CHUNK_STRING, FIELD(string_batch, count), 1000, 4, "more strings"},
	{CHUNK_STRING, FIELD(string_batch, count), 0xffffffff, 4, "more strings"},
	{CHUNK_STRING, FIELD(string_batch, count), 1, 4, "behind the last string"},
	{CHUNK_STRING, sizeof(struct string_batch), 0xffffffff, 4, "longer than its chunk"},
	{CHUNK_STRING, sizeof(struct string_batch), 60000, 4, "longer than its chunk"},
	{CHUNK_STRING, sizeof(struct string_batch), 0, 4, "an empty string"},
	{CHUNK_PROCESS, FIELD(process_info, name), 5000, 4, "a process with a name"},
	{CHUNK_PROCESS, FIELD(process_info, command), 0xffffffff, 4, "a process with a name"},
	{CHUNK_PROCESS, FIELD(process_info, clock), 9, 4, "unknown clock"},
	{CHUNK_THREAD, FIELD(thread_info, name), 5000, 4, "a thread with a name"},
	{CHUNK_THREAD, FIELD(thread_info, change), 0, 4, "kind of change"},
	{CHUNK_THREAD, FIELD(thread_info, change), 77, 4, "kind of change"},
	{CHUNK_THREAD, FIELD(thread_info, start_ns) + 4, 0xffffffff, 4, "impossible time"},
	{CHUNK_FUNCTION, FIELD(function_info, id), 1, 4, "functions out of order"},
	{CHUNK_FUNCTION, FIELD(function_info, name), 5000, 4, "a function with a name"},
	{CHUNK_FUNCTION, FIELD(function_info, module), 5000, 4, "a function with a name"},
	{CHUNK_ANCHOR, FIELD(clock_anchor, clock), 0, 4, "unknown clock"},
	{CHUNK_ANCHOR, FIELD(clock_anchor, clock), 4, 4, "unknown clock"},
	{CHUNK_ANCHOR, FIELD(clock_anchor, ns) + 4, 0x80000000, 4, "impossible time"},
	{CHUNK_HOOKED, FIELD(hooked_scope, function), 1, 4, "a scope of a function"},
	{CHUNK_HOOKED, FIELD(hooked_scope, start_ns) + 4, 0xffffffff, 4, "impossible time"},
	{CHUNK_HOOKED, FIELD(hooked_scope, end_ns), 0, 4, "ends before it starts"},
	{CHUNK_MANUAL, FIELD(manual_event, kind), 0, 1, "kind of manual event"},
	{CHUNK_MANUAL, FIELD(manual_event, kind), 3, 1, "kind of manual event"},
	{CHUNK_MANUAL, FIELD(manual_event, kind), 15, 1, "kind of manual event"},
	{CHUNK_MANUAL, FIELD(manual_event, name), 5000, 4, "a manual event with a name"},
	{CHUNK_LOSS, FIELD(loss_event, place), 0, 2, "unknown place"},
	{CHUNK_LOSS, FIELD(loss_event, place), 5, 2, "unknown place"},
	{CHUNK_FUNCTION_ACCOUNTING, FIELD(function_account, function), 1, 4,
	 "accounting of a function"},
	{CHUNK_FOOTER, FIELD(footer_payload, end_ns) + 4, 0xffffffff, 4, "impossible time"},
	{CHUNK_FOOTER, FIELD(footer_payload, records) + 8 * CHUNK_HOOKED, 3, 4,
	 "the footer counts other"},
	{CHUNK_HEADER, FIELD(header_payload, host_length), 0xffffffff, 4, "texts of the header"},
	{CHUNK_HEADER, FIELD(header_payload, command_length), 1, 4, "texts of the header"},
	{CHUNK_HEADER, FIELD(header_payload, monotonic_ns) + 4, 0xffffffff, 4, "impossible time"},
};

Test(capture, forged_fields)
{
	size_t length, at;
	unsigned char *bytes;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
		const struct forgery *forgery = &forgeries[i];
		unsigned char *copy = malloc(length);
		const char *words;

		memcpy(copy, bytes, length);
		at = chunk_at(bytes, length, forgery->chunk, 0);
		memcpy(copy + at + sizeof(struct chunk_header) + forgery->at, &forgery->value,
		       forgery->size);
		chunk_sign(copy, at);
		file_write(maker.path, copy, length);
		cr_assert(!timeline_open(maker.path), "forgery %zu (%s) was believed", i,
			  forgery->says);
		cr_assert_eq(errno, EBADMSG);
		words = said(&maker);
		cr_assert(strstr(words, forgery->says), "forgery %zu: %s", i, words);
		free(copy);
	}
	free(bytes);
}

/* Opens the file with one chunk replaced by a forged one. The errno, or 0. */
static int open_with(const unsigned char *bytes, size_t length, uint32_t replaced, uint32_t type,
		     uint32_t claimed, size_t really)
{
	size_t at = chunk_at(bytes, length, replaced, 0), next;
	size_t room = chunk_padded((uint32_t)really);
	struct chunk_header header = {
		.magic = SCOPE_FILE_CHUNK_MAGIC, .type = (uint16_t)type, .length = claimed};
	unsigned char *copy = calloc(1, length + sizeof(header) + room);
	struct timeline *timeline;

	memcpy(&header.length, bytes + at + offsetof(struct chunk_header, length), 4);
	next = at + sizeof(header) + chunk_padded(header.length);
	header.length = claimed;
	memcpy(copy, bytes, at);
	memcpy(copy + at, &header, sizeof(header));
	if (claimed == really)
		chunk_sign(copy, at);
	memcpy(copy + at + sizeof(header) + room, bytes + next, length - next);
	file_write(maker.path, copy, at + sizeof(header) + room + length - next);
	free(copy);
	errno = 0;
	timeline = timeline_open(maker.path);
	timeline_close(timeline);
	return timeline ? 0 : errno;
}

Test(capture, forged_chunks)
{
	size_t length;
	unsigned char *bytes;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	for (uint32_t type = 0; type < 20; type++) {
		for (uint32_t really = 0; really < 200; really += 1 + really / 16)
			cr_assert_eq(open_with(bytes, length, CHUNK_LOSS, type, really, really),
				     EBADMSG, "type %u, %u bytes", type, really);
	}
	cr_assert_eq(open_with(bytes, length, CHUNK_LOSS, CHUNK_LOSS, SCOPE_FILE_CHUNK_MAX + 1, 64),
		     EBADMSG);
	cr_assert_eq(open_with(bytes, length, CHUNK_LOSS, CHUNK_LOSS, 0xffffffff, 64), EBADMSG);
	cr_assert_eq(open_with(bytes, length, CHUNK_LOSS, CHUNK_LOSS, 0xfffffff9, 64), EBADMSG);
	/*
	 * A length that reaches beyond the end, though whole chunks follow: not a file cut short.
	 */
	cr_assert_eq(open_with(bytes, length, CHUNK_LOSS, CHUNK_LOSS, SCOPE_FILE_CHUNK_MAX, 64),
		     EBADMSG);
	free(bytes);
}

/* Anything at all under right checksums: refused, or a timeline that is well formed. */
Test(capture, forged_at_random)
{
	unsigned short seed[3] = {10, 11, 12};
	size_t length, refused = 0, opened = 0;
	unsigned char *bytes, *copy;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	copy = malloc(length);
	for (int round = 0; round < 6000; round++) {
		uint32_t type =
			CHUNK_STRING + (uint32_t)(nrand48(seed) % (CHUNK_FOOTER - CHUNK_STRING));
		size_t at = chunk_at(bytes, length, type, 0);
		struct timeline *timeline;
		uint32_t size;

		memcpy(copy, bytes, length);
		memcpy(&size, bytes + at + offsetof(struct chunk_header, length), sizeof(size));
		for (long n = 1 + nrand48(seed) % 4; n; n--)
			copy[at + 16 + (size_t)nrand48(seed) % size] = (unsigned char)nrand48(seed);
		chunk_sign(copy, at);
		file_write(maker.path, copy, length);
		timeline = timeline_open(maker.path);
		cr_assert(timeline || errno == EBADMSG);
		refused += !timeline;
		opened += !!timeline;
		if (timeline)
			make_lanes(timeline);
		if (timeline)
			make_lanes(timeline);
		for (size_t i = 0; timeline && i < timeline->lane_count; i++)
			check_lane(&timeline->lanes[i]);
		timeline_close(timeline);
	}
	cr_assert(refused > 500 && opened > 500, "%zu refused, %zu opened", refused, opened);
	free(bytes);
	free(copy);
}

/* A chunk that is missing altogether leaves every checksum right: the footer's counts tell. */
Test(capture, a_missing_chunk)
{
	size_t length, at;
	unsigned char *bytes;
	struct chunk_header header;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	bytes = file_read(maker.path, &length);
	at = chunk_at(bytes, length, CHUNK_MANUAL, 0);
	memcpy(&header, bytes + at, sizeof(header));
	length -= sizeof(header) + chunk_padded(header.length);
	memmove(bytes + at, bytes + at + sizeof(header) + chunk_padded(header.length), length - at);
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	cr_assert(strstr(said(&maker), "missing"));
	free(bytes);
}

Test(capture, more_behind_the_footer)
{
	size_t length;
	unsigned char *bytes;

	make_end(&maker, 0, 1);
	bytes = file_read(maker.path, &length);
	bytes = realloc(bytes, length + 1);
	bytes[length] = 0;
	file_write(maker.path, bytes, length + 1);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EBADMSG);
	free(bytes);
}

/* ---- other versions ---- */

static const char *open_version(uint16_t major, uint16_t minor, uint32_t extra_type)
{
	size_t length, at;
	unsigned char *bytes;
	struct timeline *timeline;

	bytes = file_read(maker.path, &length);
	memcpy(bytes + 16 + offsetof(struct header_payload, major), &major, 2);
	memcpy(bytes + 16 + offsetof(struct header_payload, minor), &minor, 2);
	chunk_sign(bytes, 0);
	if (extra_type) {
		at = chunk_at(bytes, length, CHUNK_LOSS, 0);
		memcpy(bytes + at + offsetof(struct chunk_header, type), &extra_type, 4);
		chunk_sign(bytes, at);
		at = chunk_at(bytes, length, CHUNK_FOOTER, 0);
		memset(bytes + at + 16 + offsetof(struct footer_payload, records) + 8 * CHUNK_LOSS,
		       0, 8);
		chunk_sign(bytes, at);
	}
	file_write(maker.path, bytes, length);
	free(bytes);
	timeline = timeline_open(maker.path);
	if (timeline) {
		timeline_close(timeline);
		return NULL;
	}
	return said(&maker);
}

Test(capture, other_versions)
{
	const char *words;

	make_all_kinds();
	make_end(&maker, 0, 3000);
	words = open_version(7, 3, 0);
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(words, "version 7.3") && strstr(words, "reads version 1"), "%s", words);
	cr_assert_null(open_version(SCOPE_FILE_MAJOR, SCOPE_FILE_MINOR + 1, 0));
	cr_assert_null(open_version(SCOPE_FILE_MAJOR, SCOPE_FILE_MINOR + 1, 77),
		       "a newer minor may have new chunks");
	cr_assert(strstr(open_version(SCOPE_FILE_MAJOR, SCOPE_FILE_MINOR, 0), "unknown type"));
}

Test(capture, other_byte_order)
{
	size_t length;
	unsigned char *bytes;

	make_end(&maker, 0, 1);
	bytes = file_read(maker.path, &length);
	for (size_t at = 0; at < 4; at += 2) {
		unsigned char byte = bytes[at / 2];

		bytes[at / 2] = bytes[3 - at / 2];
		bytes[3 - at / 2] = byte;
	}
	file_write(maker.path, bytes, length);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(said(&maker), "other byte order"));
	free(bytes);
}

Test(capture, not_a_capture)
{
	cr_assert(!timeline_open(maker.directory));
	cr_assert_eq(errno, EISDIR);
	cr_assert(strstr(said(&maker), "is a directory"));
	cr_assert(!timeline_open("/nowhere/at.all"));
	cr_assert_eq(errno, ENOENT);
	cr_assert(strstr(said(&maker), "scopetrace record makes one"));
	cr_assert(!timeline_open("/dev/null"));
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(said(&maker), "empty"));
	cr_assert(!timeline_open("/proc/self/exe"));
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(said(&maker), "is not one"));
	file_write(maker.path, "hello", 5);
	cr_assert(!timeline_open(maker.path));
	cr_assert_eq(errno, EINVAL);
}

/* ---- where it is written ---- */

/*
 * A device like /dev/NAME that is this test's own: a writer that renamed it, run as root, would
 * take the machine's away from everybody. Others than root cannot rename that one.
 */
static const char *device(const char *name, unsigned minor)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", maker.directory, name);
	if (!mknod(path, S_IFCHR | 0600, makedev(1, minor)) && !access(path, W_OK)) {
		int fd = open(path, O_WRONLY);

		if (fd >= 0) {
			close(fd);
			return path;
		}
	}
	if (!geteuid())
		cr_skip_test("root, but not allowed to make a device");
	snprintf(path, sizeof(path), "/dev/%s", name);
	return path;
}

Test(capture, an_older_one_is_kept)
{
	char old[128];
	struct stat status;
	uint64_t first;

	first = scope_file_writer_bytes(maker.writer);
	cr_assert_gt(first, 0);
	snprintf(old, sizeof(old), "%s.old", maker.path);
	cr_assert(stat(old, &status));
	maker.writer = (scope_file_writer_finish(maker.writer, 0, 0, 0),
			scope_file_writer_create(maker.path, 0, NULL));
	cr_assert(maker.writer);
	cr_assert(!stat(old, &status));
	cr_assert_gt((uint64_t)status.st_size, first);
}

/* Bytes of DIRECTORY/NAME; -1: it is not there. */
static long size_of(const char *name)
{
	char path[160];
	struct stat status;

	snprintf(path, sizeof(path), "%s/%s", maker.directory, name);
	return stat(path, &status) ? -1 : (long)status.st_size;
}

/*
 * The same drain command started again and again, once when a file that nobody counts has the next
 * name.
 */
Test(capture, all_older_ones_are_kept)
{
	static const struct scope_file_writer_options numbered = {.numbered = true};
	char path[128], taken[128];

	snprintf(path, sizeof(path), "%s/day.scope", maker.directory);
	snprintf(taken, sizeof(taken), "%s/day.scope.3", maker.directory);
	file_write(path, "first", 5);
	file_write(taken, "another", 7);
	for (int i = 0; i < 4; i++) {
		struct scope_file_writer *writer =
			scope_file_writer_create_with(path, &numbered, 0, NULL);

		cr_assert(writer, "%s", said(&maker));
		cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
		cr_assert(i == 3 || strstr(said(&maker), i == 2 ? "day.scope.4" : "is"));
	}
	cr_assert_eq(size_of("day.scope.1"), 5);
	cr_assert_gt(size_of("day.scope.2"), 7);
	cr_assert_eq(size_of("day.scope.3"), 7);
	cr_assert_gt(size_of("day.scope.4"), 7);
	cr_assert_gt(size_of("day.scope.5"), 7);
	cr_assert_gt(size_of("day.scope"), 7);
	cr_assert_eq(size_of("day.scope.6"), -1);
	cr_assert_eq(size_of("day.scope.old"), -1);
	/* Of one that was killed before it had written anything there is nothing to keep. */
	file_write(path, "", 0);
	cr_assert(!scope_file_writer_finish(scope_file_writer_create_with(path, &numbered, 0, NULL),
					    0, 1, 0));
	cr_assert_eq(size_of("day.scope.6"), -1);
}

static void create_and_finish(const char *path)
{
	struct scope_file_writer *writer = scope_file_writer_create(path, 0, NULL);

	cr_assert(writer, "%s", said(&maker));
	cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
}

Test(capture, a_device_is_not_renamed)
{
	struct stat status;
	const char *null = device("null", 3);
	char old[136];

	snprintf(old, sizeof(old), "%s.old", null);
	create_and_finish(null);
	cr_assert(!stat(null, &status) && S_ISCHR(status.st_mode));
	cr_assert(stat(old, &status));
}

Test(capture, a_link_is_written_through)
{
	struct stat status;
	char link[128], target[128], old[136];

	snprintf(link, sizeof(link), "%s/link", maker.directory);
	snprintf(old, sizeof(old), "%s.old", link);
	snprintf(target, sizeof(target), "%s/target", maker.directory);
	file_write(target, "old", 3);
	cr_assert(!symlink(target, link));
	create_and_finish(link);
	cr_assert(!lstat(link, &status) && S_ISLNK(status.st_mode));
	cr_assert(stat(old, &status));
	timeline_close(timeline_open(target));
	cr_assert_str_empty(said(&maker));
}

static void *read_fifo(void *path)
{
	return timeline_open(path);
}

/* From a pipe as into a pipe. */
Test(capture, fifo)
{
	char path[128], old[136];
	struct stat status;
	void *timeline;
	pthread_t reader;

	snprintf(path, sizeof(path), "%s/fifo", maker.directory);
	snprintf(old, sizeof(old), "%s.old", path);
	cr_assert(!mkfifo(path, 0600));
	cr_assert(!pthread_create(&reader, NULL, read_fifo, path));
	create_and_finish(path);
	cr_assert(!pthread_join(reader, &timeline));
	cr_assert(timeline);
	cr_assert(((struct timeline *)timeline)->accounting.balanced);
	timeline_close(timeline);
	cr_assert(!lstat(path, &status) && S_ISFIFO(status.st_mode));
	cr_assert(stat(old, &status));
}

/* Nobody reads it: Ctrl-C ends the waiting, also where signals are blocked. */
Test(capture, fifo_without_a_reader, .timeout = 20)
{
	char path[128];
	sigset_t blocked;

	snprintf(path, sizeof(path), "%s/fifo", maker.directory);
	cr_assert(!mkfifo(path, 0600));
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	raise(SIGINT);
	cr_assert(!scope_file_writer_create(path, 0, NULL));
	cr_assert_eq(errno, EINTR);
	cr_assert(strstr(said(&maker), "nobody has read"));
}

Test(capture, standard_output)
{
	char path[128];
	struct timeline *timeline;
	int out = dup(STDOUT_FILENO), file;

	snprintf(path, sizeof(path), "%s/out", maker.directory);
	file = open(path, O_CREAT | O_WRONLY, 0600);
	cr_assert(file >= 0 && out >= 0);
	cr_assert_eq(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
	create_and_finish("-");
	cr_assert_eq(fcntl(STDOUT_FILENO, F_GETFD), 0, "stdout stays open");
	cr_assert_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	timeline = timeline_open(path);
	cr_assert(timeline);
	timeline_close(timeline);
	close(file);
	close(out);
}

/* What stood in a file before is not cut off with a chunk that finds no room behind it. */
Test(capture, appended_without_room)
{
	const struct rlimit limit = {200000, RLIM_INFINITY};
	int out = dup(STDOUT_FILENO), file;
	struct scope_file_writer *writer;
	struct event_output *output;
	struct stat status;
	char path[128], name[4096];
	uint32_t id;
	int err = 0;

	snprintf(path, sizeof(path), "%s/out", maker.directory);
	memset(name, 'n', sizeof(name));
	file = open(path, O_CREAT | O_WRONLY | O_APPEND, 0600);
	cr_assert(file >= 0 && out >= 0 && !ftruncate(file, 150000));
	cr_assert_eq(dup2(file, STDOUT_FILENO), STDOUT_FILENO);
	writer = scope_file_writer_create("-", 0, NULL);
	cr_assert_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
	cr_assert(writer);
	output = scope_file_writer_output(writer);
	signal(SIGXFSZ, SIG_IGN);
	cr_assert(!setrlimit(RLIMIT_FSIZE, &limit));
	for (int i = 0; i < 100 && !err; i++) {
		memcpy(name, &i, sizeof(i));
		err = output->string(output, name, sizeof(name), &id);
		if (!err)
			err = scope_file_writer_flush(writer);
	}
	cr_assert_eq(err, -EFBIG);
	scope_file_writer_finish(writer, 0, 0, 0);
	cr_assert(!fstat(file, &status));
	cr_assert_geq(status.st_size, 150000);
	close(file);
	close(out);
}

/*
 * What its reader has not taken yet: nothing of it is lost, and a write never waits without a word.
 */
static int reader_of_socket;
static size_t stalls, read_of_socket;

static void read_socket(void *context)
{
	static char bytes[1 << 16];
	ssize_t got;

	(void)context;
	stalls++;
	while ((got = recv(reader_of_socket, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		read_of_socket += (size_t)got;
}

Test(capture, socket_that_is_read_slowly, .timeout = 30)
{
	struct scope_file_writer *writer;
	struct event_output *output;
	char name[4096] = {0};
	size_t written;
	int ends[2];
	uint32_t id;

	cr_assert(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	reader_of_socket = ends[1];
	cr_assert_eq(dup2(ends[0], STDOUT_FILENO), STDOUT_FILENO);
	close(ends[0]);
	writer = scope_file_writer_create("-", 0, NULL);
	cr_assert(writer);
	scope_file_writer_set_stalled(writer, read_socket, NULL);
	output = scope_file_writer_output(writer);
	for (int i = 0; i < 150; i++) {
		memcpy(name, &i, sizeof(i));
		cr_assert(!output->string(output, name, sizeof(name), &id));
	}
	cr_assert(!scope_file_writer_flush(writer));
	cr_assert_gt(stalls, 0);
	written = scope_file_writer_bytes(writer);
	read_socket(NULL);
	cr_assert_eq(read_of_socket, written);
	/* Nobody will read the rest. */
	close(reader_of_socket);
	cr_assert_eq(scope_file_writer_finish(writer, 0, 0, 0), -EPIPE);
	said(&maker);
}

Test(capture, cannot_be_created)
{
	char older[128], path[160];

	cr_assert(!scope_file_writer_create("/nowhere/c.scope", 0, NULL));
	cr_assert_eq(errno, ENOENT);
	cr_assert(strstr(said(&maker), "/nowhere/c.scope"));
	cr_assert(!scope_file_writer_create(maker.directory, 0, NULL));
	cr_assert_eq(errno, EISDIR);
	/* Its writer is still at work. */
	cr_assert(!scope_file_writer_create(maker.path, 0, NULL));
	cr_assert_eq(errno, EBUSY);
	cr_assert(strstr(said(&maker), "another capture"));
	/* The older one cannot be put away. */
	snprintf(older, sizeof(older), "%s/older", maker.directory);
	snprintf(path, sizeof(path), "%s.old", older);
	cr_assert(!mkdir(path, 0700));
	close(open(older, O_CREAT | O_WRONLY, 0600));
	cr_assert(!scope_file_writer_create(older, 0, NULL));
	cr_assert(strstr(said(&maker), ".old"));
	rmdir(path);
	unlink(older);
}

/* A full disk: said once, kept, and nothing more is written. */
Test(capture, full_disk)
{
	const char *full_device = device("full", 7);
	struct scope_file_writer *writer;
	struct event_output *output;
	uint32_t id;

	cr_assert(!scope_file_writer_create(full_device, 0, NULL));
	cr_assert_eq(errno, ENOSPC);
	cr_assert(strstr(said(&maker), "No space left"));

	writer = maker.writer;
	output = maker.output;
	/* From here on the file is the full device. */
	for (int fd = 3; fd < 64; fd++) {
		char link[64], target[128] = "";

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof(target) - 1) > 0 && !strcmp(target, maker.path)) {
			int full = open(full_device, O_WRONLY);

			cr_assert_eq(dup2(full, fd), fd);
			close(full);
		}
	}
	cr_assert(!output->string(output, "x", 1, &id));
	cr_assert_eq(scope_file_writer_flush(writer), -ENOSPC);
	cr_assert(strstr(said(&maker), "free some space"));
	cr_assert_eq(output->string(output, "y", 1, &id), -ENOSPC);
	cr_assert_eq(scope_file_writer_flush(writer), -ENOSPC);
	maker.writer = NULL;
	cr_assert_eq(scope_file_writer_finish(writer, 0, 0, 0), -ENOSPC);
	cr_assert_str_empty(said(&maker));
}

/*
 * What was written of a chunk that found no room is taken back: the file ends with its last whole
 * chunk.
 */
Test(capture, no_room_for_a_chunk)
{
	const struct rlimit limit = {100000, RLIM_INFINITY};
	struct timeline *timeline;
	struct stat status;
	uint64_t whole;
	int err = 0;

	cr_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	make_function(&maker, "f", "program");
	cr_assert(!setrlimit(RLIMIT_FSIZE, &limit));
	for (uint64_t i = 0; i < 10000 && !err; i++) {
		struct hooked_scope scope = {
			.start_ns = i * 10, .end_ns = i * 10 + 5, .pid = PID, .tid = TID};

		err = maker.output->hooked(maker.output, &scope, 1);
	}
	cr_assert_eq(err, -EFBIG);
	whole = scope_file_writer_bytes(maker.writer);
	cr_assert(whole > 60000 && whole <= 100000);
	cr_assert(!stat(maker.path, &status));
	cr_assert_eq((uint64_t)status.st_size, whole);
	cr_assert_eq(scope_file_writer_finish(maker.writer, 0, 1, 0), -EFBIG);
	maker.writer = NULL;
	cr_assert(strstr(said(&maker), "ulimit -f"));
	timeline = timeline_open(maker.path);
	cr_assert(timeline && timeline->truncated);
	cr_assert_eq(timeline->truncated_at, whole);
	cr_assert_eq(timeline->truncated_rest, 0);
	timeline_close(timeline);
}

Test(capture, functions_are_declared_in_order)
{
	struct function_info info = {.id = 1};
	struct hooked_scope scope = {.function = 0};

	cr_assert_eq(scope_file_writer_function(maker.writer, &info), -EINVAL);
	cr_assert_eq(maker.output->hooked(maker.output, &scope, 1), -EINVAL);
	info.id = 0;
	cr_assert(!scope_file_writer_function(maker.writer, &info));
	cr_assert(!maker.output->hooked(maker.output, &scope, 1));
	said(&maker);
}

/* ---- accounting ---- */

static struct timeline *open_with_terms(const struct function_accounting *terms)
{
	struct timeline *timeline;

	cr_assert(!scope_file_writer_function_accounting(maker.writer, 0, terms));
	cr_assert(!scope_file_writer_finish(maker.writer, 0, 100, 4));
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline);
	cr_assert_eq(timeline->accounting.recursion_misses, 4);
	return timeline;
}

static const struct function_accounting balanced_terms = {
	.entries = 20 + 1 + 2 + 3 + 4 + 5,
	.not_a_call = 1,
	.too_deep = 2,
	.filtered = 3,
	.map_full = 4,
	.chain_full = 5,
	.opened = 20,
	.completed = 12,
	.discarded = 4,
	.unwound = 1,
	.unfinished = 3,
	.returns = 12 + 6 + 7,
	.not_a_return = 6,
	.orphans = 7,
	.below_minimum = 2,
	.ring_lost = 3,
	.handoff_lost = 5, /* two are in the file */
	.duplicates = 99,
};

static void make_two_calls(void)
{
	make_function(&maker, "f", "program");
	make_call(&maker, PID, TID, 0, 10, 20, 0);
	make_call(&maker, PID, TID, 0, 30, 40, 0);
	make_call(&maker, PID, TID, 0, 50, 60, SCOPE_FLAG_UNWOUND);
	make_call(&maker, PID, TID, 0, 70, 80, SCOPE_FLAG_UNFINISHED);
}

Test(capture, balanced)
{
	struct timeline *timeline;

	make_two_calls();
	timeline = open_with_terms(&balanced_terms);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
	cr_assert_eq(timeline->accounting.in_file, 2);
	cr_assert_eq(timeline->accounting.sum.entries, balanced_terms.entries);
	timeline_close(timeline);
}

/* Every term but `duplicates` breaks an identity when it is off by one. */
Test(capture, every_term_matters)
{
	char name[3] = "f0";

	for (size_t i = 0; i < sizeof(balanced_terms) / 8; i++) {
		struct function_accounting terms = balanced_terms;
		bool matters = i != offsetof(struct function_accounting, duplicates) / 8;
		struct timeline *timeline;
		uint64_t value;

		memcpy(&value, (char *)&terms + i * 8, 8);
		value++;
		memcpy((char *)&terms + i * 8, &value, 8);
		if (!maker.writer)
			maker.writer = scope_file_writer_create(maker.path, 0, NULL);
		maker.output = scope_file_writer_output(maker.writer);
		maker.functions = 0;
		make_two_calls();
		timeline = open_with_terms(&terms);
		cr_assert_eq(timeline->accounting.balanced, !matters, "term %zu", i);
		cr_assert_eq(!!timeline->accounting.imbalance[0], matters);
		cr_assert(!matters || !strncmp(timeline->accounting.imbalance, name, 1));
		timeline_close(timeline);
	}
}

Test(capture, a_function_without_accounting)
{
	static const struct function_accounting nothing;
	struct timeline *timeline;

	make_function(&maker, "f", "program");
	make_function(&maker, "g", "program");
	cr_assert(!scope_file_writer_function_accounting(maker.writer, 0, &nothing));
	scope_file_writer_finish(maker.writer, 0, 1, 0);
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline && !timeline->accounting.balanced);
	cr_assert(strstr(timeline->accounting.imbalance, "g: the file has no accounting"));
	timeline_close(timeline);
}

/* A drainer's file, which is whole while the capture goes on: there is no accounting yet at all. */
Test(capture, an_account_that_comes_later)
{
	struct timeline *timeline;

	make_function(&maker, "f", "program");
	make_call(&maker, PID, TID, 0, 10, 20, 0);
	scope_file_writer_finish(maker.writer, 0, 100, 0);
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline && timeline->accounting.open);
	cr_assert_eq(timeline->accounting.in_file, 1);
	timeline_close(timeline);
}

/* The same of manual scopes alone: as a flight recorder writes it meanwhile. */
Test(capture, an_account_of_manual_scopes_that_comes_later)
{
	struct timeline *timeline;

	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	make_complete(&maker, PID, TID, 10, 20, 0, "scope");
	cr_assert(!scope_file_writer_finish(maker.writer, 0, 100, 0));
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline && timeline->accounting.open);
	cr_assert_eq(timeline->accounting.segment_delivered, 1);
	timeline_close(timeline);
}

/* One that has failed never reads as good: it is cut short, with all that came before. */
static void expect_abandoned(bool hooked)
{
	struct timeline *timeline;

	if (hooked)
		make_function(&maker, "f", "program");
	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	if (hooked)
		make_call(&maker, PID, TID, 0, 10, 20, 0);
	make_complete(&maker, PID, TID, 10, 20, 0, "scope");
	cr_assert(!scope_file_writer_abandon(maker.writer));
	maker.writer = NULL;
	timeline = timeline_open(maker.path);
	cr_assert(timeline && timeline->truncated);
	cr_assert(!timeline->accounting.open && !timeline->accounting.balanced);
	cr_assert_eq(timeline->truncated_rest, 0);
	cr_assert_eq(timeline->lane_count, 1);
	timeline_close(timeline);
}

Test(capture, abandoned)
{
	expect_abandoned(true);
}

Test(capture, abandoned_with_manual_scopes_alone)
{
	expect_abandoned(false);
}

Test(capture, a_segment_that_does_not_add_up)
{
	struct segment_accounting segment = {.cursor = 10, .delivered = 9, .pid = PID};
	struct timeline *timeline;

	cr_assert(!scope_file_writer_segment_accounting(maker.writer, &segment));
	timeline = make_open(&maker, 1);
	cr_assert(!timeline->accounting.balanced);
	cr_assert(strstr(timeline->accounting.imbalance, "cursor"));
	timeline_close(timeline);
}

/* What a source took and did not put into the file. */
Test(capture, a_manual_event_that_is_missing)
{
	struct segment_accounting segment = {.cursor = 3, .delivered = 3, .events = 3, .pid = PID};
	struct timeline *timeline;

	make_process(&maker, PID, "program", CLOCK_ID_MONOTONIC);
	make_start(&maker, PID, TID, 30, 1, "m");
	make_stop(&maker, PID, TID, 60, 1);
	cr_assert(!scope_file_writer_segment_accounting(maker.writer, &segment));
	timeline = make_open(&maker, 100);
	cr_assert(!timeline->accounting.balanced);
	cr_assert(strstr(timeline->accounting.imbalance, "manual events in the file"));
	timeline_close(timeline);
}

/* A name of any length leaves the words of the imbalance readable, and valid UTF-8. */
Test(capture, an_imbalance_with_a_long_name)
{
	char name[1000] = "";
	struct timeline *timeline;

	for (int i = 0; i < 300; i++)
		strcat(name, "\xe2\x82\xac");
	make_function(&maker, name, "program");
	make_call(&maker, PID, TID, 0, 10, 20, 0);
	maker.hooked[0].completed = 2;
	timeline = make_open(&maker, 1);
	cr_assert(!timeline->accounting.balanced);
	cr_assert(strstr(timeline->accounting.imbalance, "completed is 2"), "%s",
		  timeline->accounting.imbalance);
	cr_assert_eq(strspn(timeline->accounting.imbalance, "\xe2\x82\xac") % 3, 0);
	timeline_close(timeline);
}
