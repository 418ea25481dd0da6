// SPDX-License-Identifier: GPL-2.0-or-later
/* From a source through the hand-off into a sink that keeps what it gets. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/io.h"
#include "record/relay.h"

enum { FUNCTIONS = 3, SMALLEST = RELAY_BYTES_LEAST, BATCH = 1024 };

/* Names get ids of the sink's own, so that one that is not translated is seen. */
enum { ID_OFFSET = 100, NAMES_MAX = 1 << 18, KEPT_MAX = 1 << 20 };

struct sink {
	struct event_output output;
	char *names[NAMES_MAX];
	size_t lengths[NAMES_MAX];
	uint32_t name_count;
	struct manual_event *events;
	size_t event_count;
	uint64_t calls[FUNCTIONS];
	uint64_t call_count;
	uint64_t newest_start; /* of the calls: they come in order */
	uint64_t disordered;
	struct thread_info threads[64];
	size_t thread_count;
	struct process_info processes[64];
	size_t process_count;
	struct clock_anchor anchors[64];
	size_t anchor_count;
	struct loss_event losses[4096];
	size_t loss_count;
	uint64_t spans[16][2];
	size_t span_count;
	int err; /* what it answers */
};

static struct sink sink;

static int sink_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	(void)output;
	cr_assert_lt(sink.name_count, NAMES_MAX);
	sink.names[sink.name_count] = malloc(length + 1);
	memcpy(sink.names[sink.name_count], bytes, length);
	sink.names[sink.name_count][length] = '\0';
	sink.lengths[sink.name_count] = length;
	*id = ID_OFFSET + sink.name_count++;
	return sink.err;
}

static int sink_hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	(void)output;
	for (size_t i = 0; i < count && !sink.err; i++) {
		sink.calls[scopes[i].function]++;
		sink.disordered += scopes[i].start_ns <= sink.newest_start;
		sink.newest_start = scopes[i].start_ns;
	}
	sink.call_count += sink.err ? 0 : count;
	return sink.err;
}

static int sink_manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	(void)output;
	cr_assert_lt(sink.event_count + count, KEPT_MAX);
	memcpy(&sink.events[sink.event_count], events, count * sizeof(*events));
	sink.event_count += count;
	return sink.err;
}

static int sink_thread(struct event_output *output, const struct thread_info *thread)
{
	(void)output;
	sink.threads[sink.thread_count++ % 64] = *thread;
	return sink.err;
}

static int sink_process(struct event_output *output, const struct process_info *process)
{
	(void)output;
	sink.processes[sink.process_count++ % 64] = *process;
	return sink.err;
}

static int sink_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	(void)output;
	sink.anchors[sink.anchor_count++ % 64] = *anchor;
	return sink.err;
}

static int sink_loss(struct event_output *output, const struct loss_event *loss)
{
	(void)output;
	cr_assert_lt(sink.loss_count, 4096);
	sink.losses[sink.loss_count++] = *loss;
	return sink.err;
}

static void sink_span(struct event_output *output, uint64_t first, uint64_t last)
{
	(void)output;
	sink.spans[sink.span_count % 16][0] = first;
	sink.spans[sink.span_count++ % 16][1] = last;
}

static void set_up(void)
{
	sink.output = (struct event_output){.string = sink_string,
					    .hooked = sink_hooked,
					    .manual = sink_manual,
					    .thread = sink_thread,
					    .anchor = sink_anchor,
					    .loss = sink_loss,
					    .span = sink_span,
					    .process = sink_process};
	sink.events = malloc(KEPT_MAX * sizeof(*sink.events));
	cr_assert_not_null(sink.events);
}

TestSuite(relay, .init = set_up);

static struct relay *make(size_t bytes)
{
	struct relay *relay = relay_create(&sink.output, bytes, FUNCTIONS);

	cr_assert_not_null(relay);
	return relay;
}

static const char *name_of(uint32_t id)
{
	return id ? sink.names[id - ID_OFFSET] : "";
}

static uint32_t string(struct relay *relay, const char *name)
{
	struct event_output *output = relay_output(relay);
	uint32_t id;

	cr_assert_eq(output->string(output, name, strlen(name), &id), 0);
	return id;
}

static uint64_t next_ns = 1000;

/* A batch of calls, one a nanosecond, the functions in turn. */
static void put_calls(struct relay *relay, size_t count, uint16_t flags)
{
	struct event_output *output = relay_output(relay);
	struct hooked_scope scopes[BATCH] = {0};

	for (size_t i = 0; i < count; i++) {
		scopes[i].start_ns = next_ns;
		scopes[i].end_ns = next_ns++;
		scopes[i].function = (uint32_t)(scopes[i].start_ns % FUNCTIONS);
		scopes[i].flags = flags;
	}
	cr_assert_eq(output->hooked(output, scopes, count), 0);
}

static void put_event(struct relay *relay, uint32_t name, uint8_t ring, uint64_t number)
{
	struct event_output *output = relay_output(relay);
	struct manual_event event = {
		.name = name, .ring = ring, .scope_id = number, .pid = 7, .kind = MANUAL_INSTANT};

	cr_assert_eq(output->manual(output, &event, 1), 0);
}

static void take_all(struct relay *relay)
{
	int taken;

	do
		taken = relay_take(relay);
	while (taken > 0);
	cr_assert_eq(taken, 0);
}

/* Until nothing fits any more, not even one call. Returns how many went in. */
static uint64_t fill(struct relay *relay)
{
	uint64_t before = relay_lost_calls(relay, 0) + relay_lost_calls(relay, 1) +
			  relay_lost_calls(relay, 2);
	uint64_t put = 0, lost = before;
	size_t count = BATCH;

	for (;;) {
		put_calls(relay, count, 0);
		put += count;
		uint64_t now = relay_lost_calls(relay, 0) + relay_lost_calls(relay, 1) +
			       relay_lost_calls(relay, 2);

		if (now != lost && count == 1)
			return put - (now - before);
		if (now != lost)
			count /= 2;
		lost = now;
	}
}

Test(relay, sizes)
{
	cr_assert_null(relay_create(&sink.output, 3 << 20, 0));
	cr_assert_eq(errno, EINVAL);
	relay_destroy(make(SMALLEST));
	relay_destroy(NULL);
}

Test(relay, before_it_is_started_all_goes_through)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	struct process_info process = {.pid = 7};

	process.name = string(relay, "seven");
	process.command = string(relay, "seven eleven");
	cr_assert_eq(output->process(output, &process), 0);
	cr_assert_str_eq(name_of(sink.processes[0].name), "seven");
	cr_assert_str_eq(name_of(sink.processes[0].command), "seven eleven");
	put_event(relay, string(relay, "a"), 0, 1);
	put_event(relay, string(relay, "a"), 0, 2);
	put_event(relay, 0, 0, 3);
	cr_assert_eq(sink.event_count, 3);
	cr_assert_eq(sink.name_count, 3);
	cr_assert_str_eq(name_of(sink.events[1].name), "a");
	cr_assert_eq(sink.events[2].name, 0);
	put_calls(relay, 5, 0);
	cr_assert_eq(sink.call_count, 5);
	relay_destroy(relay);
}

Test(relay, everything_in_its_order)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	struct thread_info thread = {.tid = 9, .change = THREAD_NAMED};
	struct clock_anchor anchor = {.ticks = 5, .ns = 6};
	struct loss_event loss = {
		.first_ns = 1, .last_ns = 2, .count = 3, .place = LOSS_KERNEL_RING, .index = 1};

	put_event(relay, string(relay, "before"), 0, 0);
	relay_start(relay);
	for (uint64_t round = 1; round <= 1000; round++) {
		char name[32];

		relay_begin(relay, round * 100);
		snprintf(name, sizeof(name), "name %d", (int)(round % 300));
		thread.name = string(relay, name);
		cr_assert_eq(output->thread(output, &thread), 0);
		anchor.ticks = round;
		cr_assert_eq(output->anchor(output, &anchor), 0);
		put_event(relay, string(relay, name), 0, round);
		output->span(output, round * 10, round * 10 + 10);
		put_calls(relay, round % BATCH, 0);
		loss.first_ns = round;
		loss.last_ns = round;
		cr_assert_eq(output->loss(output, &loss), 0);
		relay_end(relay);
		/* Nothing is in the sink before it is taken; then all is, under the right names. */
		cr_assert_eq(sink.event_count, round);
		take_all(relay);
		cr_assert_eq(sink.event_count, round + 1);
		cr_assert_eq(sink.events[round].scope_id, round);
		cr_assert_str_eq(name_of(sink.events[round].name), name);
		cr_assert_str_eq(name_of(sink.threads[(round - 1) % 64].name), name);
		cr_assert_eq(sink.anchors[(round - 1) % 64].ticks, round);
		cr_assert_eq(sink.loss_count, round);
		cr_assert_eq(sink.losses[round - 1].first_ns, round);
		cr_assert_eq(sink.spans[(round - 1) % 16][0], round * 10);
		cr_assert_eq(sink.spans[(round - 1) % 16][1], round * 10 + 10);
	}
	cr_assert_eq(sink.name_count, 301);
	cr_assert_eq(sink.disordered, 0);
	cr_assert_eq(relay_settle(relay), 0);
	relay_destroy(relay);
}

Test(relay, without_room_batches_are_lost_and_nothing_else)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	struct thread_info thread = {.tid = 9, .change = THREAD_EXITED};
	struct clock_anchor anchor = {.ticks = 5, .ns = 6};
	struct process_info process = {.pid = 7};
	uint64_t first_lost, put, lost;

	relay_start(relay);
	put = fill(relay);
	cr_assert_gt(put, 4 * BATCH);
	take_all(relay);
	cr_assert_eq(sink.call_count, put);
	/* What the account says is what the losses say. */
	relay_end(relay);
	take_all(relay);
	lost = relay_lost_calls(relay, 0) + relay_lost_calls(relay, 1) + relay_lost_calls(relay, 2);
	cr_assert_gt(lost, 0);
	for (size_t i = 0; i < sink.loss_count; i++) {
		cr_assert_eq(sink.losses[i].place, LOSS_HANDOFF);
		cr_assert_eq(sink.losses[i].pid, 0);
		lost -= sink.losses[i].count;
	}
	cr_assert_eq(lost, 0);

	sink.loss_count = 0;
	fill(relay);
	put = sink.call_count;
	uint64_t by_function[FUNCTIONS];

	for (uint32_t i = 0; i < FUNCTIONS; i++)
		by_function[i] = relay_lost_calls(relay, i);
	first_lost = next_ns;
	put_calls(relay, 6, SCOPE_FLAG_UNWOUND);
	put_calls(relay, 3, SCOPE_FLAG_UNFINISHED); /* in no account as completed */
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		cr_assert_eq(relay_lost_calls(relay, i), by_function[i] + 2);
	thread.name = string(relay, "late thread");
	cr_assert_eq(output->thread(output, &thread), 0);
	cr_assert_eq(output->anchor(output, &anchor), 0);
	process.name = process.command = string(relay, "late process");
	cr_assert_eq(output->process(output, &process), 0);
	put_event(relay, string(relay, "lost name"), 0, 1);
	relay_end(relay);
	cr_assert_eq(sink.thread_count + sink.anchor_count + sink.process_count + sink.event_count,
		     0);

	/* There is room again. */
	take_all(relay);
	put_event(relay, string(relay, "lost name"), 0, 2);
	take_all(relay);
	cr_assert_eq(sink.thread_count, 1);
	cr_assert_str_eq(name_of(sink.threads[0].name), "late thread");
	cr_assert_eq(sink.anchor_count, 1);
	cr_assert_str_eq(name_of(sink.processes[0].command), "late process");
	cr_assert_eq(sink.event_count, 1);
	cr_assert_eq(sink.events[0].scope_id, 2);
	cr_assert_str_eq(name_of(sink.events[0].name), "lost name");
	/* The last loss of calls: those of the end of fill, and these nine. */
	const struct loss_event *last = NULL;

	for (size_t i = 0; i < sink.loss_count; i++) {
		if (!sink.losses[i].pid)
			last = &sink.losses[i];
	}
	cr_assert_not_null(last);
	cr_assert_eq(last->last_ns, first_lost + 8);
	cr_assert_geq(last->count, 10);
	cr_assert_eq(last->first_ns + last->count - 1, last->last_ns, "%d from %d to %d",
		     (int)last->count, (int)last->first_ns, (int)last->last_ns);
	cr_assert_eq(relay_lost_events(relay), 1);
	cr_assert_eq(relay_settle(relay), 0);
	relay_destroy(relay);
}

Test(relay, manual_losses_by_ring)
{
	struct relay *relay = make(SMALLEST);
	uint64_t counts[2] = {0};

	relay_begin(relay, 10);
	relay_start(relay);
	fill(relay);
	relay_begin(relay, 20);
	relay_begin(relay, 30);
	for (uint64_t i = 0; i < 5; i++)
		put_event(relay, 0, i % 2 ? 255 : 3, i);
	cr_assert_eq(relay_lost_events(relay), 5);
	cr_assert_eq(relay_settle(relay), 0);
	for (size_t i = 0; i < sink.loss_count; i++) {
		const struct loss_event *loss = &sink.losses[i];

		if (!loss->pid)
			continue;
		cr_assert_eq(loss->pid, 7);
		cr_assert_eq(loss->place, LOSS_HANDOFF);
		cr_assert_eq(loss->first_ns, 20);
		cr_assert_leq(loss->last_ns, io_now_ns());
		cr_assert(loss->index == 3 || loss->index == 255);
		counts[loss->index == 255] += loss->count;
	}
	cr_assert_eq(counts[0], 3);
	cr_assert_eq(counts[1], 2);
	relay_destroy(relay);
}

/* Told while nothing goes through: they become few. */
Test(relay, losses_become_one_meanwhile)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	uint64_t counts[4] = {0};

	relay_start(relay);
	fill(relay);
	for (uint64_t i = 0; i < 4000; i++) {
		struct loss_event loss = {.first_ns = 100 + i,
					  .last_ns = 101 + i,
					  .count = 1,
					  .place = LOSS_KERNEL_RING,
					  .index = (uint16_t)(i % 4)};

		cr_assert_eq(output->loss(output, &loss), 0);
		relay_end(relay);
	}
	take_all(relay);
	relay_end(relay);
	take_all(relay);
	for (size_t i = 0; i < sink.loss_count; i++) {
		const struct loss_event *loss = &sink.losses[i];

		if (loss->place != LOSS_KERNEL_RING)
			continue;
		counts[loss->index] += loss->count;
		cr_assert_eq(loss->count, 1000);
		cr_assert_eq(loss->first_ns, 100u + loss->index);
		cr_assert_eq(loss->last_ns, 101u + 3996 + loss->index);
	}
	for (int i = 0; i < 4; i++)
		cr_assert_eq(counts[i], 1000);
	relay_destroy(relay);
}

Test(relay, more_losses_than_one_record_holds)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);

	relay_start(relay);
	for (uint32_t i = 0; i < 1000; i++) {
		struct loss_event loss = {.count = i + 1,
					  .place = LOSS_SEGMENT_LAP,
					  .index = (uint16_t)(i % 256),
					  .pid = 1 + i};

		cr_assert_eq(output->loss(output, &loss), 0);
	}
	relay_end(relay);
	take_all(relay);
	cr_assert_eq(sink.loss_count, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(sink.losses[i].pid, 1 + i);
	relay_destroy(relay);
}

/* Strings of all lengths, more than fit at once: some go now, the others when there is room. */
Test(relay, strings_that_do_not_fit_at_once)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	char *long_name = malloc(200000);
	uint32_t ids[64];

	relay_start(relay);
	for (uint32_t i = 0; i < 64; i++) {
		memset(long_name, 'a' + (int)i % 26, 200000);
		long_name[0] = (char)('0' + i);
		cr_assert_eq(output->string(output, long_name, i * i * 50, &ids[i]), 0);
	}
	relay_end(relay);
	cr_assert_eq(sink.name_count, 0);
	for (int i = 0; i < 20 && sink.name_count < 63; i++) {
		take_all(relay);
		relay_end(relay);
	}
	cr_assert_eq(sink.name_count, 63);
	for (uint32_t i = 1; i < 64; i++) {
		size_t length = i * i * 50 < 65536 ? i * i * 50 : 65536;

		cr_assert_eq(ids[i], i);
		cr_assert_eq(sink.lengths[i - 1], length, "string %u: %zu", i, sink.lengths[i - 1]);
		cr_assert_eq(sink.names[i - 1][0], '0' + i);
		cr_assert_eq(sink.names[i - 1][length - 1], 'a' + i % 26);
	}
	cr_assert_eq(relay_settle(relay), 0);
	free(long_name);
	relay_destroy(relay);
}

/*
 * A sink that takes nothing, and millions of threads that come and go: memory has a bound, and it
 * is counted.
 */
Test(relay, threads_have_a_bound)
{
	enum { THREADS = 3000000 };
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	struct rlimit room = {0};
	size_t behind;

	relay_start(relay);
	cr_assert(!getrlimit(RLIMIT_AS, &room));
	room.rlim_cur = 512 << 20;
	cr_assert(!setrlimit(RLIMIT_AS, &room));
	for (uint32_t i = 0; i < THREADS; i++) {
		struct thread_info thread = {.pid = 1, .tid = i, .change = THREAD_SEEN};

		cr_assert(!output->thread(output, &thread));
	}
	cr_assert_gt(relay_lost_threads(relay), THREADS / 4);
	behind = sink.thread_count;
	cr_assert(!relay_settle(relay));
	cr_assert_eq(sink.thread_count - behind + relay_lost_threads(relay), THREADS);
	relay_destroy(relay);
}

static void count_name(void *context, uint32_t *id)
{
	size_t *count = context;

	cr_assert(*id >= ID_OFFSET && *id < ID_OFFSET + sink.name_count);
	++*count;
}

/* A program that makes names up: they are forgotten, but never those that something still bears. */
Test(relay, names_without_end)
{
	enum { ROUNDS = 100, EACH = 1000 };
	struct relay *relay = make(SMALLEST);
	uint32_t first = 0, before = 0;
	char name[32], name_before[32] = "";

	relay_start(relay);
	for (uint64_t round = 0; round < ROUNDS; round++) {
		size_t known = 0, event = sink.event_count;

		relay_begin(relay, round);
		put_event(relay, before, 0, round); /* it was held back */
		for (int i = 0; i < EACH; i++) {
			snprintf(name, sizeof(name), "request %d.%d", (int)round, i);
			put_event(relay, string(relay, name), 0, round);
			put_event(relay, string(relay, "common"), 0, round);
			if (i % 100 == 99)
				take_all(relay);
		}
		relay_end(relay);
		take_all(relay);
		cr_assert_eq(sink.event_count, event + 1 + 2 * EACH);
		cr_assert_str_eq(name_of(sink.events[event].name), name_before);
		cr_assert_str_eq(name_of(sink.events[event + 2 * EACH - 1].name), name);
		cr_assert_str_eq(name_of(sink.events[event + 2 * EACH].name), "common");
		relay_visit_names(relay, count_name, &known);
		cr_assert_leq(known, 2 * (RELAY_NAMES_MOST + EACH + 1));
		before = string(relay, name);
		strcpy(name_before, name);
		first = first ? first : before;
	}
	/* So long nothing is held back, but it would be no failure. */
	put_event(relay, first, 0, 0);
	cr_assert_eq(relay_settle(relay), 0);
	cr_assert_eq(sink.events[sink.event_count - 1].name, 0);
	relay_destroy(relay);
}

/* The same while nothing is taken: the names of what is discarded do not wait. */
Test(relay, names_without_end_or_room)
{
	enum { ROUNDS = 100, EACH = 1000 };
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);
	struct thread_info thread = {.tid = 9, .change = THREAD_NAMED};
	struct process_info process = {.pid = 7};
	char name[32];

	relay_start(relay);
	fill(relay);
	thread.name = string(relay, "nine");
	cr_assert(!output->thread(output, &thread));
	for (int round = 0; round < ROUNDS; round++) {
		relay_begin(relay, 1);
		for (int i = 0; i < EACH; i++) {
			snprintf(name, sizeof(name), "request %d.%d", round, i);
			put_event(relay, string(relay, name), 0, 1);
		}
		relay_end(relay);
		process.name = string(relay, "seven");
		process.command = string(relay, name);
		cr_assert(!output->process(output, &process));
	}
	cr_assert_eq(relay_lost_events(relay), ROUNDS * EACH);
	cr_assert_eq(relay_settle(relay), 0);
	cr_assert_leq(sink.name_count, RELAY_NAMES_MOST + 2 * EACH);
	cr_assert_str_eq(name_of(sink.threads[0].name), "nine");
	cr_assert_eq(sink.process_count, ROUNDS);
	cr_assert_str_eq(name_of(sink.processes[ROUNDS - 64].name), "seven");
	cr_assert_str_eq(name_of(sink.processes[(ROUNDS - 1) % 64].command), name);
	put_event(relay, string(relay, "behind"), 0, 1);
	cr_assert_str_eq(name_of(sink.events[0].name), "behind");
	relay_destroy(relay);
}

Test(relay, what_is_kept_at_the_end_is_told)
{
	struct relay *relay = make(SMALLEST);

	relay_start(relay);
	uint64_t put = fill(relay);

	put_event(relay, string(relay, "kept"), 0, 1);
	cr_assert_eq(relay_settle(relay), 0);
	cr_assert_eq(sink.call_count, put);
	cr_assert_eq(sink.name_count, 1);
	cr_assert_eq(sink.event_count, 0);
	/* And then all goes through again. */
	put_event(relay, string(relay, "kept"), 0, 2);
	put_event(relay, string(relay, "new"), 0, 3);
	cr_assert_eq(sink.event_count, 2);
	cr_assert_str_eq(name_of(sink.events[0].name), "kept");
	cr_assert_str_eq(name_of(sink.events[1].name), "new");
	cr_assert_eq(relay_settle(relay), 0);
	relay_destroy(relay);
}

/* What it did not take is missing, also if nothing came after. */
Test(relay, a_sink_that_failed_last)
{
	struct relay *relay = make(SMALLEST);

	relay_start(relay);
	put_calls(relay, 10, 0);
	sink.err = -ENOMEM;
	cr_assert_eq(relay_take(relay), -ENOMEM);
	cr_assert_eq(relay_settle(relay), -ENOMEM);
	relay_destroy(relay);
}

Test(relay, a_sink_that_fails)
{
	struct relay *relay = make(SMALLEST);
	struct event_output *output = relay_output(relay);

	relay_start(relay);
	put_calls(relay, 10, 0);
	sink.err = -ENOSPC;
	cr_assert_eq(relay_take(relay), -ENOSPC);
	put_calls(relay, 10, 0);
	uint32_t id = string(relay, "never put");

	cr_assert_eq(relay_settle(relay), -ENOSPC);
	/* Nothing is put behind what is missing, and it is no other error. */
	struct manual_event event = {.name = id};

	sink.err = 0;
	cr_assert_eq(output->manual(output, &event, 1), -ENOSPC);
	cr_assert_eq(output->hooked(output, &(struct hooked_scope){0}, 1), -ENOSPC);
	cr_assert_eq(output->string(output, "other", 5, &id), -ENOSPC);
	cr_assert_eq(output->loss(output, &(struct loss_event){0}), -ENOSPC);
	cr_assert_eq(sink.call_count + sink.event_count + sink.name_count + sink.loss_count, 0);
	relay_destroy(relay);
}

/* ---- two threads ---- */

enum { ROUNDS = 4000 };

static atomic_bool drained;

static void *drain(void *context)
{
	struct relay *relay = context;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		char name[32];

		relay_begin(relay, io_now_ns());
		snprintf(name, sizeof(name), "name %d", (int)(round % 1000));
		put_event(relay, string(relay, name), (uint8_t)(round % 5), round);
		put_calls(relay, round * 7 % BATCH, 0);
		relay_end(relay);
		if (round % 100 == 0)
			sched_yield();
	}
	atomic_store(&drained, true);
	return NULL;
}

/*
 * The reader sleeps when there is nothing; every name is right, and what is not there is counted.
 */
Test(relay, two_threads, .timeout = 120)
{
	struct relay *relay = make(SMALLEST);
	uint64_t put = 0, lost = 0, told[2] = {0};
	pthread_t thread;

	for (uint64_t round = 0; round < ROUNDS; round++)
		put += round * 7 % BATCH;
	relay_start(relay);
	cr_assert_eq(pthread_create(&thread, NULL, drain, relay), 0);
	while (!atomic_load(&drained)) {
		if (relay_take(relay) == 0)
			sched_yield();
	}
	pthread_join(thread, NULL);
	cr_assert_eq(relay_settle(relay), 0);
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		lost += relay_lost_calls(relay, i);
	for (size_t i = 0; i < sink.loss_count; i++)
		told[sink.losses[i].pid != 0] += sink.losses[i].count;
	cr_assert_eq(sink.call_count + lost, put);
	cr_assert_eq(told[0], lost);
	cr_assert_eq(sink.event_count + relay_lost_events(relay), ROUNDS);
	cr_assert_eq(told[1], relay_lost_events(relay));
	cr_assert_eq(sink.name_count, 1000);
	cr_assert_eq(sink.disordered, 0);
	for (size_t i = 0; i < sink.event_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "name %d", (int)(sink.events[i].scope_id % 1000));
		cr_assert_str_eq(name_of(sink.events[i].name), name);
	}
	relay_destroy(relay);
}
