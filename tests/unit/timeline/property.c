// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random call trees over random threads, written as the sources would write them, and read back.
 * With nothing lost the timeline is the truth; with anything lost it still is a timeline.
 */
#include "support/capture.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

enum { ROUNDS = 150, THREADS = 6, SCOPES = 120, FUNCTIONS = 8 };

/* A scope as it truly was. In the order of their starts. */
struct truth {
	uint64_t start;
	uint64_t end;
	uint64_t child;
	uint32_t depth;
	uint32_t which; /* function, or number of the manual name */
	size_t parent;
	uint64_t sp; /* falls by a step with each hooked call inside another */
	bool manual;
	bool thrown; /* hooked: left by an exception */
};

struct event {
	uint64_t time;
	uint64_t id;
	size_t truth;
	enum { CALL, START, STOP } kind;
};

struct thread {
	struct truth truths[SCOPES];
	size_t truth_count;
	struct event events[SCOPES * 2];
	size_t event_count;
	size_t written;
	uint64_t now;
};

struct world {
	unsigned short seed[3];
	struct maker maker;
	struct thread threads[THREADS];
	uint64_t next_id;
	/* what kind of world it is */
	unsigned drop_percent;
	bool tsc;
	bool equal_times;
	bool throws;
	/* what was written */
	uint64_t calls, starts, orphans;
};

static uint64_t random_below(struct world *world, uint64_t limit)
{
	return (uint64_t)nrand48(world->seed) % limit;
}

static void pass(struct world *world, struct thread *thread)
{
	uint64_t step = random_below(world, 20);

	thread->now += world->equal_times ? step / 8 : step + 1;
}

static void add_event(struct thread *thread, int kind, uint64_t id, size_t truth)
{
	thread->events[thread->event_count++] = (struct event){thread->now, id, truth, kind};
}

/*
 * Makes a scope with everything inside it, as a thread would run it. Returns through how many
 * scopes around it an exception goes on that was thrown in it. A manual scope is stopped on its
 * way, a hooked one is just gone.
 */
static uint32_t run(struct world *world, struct thread *thread, uint32_t depth, size_t parent)
{
	size_t self = thread->truth_count++;
	struct truth *truth = &thread->truths[self];
	uint64_t id = world->next_id++;
	uint32_t through = 0;

	truth->manual = random_below(world, 2);
	truth->which = (uint32_t)random_below(world, FUNCTIONS);
	truth->depth = depth;
	truth->parent = depth ? parent : SIZE_MAX;
	truth->sp = depth ? thread->truths[parent].sp - (truth->manual ? 0 : 64) : 0x7fff0000;
	pass(world, thread);
	truth->start = thread->now;
	if (truth->manual)
		add_event(thread, START, id, self);
	while (!through && thread->truth_count < SCOPES && depth < 12 && random_below(world, 5) < 3)
		through = run(world, thread, depth + 1, self);
	pass(world, thread);
	truth->end = thread->now;
	if (!through && world->throws && random_below(world, 4) == 0)
		through = 1 + (uint32_t)random_below(world, depth + 1);
	truth->thrown = through && !truth->manual;
	add_event(thread, truth->manual ? STOP : CALL, id, self);
	if (depth)
		thread->truths[parent].child += truth->end - truth->start;
	return through ? through - 1 : 0;
}

/* The counter runs at 3 GHz. */
static uint64_t ticks_of(const struct world *world, uint64_t ns)
{
	return world->tsc ? ns * 3 + 777777 : ns;
}

static uint32_t pid_of(uint32_t t)
{
	return 100 + t % 2;
}

/* `started` of a truth: its start was written. */
static void write_event(struct world *world, uint32_t t, const struct event *event, bool *started)
{
	const struct truth *truth = &world->threads[t].truths[event->truth];
	uint64_t ticks = ticks_of(world, event->time);
	char name[16];

	if (random_below(world, 100) < world->drop_percent)
		return;
	snprintf(name, sizeof(name), "m%u", truth->which);
	if (event->kind == CALL) {
		make_call_at(&world->maker, pid_of(t), 200 + t, truth->which, truth->start,
			     truth->thrown ? world->threads[t].now : truth->end, truth->sp,
			     truth->thrown ? SCOPE_FLAG_UNWOUND : 0);
		world->calls++;
	} else if (event->kind == START) {
		make_start(&world->maker, pid_of(t), 200 + t, ticks, event->id, name);
		started[event->truth] = true;
		world->starts++;
	} else {
		make_stop(&world->maker, pid_of(t), 200 + t, ticks, event->id);
		world->orphans += !started[event->truth];
	}
}

/* The threads' events in batches of any size, each thread's in its own order. */
static void write_all(struct world *world)
{
	static bool started[THREADS][SCOPES];
	uint32_t left = THREADS;

	memset(started, 0, sizeof(started));
	while (left) {
		uint32_t t = (uint32_t)random_below(world, THREADS);
		struct thread *thread = &world->threads[t];
		uint64_t batch = random_below(world, 10);

		if (thread->written == thread->event_count)
			continue;
		while (batch-- && thread->written < thread->event_count)
			write_event(world, t, &thread->events[thread->written++], started[t]);
		left -= thread->written == thread->event_count;
	}
}

static void make_world(struct world *world)
{
	uint32_t clock = world->tsc ? CLOCK_ID_TSC : CLOCK_ID_MONOTONIC;
	uint64_t latest = 0;
	char name[16];

	make_begin(&world->maker);
	make_process(&world->maker, 100, "even", clock);
	make_process(&world->maker, 101, "odd", clock);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		make_function(&world->maker, name, "program");
	}
	for (uint32_t t = 0; t < THREADS; t++) {
		struct thread *thread = &world->threads[t];

		thread->now = 1000000 + random_below(world, 1000);
		while (thread->truth_count < SCOPES)
			run(world, thread, 0, 0);
		latest = thread->now > latest ? thread->now : latest;
	}
	make_anchor(&world->maker, CLOCK_ID_TSC, ticks_of(world, 1000000), 1000000);
	write_all(world);
	make_anchor(&world->maker, CLOCK_ID_TSC, ticks_of(world, 1001000), 1001000);
	make_anchor(&world->maker, CLOCK_ID_TSC, ticks_of(world, latest), latest);
}

/* Nothing was lost: the lane is what truly was. */
static void check_truth(const struct world *world, const struct timeline *timeline, uint32_t t)
{
	const struct lane *lane = lane_of(timeline, pid_of(t), 200 + t, 0);
	char name[16];

	cr_assert_eq(lane->scope_count, world->threads[t].truth_count);
	for (size_t i = 0; i < lane->scope_count; i++) {
		const struct truth *truth = &world->threads[t].truths[i];
		const struct scope *scope = &lane->scopes[i];

		snprintf(name, sizeof(name), "%c%u", truth->manual ? 'm' : 'f', truth->which);
		cr_assert_str_eq(timeline->names[scope->name], name);
		cr_assert_eq(scope->kind, truth->manual ? SCOPE_MANUAL : SCOPE_HOOKED);
		cr_assert_eq(scope->start_ns, truth->start);
		cr_assert_eq(scope->end_ns, truth->end);
		cr_assert_eq(scope->depth, truth->depth);
		cr_assert_eq(scope->child_ns, truth->child);
		cr_assert_eq(scope->flags, 0);
		cr_assert_eq(scope->sub_lane, 0);
	}
}

/* Every scope that was written is there, once; what may not be known is flagged. */
static void check_delivery(const struct world *world, const struct timeline *timeline)
{
	uint64_t hooked = 0, manual = 0, flagged = 0;

	for (size_t i = 0; i < timeline->lane_count; i++) {
		for (size_t j = 0; j < timeline->lanes[i].scope_count; j++) {
			const struct scope *scope = &timeline->lanes[i].scopes[j];

			hooked += scope->kind == SCOPE_HOOKED;
			manual += scope->kind == SCOPE_MANUAL;
			flagged += scope->flags & (SCOPE_FLAG_CUT | SCOPE_FLAG_UNFINISHED) ? 1 : 0;
		}
	}
	cr_assert_eq(hooked, world->calls);
	cr_assert_eq(hooked, timeline->accounting.in_file + timeline->accounting.sum.unwound);
	cr_assert_eq(manual, world->starts);
	cr_assert_eq(timeline->accounting.manual_orphans, world->orphans);
	cr_assert(world->drop_percent || !flagged);
	cr_assert(timeline->accounting.balanced, "%s", timeline->accounting.imbalance);
}

/*
 * By the definition, and by looking at everything: the next hit at or above its stack pointer, the
 * stop of a manual scope around it, the start of a manual scope after it that is still open then.
 */
static uint64_t left_by(const struct thread *thread, const struct truth *left)
{
	uint64_t end = thread->now;

	for (size_t i = 0; i < thread->truth_count; i++) {
		const struct truth *other = &thread->truths[i];

		if (other->manual || other->sp < left->sp)
			continue;
		if (other->start > left->start && other->start < end)
			end = other->start;
		if (!other->thrown && other->end > left->start && other->end < end)
			end = other->end;
	}
	for (size_t around = left->parent; around != SIZE_MAX;
	     around = thread->truths[around].parent) {
		if (thread->truths[around].manual && thread->truths[around].end < end)
			end = thread->truths[around].end;
	}
	for (size_t i = 0; i < thread->truth_count; i++) {
		const struct truth *other = &thread->truths[i];

		if (other->manual && other->start > left->start && other->start < end &&
		    other->end > end)
			end = other->start;
	}
	return end;
}

/*
 * Nothing was lost, but exceptions were thrown: no scope crosses another, and each ends where it
 * did.
 */
static void check_thrown(const struct world *world, const struct timeline *timeline, uint32_t t)
{
	const struct lane *lane = lane_of(timeline, pid_of(t), 200 + t, 0);
	const struct thread *thread = &world->threads[t];

	cr_assert_eq(lane->scope_count, thread->truth_count);
	for (size_t i = 0; i < lane->scope_count; i++) {
		const struct truth *truth = &thread->truths[i];
		const struct scope *scope = &lane->scopes[i];

		cr_assert_eq(scope->start_ns, truth->start);
		cr_assert_eq(scope->end_ns, truth->thrown ? left_by(thread, truth) : truth->end);
		cr_assert_geq(scope->end_ns, truth->end, "it ended before it was left");
		cr_assert_eq(scope->flags, truth->thrown ? SCOPE_FLAG_UNWOUND : 0);
		cr_assert_eq(scope->sub_lane, 0);
	}
}

/* In regions of any size the lanes are the same. */
static void check_regions(struct world *world, const struct timeline *whole)
{
	uint64_t records = 1 + random_below(world, random_below(world, 3) ? 400 : 30);
	struct timeline *parts = make_open_in_regions(&world->maker, records);

	expect_same_timeline(whole, parts);
	timeline_close(parts);
}

static void live_in(struct world *world, unsigned short seed, unsigned drop_percent, bool tsc,
		    bool equal_times)
{
	struct timeline *timeline;

	world->seed[0] = seed;
	world->drop_percent = drop_percent;
	world->tsc = tsc;
	world->equal_times = equal_times;
	make_world(world);
	timeline = make_open(&world->maker, 0);
	cr_assert_eq(timeline->lane_count, THREADS);
	check_delivery(world, timeline);
	check_regions(world, timeline);
	for (uint32_t t = 0; t < THREADS && !drop_percent && !equal_times; t++) {
		if (world->throws)
			check_thrown(world, timeline, t);
		else
			check_truth(world, timeline, t);
	}
	timeline_close(timeline);
	make_remove(&world->maker);
	free(world);
}

static void live(unsigned short seed, unsigned drop_percent, bool tsc, bool equal_times)
{
	struct world *world = calloc(1, sizeof(*world));

	cr_assert(world);
	live_in(world, seed, drop_percent, tsc, equal_times);
}

static void live_with_throws(unsigned short seed, unsigned drop_percent, bool tsc, bool equal_times)
{
	struct world *world = calloc(1, sizeof(*world));

	cr_assert(world);
	world->throws = true;
	live_in(world, seed, drop_percent, tsc, equal_times);
}

Test(property, nothing_lost)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live(i, 0, false, false);
}

Test(property, nothing_lost_by_a_counter)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live((unsigned short)(1000 + i), 0, true, false);
}

Test(property, equal_times)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live((unsigned short)(2000 + i), 0, i & 1, true);
}

Test(property, a_few_lost)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live((unsigned short)(3000 + i), 3, i & 1, i & 2);
}

Test(property, half_lost)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live((unsigned short)(4000 + i), 50, i & 1, i & 2);
}

Test(property, exceptions)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live_with_throws((unsigned short)(5000 + i), 0, i & 1, false);
}

Test(property, exceptions_and_losses)
{
	for (unsigned short i = 0; i < ROUNDS; i++)
		live_with_throws((unsigned short)(6000 + i), i % 3 ? 3 : 50, i & 1, i & 2);
}
