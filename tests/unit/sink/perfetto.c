// SPDX-License-Identifier: GPL-2.0-or-later
/* The Perfetto export, read back by protoc: what is on which track, and how it nests there. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decoded.h"
#include "sample.h"
#include "sink/perfetto.h"

/* A scope as a viewer draws it: rebuilt with a stack from the begins and ends of a track. */
struct drawn {
	uint64_t start, end, name_iid, category;
	size_t depth;
};

/* Events of one track as a viewer takes them: in the file's order, which must be that of time. */
static size_t draw(const struct decoded *decoded, uint64_t track, struct drawn *drawn, size_t most)
{
	size_t stack[512], depth = 0, count = 0;
	uint64_t last = 0;

	for (size_t i = 0; i < decoded->event_count; i++) {
		const struct decoded_event *event = &decoded->events[i];

		if (event->track != track)
			continue;
		cr_assert_geq(event->time, last, "track %lu goes back in time", track);
		cr_assert(event->named_before_use);
		last = event->time;
		if (event->type == DECODED_BEGIN) {
			cr_assert(count < most && depth < 512);
			stack[depth] = count;
			drawn[count++] = (struct drawn){event->time, UINT64_MAX, event->name_iid,
							event->category, depth};
			depth++;
		} else if (event->type == DECODED_END) {
			cr_assert_gt(depth, 0, "track %lu: an end without a begin", track);
			drawn[stack[--depth]].end = event->time;
		}
	}
	cr_assert_eq(depth, 0, "track %lu: a begin without an end", track);
	return count;
}

/* The track is exactly the lane's scopes of this sub-lane. */
static void expect_lane(const struct decoded *decoded, uint64_t track, const struct lane *lane,
			unsigned sub_lane)
{
	struct drawn *drawn = calloc(lane->scope_count + 1, sizeof(*drawn));
	size_t count = draw(decoded, track, drawn, lane->scope_count), at = 0;

	for (size_t i = 0; i < lane->scope_count; i++) {
		const struct scope *scope = &lane->scopes[i];

		/* Entries alone are drawn as instants. */
		if (scope->sub_lane != sub_lane || scope->flags & SCOPE_FLAG_INSTANT)
			continue;
		cr_assert_lt(at, count);
		cr_assert_eq(drawn[at].start, scope->start_ns);
		cr_assert_eq(drawn[at].end, scope->end_ns, "tid %u scope %zu ends at %lu, not %lu",
			     lane->tid, i, drawn[at].end, scope->end_ns);
		cr_assert_eq(drawn[at].depth, scope->depth,
			     "tid %u scope %zu is drawn at depth %zu, not %u", lane->tid, i,
			     drawn[at].depth, scope->depth);
		cr_assert_eq(drawn[at].name_iid, scope->name + 1);
		cr_assert_eq(drawn[at].category, scope->kind);
		at++;
	}
	cr_assert_eq(at, count);
	free(drawn);
}

/* The nth track of this thread, or of this name. */
static const struct decoded_track *find_track(const struct decoded *decoded, uint64_t tid,
					      const char *name, size_t nth)
{
	for (size_t i = 0; i < decoded->track_count; i++) {
		const struct decoded_track *track = &decoded->tracks[i];

		if ((tid ? track->tid == tid : strcmp(track->name, name) == 0) && nth-- == 0)
			return track;
	}
	cr_assert_fail("no track of tid %lu, name %s", tid, name ? name : "");
	abort();
}

static void decode_sample(struct decoded *decoded)
{
	size_t length;
	char *trace = written(perfetto_write, sample_timeline(), NULL, &length);

	decode(decoded, trace, length);
	free(trace);
}

Test(perfetto, golden)
{
	size_t length;
	char *trace = written(perfetto_write, sample_timeline(), NULL, &length);
	char *text = output_of(PROTOC_DECODE, trace, length);

	expect_golden(text, "sink.pftrace.txt");
	free(text);
	/* Without our .proto too it is sound protobuf, whose every top-level field is 1. */
	text = output_of("protoc --decode_raw | grep -v '^ ' | sort -u | tr -d '\\n'", trace,
			 length);
	cr_assert_str_eq(text, "1 {}");
	free(text);
	free(trace);
}

Test(perfetto, tracks)
{
	struct decoded decoded;
	const struct decoded_track *process, *first, *second, *crossing;

	decode_sample(&decoded);
	process = find_track(&decoded, 0, "demo", 0);
	cr_assert_eq(process->pid, 100);
	first = find_track(&decoded, 101, NULL, 0);
	second = find_track(&decoded, 101, NULL, 1);
	crossing = find_track(&decoded, 0, "crossing scopes 1", 0);
	cr_assert_str_eq(first->name, "worker-1");
	cr_assert_eq(first->parent, process->uuid);
	cr_assert_eq(second->parent, process->uuid);
	cr_assert_eq(crossing->parent, first->uuid);
	for (size_t i = 0; i < decoded.track_count; i++) {
		for (size_t j = i + 1; j < decoded.track_count; j++)
			cr_assert_neq(decoded.tracks[i].uuid, decoded.tracks[j].uuid);
	}
	decoded_free(&decoded);
}

Test(perfetto, nesting)
{
	const struct lane *lanes = sample_timeline()->lanes;
	struct decoded decoded;

	decode_sample(&decoded);
	expect_lane(&decoded, find_track(&decoded, 100, NULL, 0)->uuid, &lanes[0], 0);
	expect_lane(&decoded, find_track(&decoded, 101, NULL, 0)->uuid, &lanes[1], 0);
	expect_lane(&decoded, find_track(&decoded, 0, "crossing scopes 1", 0)->uuid, &lanes[1], 1);
	expect_lane(&decoded, find_track(&decoded, 101, NULL, 1)->uuid, &lanes[2], 0);
	decoded_free(&decoded);
}

Test(perfetto, sequence)
{
	struct decoded decoded;

	decode_sample(&decoded);
	cr_assert_eq(decoded.of_sequence_1, decoded.packets);
	cr_assert_eq(decoded.clears, 1);
	for (size_t i = 0; i < decoded.iid_count; i++) {
		for (size_t j = i + 1; j < decoded.iid_count; j++)
			cr_assert_neq(decoded.iids[i], decoded.iids[j], "a name is sent twice");
	}
	decoded_free(&decoded);
}

static size_t instants(const struct decoded *decoded, const struct decoded_track *track,
		       const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < decoded->event_count; i++) {
		const struct decoded_event *event = &decoded->events[i];

		count += event->type == DECODED_INSTANT && event->track == track->uuid &&
			 strcmp(event->name, name) == 0;
	}
	return count;
}

Test(perfetto, losses_and_marks)
{
	struct decoded decoded;
	const struct decoded_track *unknown, *known;

	decode_sample(&decoded);
	unknown = find_track(&decoded, 0, "lost events", 0);
	known = find_track(&decoded, 0, "lost events", 1);
	cr_assert_eq(unknown->parent, 0);
	cr_assert_eq(known->parent, find_track(&decoded, 0, "demo", 0)->uuid);
	cr_assert_eq(instants(&decoded, unknown, "2 lost"), 1);
	cr_assert_eq(instants(&decoded, known, "12 lost"), 1);
	cr_assert_eq(instants(&decoded, find_track(&decoded, 100, NULL, 0), ""), 1 + 5 + 1,
		     "the marks with an interned name: instant, frames, an argument of nothing");
	cr_assert_eq(instants(&decoded, find_track(&decoded, 100, NULL, 0), "frame"), 1);
	cr_assert_eq(instants(&decoded, find_track(&decoded, 100, NULL, 0), "flow"), 1);
	decoded_free(&decoded);
}

static const struct decoded_event *find_event(const struct decoded *decoded, uint64_t track,
					      enum decoded_type type, size_t nth)
{
	for (size_t i = 0; i < decoded->event_count; i++) {
		const struct decoded_event *event = &decoded->events[i];

		if (event->track == track && event->type == type && nth-- == 0)
			return event;
	}
	cr_assert_fail("no such event on track %lu", track);
	abort();
}

Test(perfetto, counters)
{
	struct decoded decoded;
	const struct decoded_track *tick;
	size_t counting = 0;

	decode_sample(&decoded);
	tick = find_track(&decoded, 0, "tick", 0);
	cr_assert(tick->counts);
	cr_assert_eq(tick->parent, find_track(&decoded, 0, "demo", 0)->uuid);
	cr_assert_eq(find_event(&decoded, tick->uuid, DECODED_COUNTER, 0)->counter, -7);
	cr_assert_eq(find_event(&decoded, tick->uuid, DECODED_COUNTER, 0)->time, 5000000);
	cr_assert_eq(find_event(&decoded, tick->uuid, DECODED_COUNTER, 1)->counter, 0.5);
	for (size_t i = 0; i < decoded.track_count; i++)
		counting += decoded.tracks[i].counts;
	cr_assert_eq(counting, 2);
	decoded_free(&decoded);
}

Test(perfetto, arguments_and_flows)
{
	struct decoded decoded;
	const struct decoded_event *outer, *fiber, *lone;
	const struct decoded_track *main_track;

	decode_sample(&decoded);
	main_track = find_track(&decoded, 100, NULL, 0);
	outer = find_event(&decoded, main_track->uuid, DECODED_BEGIN, 0);
	cr_assert_eq(outer->annotations, 2, "its two arguments");
	cr_assert_eq(outer->flows, 2);
	fiber = find_event(&decoded, find_track(&decoded, 0, "crossing scopes 1", 0)->uuid,
			   DECODED_BEGIN, 0);
	cr_assert_eq(fiber->flows, 1);
	cr_assert_eq(fiber->flow[0], outer->flow[0], "7 ties the two");
	for (size_t i = 0;; i++) {
		lone = find_event(&decoded, main_track->uuid, DECODED_INSTANT, i);
		if (lone->flows)
			break;
	}
	cr_assert_eq(lone->flow[0], outer->flow[1], "8 ties a scope and a point in time");
	cr_assert_neq(lone->flow[0], outer->flow[0]);
	decoded_free(&decoded);
}

/* Slices that overlap lie on tracks of the same name, and those that do not share one. */
Test(perfetto, asyncs)
{
	static const uint64_t starts[2][3] = {{1000000}, {2000000, 3000000, 4000000}};
	static const size_t counts[2] = {1, 3};
	struct decoded decoded;
	struct drawn drawn[3];
	size_t first = 0;

	decode_sample(&decoded);
	while (strcmp(decoded.tracks[first].name, "update") != 0 || decoded.tracks[first].counts)
		first++;
	cr_assert_str_eq(decoded.tracks[first + 1].name, "update");
	for (size_t i = 0; i < 2; i++) {
		uint64_t track = decoded.tracks[first + i].uuid;

		cr_assert_eq(decoded.tracks[first + i].parent,
			     find_track(&decoded, 0, "demo", 0)->uuid);
		cr_assert_eq(draw(&decoded, track, drawn, 3), counts[i]);
		for (size_t j = 0; j < counts[i]; j++) {
			cr_assert_eq(drawn[j].depth, 0);
			cr_assert_eq(drawn[j].start, starts[i][j]);
			cr_assert_eq(find_event(&decoded, track, DECODED_BEGIN, j)->annotations,
				     j == 2 ? 2 : 1, "the id, and that one did not end");
		}
	}
	decoded_free(&decoded);
}

/*
 * Many at once: on each track one after another, and on no more tracks than there ever were at
 * once.
 */
Test(perfetto, many_asyncs)
{
	enum { SLICES = 300, AT_ONCE = 7 };
	struct async_slice slices[SLICES];
	struct timeline timeline = *sample_timeline();
	struct decoded decoded;
	size_t length, drawn_count = 0, tracks = 0;
	char *trace;

	for (uint64_t i = 0; i < SLICES; i++)
		slices[i] = (struct async_slice){
			i * 10, i * 10 + 1 + (i * 37) % (10 * (AT_ONCE - 1)), i, 7, 1, 0};
	timeline.lane_count = timeline.process_count = timeline.loss_count = 0;
	timeline.asyncs = slices;
	timeline.async_count = SLICES;
	trace = written(perfetto_write, &timeline, NULL, &length);
	decode(&decoded, trace, length);
	for (size_t i = 0; i < decoded.track_count; i++) {
		struct drawn drawn[SLICES];
		size_t count = draw(&decoded, decoded.tracks[i].uuid, drawn, SLICES);

		tracks += count > 0;
		drawn_count += count;
		for (size_t j = 0; j < count; j++)
			cr_assert_eq(drawn[j].depth, 0);
	}
	cr_assert_eq(drawn_count, SLICES);
	cr_assert(tracks >= 2 && tracks <= AT_ONCE, "%zu tracks", tracks);
	decoded_free(&decoded);
	free(trace);
}

Test(perfetto, empty_timeline)
{
	struct decoded decoded;
	size_t length;
	char *trace = written(perfetto_write, empty_timeline(), NULL, &length);

	decode(&decoded, trace, length);
	cr_assert_eq(decoded.packets, 2, "a start and the clocks");
	cr_assert_eq(decoded.event_count + decoded.track_count, 0);
	decoded_free(&decoded);
	free(trace);
}

/*
 * Depth is that of the whole lane: beside each other on a sub-lane may lie scopes of different
 * depths, and one that begins where a shallower one ends is no child of it.
 */
Test(perfetto, neighbours_of_different_depth)
{
	struct scope scopes[] = {
		{.start_ns = 10,
		 .end_ns = 20,
		 .name = 1,
		 .depth = 1,
		 .kind = SCOPE_HOOKED,
		 .sub_lane = 1},
		{.start_ns = 20,
		 .end_ns = 30,
		 .name = 2,
		 .depth = 3,
		 .kind = SCOPE_HOOKED,
		 .sub_lane = 1},
		{.start_ns = 40,
		 .end_ns = 50,
		 .name = 3,
		 .depth = 4,
		 .kind = SCOPE_HOOKED,
		 .sub_lane = 1},
	};
	struct lane lane = {.pid = 1, .tid = 2, .scopes = scopes, .scope_count = 3};
	struct timeline timeline = *sample_timeline();
	struct decoded decoded;
	struct drawn drawn[3];
	size_t length;
	char *trace;

	timeline.lanes = &lane;
	timeline.lane_count = 1;
	trace = written(perfetto_write, &timeline, NULL, &length);
	decode(&decoded, trace, length);
	cr_assert_eq(
		draw(&decoded, find_track(&decoded, 0, "crossing scopes 1", 0)->uuid, drawn, 3), 3);
	for (size_t i = 0; i < 3; i++) {
		cr_assert_eq(drawn[i].depth, 0, "%zu is drawn at depth %zu", i, drawn[i].depth);
		cr_assert_eq(drawn[i].end, scopes[i].end_ns);
	}
	decoded_free(&decoded);
	free(trace);
}

/*
 * Scopes of a random tree in the timeline's order, in so few nanoseconds that most times are equal:
 * children that fill their parent, that touch, that have no length, at its start and at its end.
 */
static void grow(struct scope *scopes, size_t *count, size_t most, uint64_t start, uint64_t end,
		 unsigned depth)
{
	uint64_t time = start;

	for (int children = rand() % 4; children > 0 && *count < most; children--) {
		uint64_t from = time + (rand() % 3 ? 0 : (uint64_t)rand() % (end - time + 1));
		uint64_t to = from + (uint64_t)rand() % (end - from + 1);

		scopes[(*count)++] =
			(struct scope){.start_ns = from,
				       .end_ns = to,
				       .name = (uint32_t)(1 + rand() % (SAMPLE_NAMES - 1)),
				       .depth = (uint16_t)depth,
				       .kind = rand() % 2 ? SCOPE_HOOKED : SCOPE_MANUAL};
		if (depth < 12)
			grow(scopes, count, most, from, to, depth + 1);
		time = to;
	}
}

#define RANDOM_LANES  400
#define RANDOM_SCOPES 64

Test(perfetto, random_trees)
{
	struct timeline timeline = *sample_timeline();
	struct lane *lanes = calloc(RANDOM_LANES, sizeof(*lanes));
	struct decoded decoded;
	size_t length;
	char *trace;

	srand(7);
	for (uint32_t i = 0; i < RANDOM_LANES; i++) {
		lanes[i] = (struct lane){.pid = 1,
					 .tid = 1000 + i,
					 .scopes = calloc(RANDOM_SCOPES, sizeof(struct scope))};
		while (lanes[i].scope_count < 3)
			grow(lanes[i].scopes, &lanes[i].scope_count, RANDOM_SCOPES,
			     50 * lanes[i].scope_count + 10, 50 * lanes[i].scope_count + 20, 0);
	}
	timeline.lanes = lanes;
	timeline.lane_count = RANDOM_LANES;
	trace = written(perfetto_write, &timeline, NULL, &length);
	decode(&decoded, trace, length);
	for (uint32_t i = 0; i < RANDOM_LANES; i++) {
		expect_lane(&decoded, find_track(&decoded, 1000 + i, NULL, 0)->uuid, &lanes[i], 0);
		free(lanes[i].scopes);
	}
	decoded_free(&decoded);
	free(trace);
	free(lanes);
}

Test(perfetto, full_disk_is_reported)
{
	FILE *full = fopen("/dev/full", "w");

	cr_assert_eq(perfetto_write(sample_timeline(), full, NULL), -ENOSPC);
	fclose(full);
}
