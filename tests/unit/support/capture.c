// SPDX-License-Identifier: GPL-2.0-or-later
#include "support/capture.h"

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
	maker->writer = scope_file_writer_create(maker->path, 4, argv);
	cr_assert(maker->writer);
	maker->output = scope_file_writer_output(maker->writer);
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
	cr_assert(!scope_file_writer_function(maker->writer, &info));
	return maker->functions++;
}

void make_process(struct maker *maker, uint32_t pid, const char *name, uint32_t clock)
{
	struct process_info info = {.pid = pid, .clock = clock, .start_ns = 1};

	info.name = make_name(maker, name);
	info.command = make_name(maker, "a command line");
	cr_assert(!scope_file_writer_process(maker->writer, &info));
}

void make_call(struct maker *maker, uint32_t pid, uint32_t tid, uint32_t function, uint64_t start,
	       uint64_t end, uint16_t flags)
{
	make_call_at(maker, pid, tid, function, start, end, 0x7fff0000, flags);
}

void make_call_at(struct maker *maker, uint32_t pid, uint32_t tid, uint32_t function,
		  uint64_t start, uint64_t end, uint64_t sp, uint16_t flags)
{
	struct hooked_scope scope = {.start_ns = start,
				     .end_ns = end,
				     .sp = sp,
				     .pid = pid,
				     .tid = tid,
				     .function = function,
				     .cpu = 1,
				     .flags = flags,
				     .start_tid = flags & SCOPE_FLAG_MIGRATED ? MAKE_START_TID : 0};

	scopes_in_file_add(&maker->hooked[function], flags);
	cr_assert(!maker->output->hooked(maker->output, &scope, 1));
}

void make_event(struct maker *maker, uint32_t pid, uint32_t tid, enum manual_kind kind,
		uint64_t ticks, uint64_t id, uint64_t value, const char *name)
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

void make_thread(struct maker *maker, enum thread_change change, uint32_t pid, uint32_t tid,
		 uint64_t start, uint64_t time, const char *name)
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
		const struct scopes_in_file *calls = &maker->hooked[i];
		uint64_t opened = calls->completed + calls->unwound;
		struct function_accounting terms = {.entries = opened + calls->instants,
						    .returns = calls->completed,
						    .opened = opened,
						    .completed = calls->completed,
						    .unwound = calls->unwound,
						    .instants = calls->instants};

		cr_assert(!scope_file_writer_function_accounting(maker->writer, i, &terms));
	}
	cr_assert(!scope_file_writer_finish(maker->writer, start_ns, end_ns, 0));
	maker->writer = NULL;
}

struct filling {
	struct timeline *timeline;
	size_t *scopes, *marks; /* so many are there, of each lane */
	bool *complete;
};

static int add_part(void *context, const struct lane_part *part)
{
	struct filling *filling = context;
	struct lane *lane = part->lane;
	size_t index = (size_t)(lane - filling->timeline->lanes);
	size_t *scopes = &filling->scopes[index], *marks = &filling->marks[index];

	cr_assert(!filling->complete[index], "a part behind the last");
	cr_assert_eq(part->first_scope, *scopes, "scopes are missing");
	cr_assert_leq(*scopes + part->scope_count, lane->scope_count);
	cr_assert_leq(*marks + part->mark_count, lane->mark_count);
	for (size_t i = 0; i < part->scope_count; i++)
		lane->scopes[(*scopes)++] = part->scopes[i];
	for (size_t i = 0; i < part->mark_count; i++)
		lane->marks[(*marks)++] = part->marks[i];
	for (size_t i = 0; i < part->late_count; i++) {
		cr_assert_lt(part->late[i].scope, part->first_scope);
		lane->scopes[part->late[i].scope].child_ns += part->late[i].ns;
		cr_assert_eq(lane->scopes[part->late[i].scope].name, part->late[i].name);
	}
	if (part->last) {
		filling->complete[index] = true;
		cr_assert_eq(*scopes, lane->scope_count);
		cr_assert_eq(*marks, lane->mark_count);
	}
	return 0;
}

void make_lanes(struct timeline *timeline)
{
	struct filling filling = {timeline, calloc(timeline->lane_count + 1, sizeof(size_t)),
				  calloc(timeline->lane_count + 1, sizeof(size_t)),
				  calloc(timeline->lane_count + 1, sizeof(bool))};

	for (size_t i = 0; i < timeline->lane_count; i++) {
		struct lane *lane = &timeline->lanes[i];

		if (lane->scopes)
			return;
		lane->scopes = calloc(lane->scope_count + 1, sizeof(*lane->scopes));
		lane->marks = calloc(lane->mark_count + 1, sizeof(*lane->marks));
		cr_assert(lane->scopes && lane->marks);
	}
	cr_assert(!timeline_visit(timeline, add_part, &filling));
	for (size_t i = 0; i < timeline->lane_count; i++)
		cr_assert(filling.complete[i], "lane %zu has no last part", i);
	free(filling.scopes);
	free(filling.marks);
	free(filling.complete);
}

static void expect_same_lane(const struct timeline *a, const struct lane *x, const struct lane *y)
{
	cr_assert(x->pid == y->pid && x->tid == y->tid && x->name == y->name);
	cr_assert_eq(x->max_depth, y->max_depth);
	cr_assert_eq(x->scope_count, y->scope_count);
	for (size_t i = 0; i < x->scope_count; i++) {
		const struct scope *s = &x->scopes[i], *t = &y->scopes[i];

		cr_assert(s->start_ns == t->start_ns && s->end_ns == t->end_ns &&
				  s->name == t->name && s->kind == t->kind &&
				  s->function == t->function && s->flags == t->flags,
			  "scope %zu is %s %lu-%lu %x and %s %lu-%lu %x", i, a->names[s->name],
			  s->start_ns, s->end_ns, s->flags, a->names[t->name], t->start_ns,
			  t->end_ns, t->flags);
		cr_assert_eq(s->depth, t->depth);
		cr_assert_eq(s->sub_lane, t->sub_lane);
		cr_assert_eq(s->child_ns, t->child_ns);
	}
	cr_assert_eq(x->mark_count, y->mark_count);
	for (size_t i = 0; i < x->mark_count; i++) {
		const struct mark *m = &x->marks[i], *n = &y->marks[i];

		cr_assert(m->time_ns == n->time_ns && m->name == n->name && m->kind == n->kind &&
			  m->value == n->value && m->scope == n->scope &&
			  m->scope_name == n->scope_name);
	}
}

static void expect_same_sums(const struct timeline *a, const struct timeline *b)
{
	struct timeline_summary x, y;

	cr_assert(!timeline_summarise(a, &x) && !timeline_summarise(b, &y));
	cr_assert_eq(x.function_count, y.function_count);
	cr_assert(!memcmp(x.functions, y.functions, x.function_count * sizeof(*x.functions)));
	timeline_summary_clear(&x);
	timeline_summary_clear(&y);
}

void expect_same_timeline(const struct timeline *whole, const struct timeline *parts)
{
	cr_assert_eq(parts->lane_count, whole->lane_count);
	cr_assert_eq(parts->start_ns, whole->start_ns);
	cr_assert_eq(parts->end_ns, whole->end_ns);
	for (size_t i = 0; i < whole->lane_count; i++)
		expect_same_lane(whole, &whole->lanes[i], &parts->lanes[i]);
	expect_same_sums(whole, parts);
}

struct timeline *make_open_in_regions(struct maker *maker, uint64_t region_records)
{
	struct timeline *timeline = timeline_open_with(maker->path, region_records);

	cr_assert(timeline, "%s", said(maker));
	make_lanes(timeline);
	for (size_t i = 0; i < timeline->lane_count; i++)
		check_lane(&timeline->lanes[i]);
	return timeline;
}

struct timeline *make_open(struct maker *maker, uint64_t end_ns)
{
	struct timeline *whole, *parts;

	make_end(maker, 0, end_ns);
	whole = make_open_in_regions(maker, 1 << 20);
	for (uint64_t records = 1; records <= 5 && !maker->whole_only; records += 2) {
		parts = make_open_in_regions(maker, records);
		expect_same_timeline(whole, parts);
		timeline_close(parts);
	}
	return whole;
}

static struct timeline_summary summarise(const struct timeline *timeline)
{
	struct timeline_summary summary;

	cr_assert(!timeline_summarise(timeline, &summary));
	return summary;
}

int timeline_statistics(const struct timeline *timeline, struct function_statistics **statistics,
			size_t *count)
{
	struct timeline_summary summary = summarise(timeline);

	*statistics = summary.functions;
	*count = summary.function_count;
	summary.functions = NULL;
	timeline_summary_clear(&summary);
	return 0;
}

int timeline_frames(const struct timeline *timeline, struct frame_statistics **statistics,
		    size_t *count)
{
	struct timeline_summary summary = summarise(timeline);

	*statistics = summary.frames;
	*count = summary.frame_count;
	summary.frames = NULL;
	timeline_summary_clear(&summary);
	return 0;
}

int timeline_numbers(const struct timeline *timeline, struct number_statistics **statistics,
		     size_t *count)
{
	struct timeline_summary summary = summarise(timeline);

	*statistics = summary.numbers;
	*count = summary.number_count;
	summary.numbers = NULL;
	timeline_summary_clear(&summary);
	return 0;
}

void make_remove(struct maker *maker)
{
	char command[128];

	if (maker->writer)
		scope_file_writer_finish(maker->writer, 0, 0, 0);
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
		const struct scope **stack =
			around + scope->sub_lane * ((size_t)lane->max_depth + 1);

		cr_assert(scope->start_ns <= scope->end_ns, "negative time");
		cr_assert(!i || scope[-1].start_ns <= scope->start_ns, "not in order");
		cr_assert_leq(scope->depth, lane->max_depth);
		cr_assert(scope->flags < 64, "flags of the making are left");
		deepest = scope->depth > deepest ? scope->depth : deepest;
		if (scope->depth) {
			parent = stack[scope->depth - 1];
			cr_assert(parent, "no scope around one at depth %u", scope->depth);
			cr_assert(parent->start_ns <= scope->start_ns &&
					  scope->end_ns <= parent->end_ns,
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
	make_lanes((struct timeline *)timeline);
	for (size_t i = 0; i < timeline->lane_count; i++) {
		if (timeline->lanes[i].pid == pid && timeline->lanes[i].tid == tid && !n--)
			return &timeline->lanes[i];
	}
	cr_assert_fail("no such lane of %u/%u", pid, tid);
	return NULL;
}

const char *lane_text(const struct timeline *timeline, const struct lane *lane)
{
	static const char *const flag_names[] = {"unfinished", "unwound",  "cut",
						 "lost",       "migrated", "instant"};
	static char text[4096];
	size_t used = 0;

	make_lanes((struct timeline *)timeline);
	text[0] = '\0';
	for (size_t i = 0; i < lane->scope_count && used < sizeof(text) - 256; i++) {
		const struct scope *scope = &lane->scopes[i];

		used += (size_t)snprintf(text + used, sizeof(text) - used,
					 "%*s%s %" PRIu64 "-%" PRIu64, scope->depth, "",
					 timeline->names[scope->name], scope->start_ns,
					 scope->end_ns);
		if (scope->sub_lane)
			used += (size_t)snprintf(text + used, sizeof(text) - used, " /%u",
						 scope->sub_lane);
		for (int bit = 0; bit < 6; bit++) {
			if (scope->flags & 1 << bit)
				used += (size_t)snprintf(text + used, sizeof(text) - used, " %s",
							 flag_names[bit]);
		}
		used += (size_t)snprintf(text + used, sizeof(text) - used, "\n");
	}
	return text;
}
