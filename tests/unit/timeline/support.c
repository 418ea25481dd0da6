// SPDX-License-Identifier: GPL-2.0-or-later
#include "support.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/io.h"

void make_begin(struct maker *maker)
{
	static char *const argv[] = {"scopetrace", "record", "-f", "x"};
	char errors[128];

	memset(maker, 0, sizeof(*maker));
	strcpy(maker->directory, "/tmp/scopetrace-unit-XXXXXX");
	cr_assert(mkdtemp(maker->directory));
	snprintf(maker->path, sizeof(maker->path), "%s/c.scope", maker->directory);
	snprintf(errors, sizeof(errors), "%s/errors", maker->directory);
	cr_assert(freopen(errors, "w+", stderr));
	setvbuf(stderr, NULL, _IONBF, 0);
	maker->writer = capture_writer_create(maker->path, 4, argv);
	cr_assert(maker->writer);
	maker->output = capture_writer_output(maker->writer);
}

const char *said(struct maker *maker)
{
	static char text[8192];
	char errors[128];
	size_t length;
	char *all;

	snprintf(errors, sizeof(errors), "%s/errors", maker->directory);
	cr_assert(!io_read_file(errors, &all, &length));
	snprintf(text, sizeof(text), "%s", all);
	free(all);
	cr_assert(!ftruncate(fileno(stderr), 0));
	rewind(stderr);
	return text;
}

uint32_t make_name(struct maker *maker, const char *name)
{
	uint32_t id;

	cr_assert(!maker->output->string(maker->output, name, strlen(name), &id));
	return id;
}

uint32_t make_function(struct maker *maker, const char *name, const char *module)
{
	struct function_info info = {.id = maker->functions, .address = 0x1000 + maker->functions};

	info.name = make_name(maker, name);
	info.module = make_name(maker, module);
	cr_assert(!capture_writer_function(maker->writer, &info));
	return maker->functions++;
}

void make_process(struct maker *maker, uint32_t pid, const char *name, uint32_t clock)
{
	struct process_info info = {.pid = pid, .clock = clock, .start_ns = 1};

	info.name = make_name(maker, name);
	info.command = make_name(maker, "a command line");
	cr_assert(!capture_writer_process(maker->writer, &info));
}

void make_call(struct maker *maker, uint32_t pid, uint32_t tid, uint32_t function, uint64_t start,
	       uint64_t end, uint16_t flags)
{
	struct hooked_scope scope = {start, end, 0x7fff0000, pid, tid, function, 1, flags};

	maker->hooked[function] += !(flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_UNWOUND));
	cr_assert(!maker->output->hooked(maker->output, &scope, 1));
}

void make_event(struct maker *maker, uint32_t pid, uint32_t tid, enum manual_kind kind, uint64_t ticks,
		uint64_t id, uint64_t value, const char *name)
{
	struct manual_event event = {.ticks = ticks,
				     .scope_id = id,
				     .value = value,
				     .pid = pid,
				     .tid = tid,
				     .kind = (uint8_t)kind,
				     .ring = (uint8_t)(tid & 15)};

	event.name = name ? make_name(maker, name) : 0;
	cr_assert(!maker->output->manual(maker->output, &event, 1));
}

void make_complete(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t start, uint64_t end,
		   uint16_t inside, const char *name)
{
	struct manual_event event = {.ticks = start,
				     .value = end,
				     .pid = pid,
				     .tid = tid,
				     .name = make_name(maker, name),
				     .kind = MANUAL_COMPLETE,
				     .ring = (uint8_t)(tid & 15),
				     .flags = inside};

	cr_assert(!maker->output->manual(maker->output, &event, 1));
}

void make_start(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t ticks, uint64_t id,
		const char *name)
{
	make_event(maker, pid, tid, MANUAL_START, ticks, id, 0, name);
}

void make_stop(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t ticks, uint64_t id)
{
	make_event(maker, pid, tid, MANUAL_STOP, ticks, id, 0, NULL);
}

void make_thread(struct maker *maker, enum thread_change change, uint32_t pid, uint32_t tid, uint64_t start,
		 uint64_t time, const char *name)
{
	struct thread_info info = {start, time, pid, tid, 0, change};

	info.name = name ? make_name(maker, name) : 0;
	cr_assert(!maker->output->thread(maker->output, &info));
}

void make_anchor(struct maker *maker, uint32_t clock, uint64_t ticks, uint64_t ns)
{
	struct clock_anchor anchor = {ticks, ns, clock, 0};

	cr_assert(!maker->output->anchor(maker->output, &anchor));
}

void make_end(struct maker *maker, uint64_t start_ns, uint64_t end_ns)
{
	for (uint32_t i = 0; i < maker->functions; i++) {
		uint64_t calls = maker->hooked[i];
		struct function_accounting terms = {
			.entries = calls, .returns = calls, .opened = calls, .completed = calls};

		cr_assert(!capture_writer_function_accounting(maker->writer, i, &terms));
	}
	cr_assert(!capture_writer_finish(maker->writer, start_ns, end_ns, 0));
	maker->writer = NULL;
}

struct timeline *make_open(struct maker *maker, uint64_t end_ns)
{
	struct timeline *timeline;

	make_end(maker, 0, end_ns);
	timeline = timeline_open(maker->path);
	cr_assert(timeline, "%s", said(maker));
	for (size_t i = 0; i < timeline->lane_count; i++)
		check_lane(&timeline->lanes[i]);
	return timeline;
}

void make_remove(struct maker *maker)
{
	char command[128];

	if (maker->writer)
		capture_writer_finish(maker->writer, 0, 0, 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", maker->directory);
	cr_assert(!system(command));
}

unsigned char *file_read(const char *path, size_t *length)
{
	char *bytes;

	cr_assert(!io_read_file(path, &bytes, length));
	return (unsigned char *)bytes;
}

void file_write(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "w");

	cr_assert(file);
	cr_assert(fwrite(bytes, 1, length, file) == length);
	cr_assert(!fclose(file));
}

size_t chunk_at(const unsigned char *bytes, size_t length, uint32_t type, size_t n)
{
	struct chunk_header header;

	for (size_t at = 0; at < length; at += sizeof(header) + chunk_padded(header.length)) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.type == type && !n--)
			return at;
	}
	return length;
}

void chunk_sign(unsigned char *bytes, size_t at)
{
	struct chunk_header header;

	memcpy(&header, bytes + at, sizeof(header));
	header.crc = chunk_crc(&header, bytes + at + sizeof(header));
	memcpy(bytes + at, &header, sizeof(header));
}

/* Every scope lies in its parent, the next one up in its sub-lane; the parent's child_ns is what its children
 * take. */
void check_lane(const struct lane *lane)
{
	const struct scope **around = calloc(256 * ((size_t)lane->max_depth + 1), sizeof(*around));
	uint64_t *child_ns = calloc(lane->scope_count + 1, sizeof(*child_ns));
	uint32_t deepest = 0;

	cr_assert(around && child_ns);
	for (size_t i = 0; i < lane->scope_count; i++) {
		const struct scope *scope = &lane->scopes[i], *parent = NULL;
		const struct scope **stack = around + scope->sub_lane * ((size_t)lane->max_depth + 1);

		cr_assert(scope->start_ns <= scope->end_ns, "negative time");
		cr_assert(!i || scope[-1].start_ns <= scope->start_ns, "not in order");
		cr_assert_leq(scope->depth, lane->max_depth);
		cr_assert(scope->flags < 16, "flags of the making are left");
		deepest = scope->depth > deepest ? scope->depth : deepest;
		if (scope->depth) {
			parent = stack[scope->depth - 1];
			cr_assert(parent, "no scope around one at depth %u", scope->depth);
			cr_assert(parent->start_ns <= scope->start_ns && scope->end_ns <= parent->end_ns,
				  "child outside parent");
			child_ns[parent - lane->scopes] += scope->end_ns - scope->start_ns;
		}
		stack[scope->depth] = scope;
	}
	for (size_t i = 0; i < lane->scope_count; i++) {
		cr_assert_eq(lane->scopes[i].child_ns, child_ns[i]);
		cr_assert_leq(child_ns[i], lane->scopes[i].end_ns - lane->scopes[i].start_ns);
	}
	for (size_t i = 1; i < lane->mark_count; i++)
		cr_assert_leq(lane->marks[i - 1].time_ns, lane->marks[i].time_ns);
	cr_assert_eq(deepest, lane->max_depth);
	free(around);
	free(child_ns);
}

const struct lane *lane_of(const struct timeline *timeline, uint32_t pid, uint32_t tid, size_t n)
{
	for (size_t i = 0; i < timeline->lane_count; i++) {
		if (timeline->lanes[i].pid == pid && timeline->lanes[i].tid == tid && !n--)
			return &timeline->lanes[i];
	}
	cr_assert_fail("no such lane of %u/%u", pid, tid);
	return NULL;
}

const char *lane_text(const struct timeline *timeline, const struct lane *lane)
{
	static const char *const flag_names[] = {"unfinished", "unwound", "cut", "lost"};
	static char text[4096];
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < lane->scope_count && used < sizeof(text) - 256; i++) {
		const struct scope *scope = &lane->scopes[i];

		used += (size_t)snprintf(text + used, sizeof(text) - used, "%*s%s %" PRIu64 "-%" PRIu64,
					 scope->depth, "", timeline->names[scope->name], scope->start_ns,
					 scope->end_ns);
		if (scope->sub_lane)
			used += (size_t)snprintf(text + used, sizeof(text) - used, " /%u", scope->sub_lane);
		for (int bit = 0; bit < 4; bit++) {
			if (scope->flags & 1 << bit)
				used += (size_t)snprintf(text + used, sizeof(text) - used, " %s",
							 flag_names[bit]);
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
	}
	return text;
}
