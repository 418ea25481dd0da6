// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many scopes a second and core does the capture file take, by itself and through the hand-off?
 * The same generated batches, hooked and manual scopes in turn, are put into a capture writer by
 * one thread, and handed off by one thread to another that writes. One JSON line per figure; the
 * times are processor times of the thread in question. Medians of several rounds, the two in turn.
 *
 *     handoff_rate [SCOPES [ROUNDS]]     2,000,000 scopes and 7 rounds, into a file in $TMPDIR or /tmp,
 * removed
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "record/relay.h"
#include "file/writer.h"

enum { BATCH = 1000, AHEAD = 50, ROUNDS_MAX = 99 };

struct run {
	struct event_output *output;
	struct relay *relay;	    /* NULL: not through one */
	atomic_uint_fast64_t taken; /* up to this batch all is written */
	atomic_uint_fast64_t handed;
	uint64_t batches;
	uint64_t drain_ns; /* processor time of the thread that puts the batches in */
	uint64_t write_ns; /* of the thread that writes them */
	uint32_t name;
	atomic_bool over;
};

static struct hooked_scope hooked[BATCH];
static struct manual_event manual[BATCH];

static uint64_t thread_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A batch of hooked scopes, and one of half as many manual ones, two events each. */
static int put_batch(struct run *run)
{
	int err = run->output->hooked(run->output, hooked, BATCH);

	return err ? err : run->output->manual(run->output, manual, BATCH);
}

/* No further ahead than fits, so that nothing is lost; the wait is not counted. */
static void *drain(void *argument)
{
	struct run *run = argument;

	for (uint64_t i = 0; i < run->batches; i++) {
		uint64_t begin = thread_ns();

		relay_begin(run->relay, i + 1);
		if (put_batch(run))
			break;
		relay_end(run->relay);
		run->drain_ns += thread_ns() - begin;
		atomic_store(&run->handed, i + 1);
		while (atomic_load(&run->taken) + AHEAD < i + 1)
			sched_yield();
	}
	atomic_store(&run->over, true);
	return NULL;
}

static int write_handed_off(struct run *run, struct scope_file_writer *writer)
{
	pthread_t thread;
	int taken = 0;

	run->relay = relay_create(scope_file_writer_output(writer), RELAY_BYTES_DEFAULT, 1);
	if (!run->relay)
		return -1;
	run->output = relay_output(run->relay);
	relay_start(run->relay);
	if (pthread_create(&thread, NULL, drain, run))
		return -1;
	while (taken >= 0 && (taken || !atomic_load(&run->over))) {
		uint64_t handed = atomic_load(&run->handed), begin = thread_ns();

		taken = relay_take(run->relay);
		if (taken > 0)
			run->write_ns += thread_ns() - begin;
		if (taken)
			continue;
		atomic_store(&run->taken, handed);
		sched_yield();
	}
	pthread_join(thread, NULL);
	if (relay_settle(run->relay) || relay_lost_calls(run->relay, 0) ||
	    relay_lost_events(run->relay))
		return -1;
	return taken;
}

static int write_directly(struct run *run, struct scope_file_writer *writer)
{
	uint64_t begin = thread_ns();
	int err = 0;

	run->output = scope_file_writer_output(writer);
	for (uint64_t i = 0; i < run->batches && !err; i++)
		err = put_batch(run);
	run->write_ns = thread_ns() - begin;
	return err;
}

static int measure(const char *path, uint64_t scopes, bool through, struct run *run)
{
	struct scope_file_writer *writer = scope_file_writer_create(path, 0, NULL);
	struct function_info function = {0};
	int err;

	*run = (struct run){.batches = scopes / (BATCH + BATCH / 2)};
	if (!writer)
		return -1;
	err = scope_file_writer_function(writer, &function);
	if (!err)
		err = through ? write_handed_off(run, writer) : write_directly(run, writer);
	relay_destroy(run->relay);
	if (scope_file_writer_finish(writer, 0, 1, 0) || unlink(path))
		return -1;
	return err;
}

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print(const char *what, double *ns, size_t rounds, uint64_t scopes)
{
	qsort(ns, rounds, sizeof(*ns), by_value);
	printf("{\"bench\":\"handoff_rate\",\"thread\":\"%s\",\"scopes\":%llu,\"rounds\":%zu,\"ns_per_scope\":%.1f,"
	       "\"scopes_per_s_and_core\":%.0f}\n",
	       what, (unsigned long long)scopes, rounds, ns[rounds / 2], 1e9 / ns[rounds / 2]);
}

static void make_batches(void)
{
	for (int i = 0; i < BATCH; i++) {
		hooked[i] = (struct hooked_scope){.start_ns = 1000u * (unsigned)i,
						  .end_ns = 1000u * (unsigned)i + 500,
						  .pid = 1,
						  .tid = 2};
		manual[i] = (struct manual_event){.ticks = 1000u * (unsigned)i,
						  .scope_id = (unsigned)i / 2,
						  .pid = 1,
						  .tid = 2,
						  .kind = i % 2 ? MANUAL_STOP : MANUAL_START};
	}
}

int main(int argc, char **argv)
{
	uint64_t scopes = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
	size_t rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 7;
	static double direct[ROUNDS_MAX], drained[ROUNDS_MAX], written[ROUNDS_MAX];
	const char *directory = getenv("TMPDIR");
	char path[512];

	if (scopes < BATCH + BATCH / 2 || !rounds || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: handoff_rate [SCOPES [ROUNDS]]\n");
		return 2;
	}
	snprintf(path, sizeof(path), "%s/handoff_rate.%d.scope", directory ? directory : "/tmp",
		 (int)getpid());
	make_batches();
	for (size_t i = 0; i < rounds; i++) {
		struct run run;

		if (measure(path, scopes, false, &run))
			return 1;
		direct[i] = (double)run.write_ns / (double)scopes;
		if (measure(path, scopes, true, &run))
			return 1;
		drained[i] = (double)run.drain_ns / (double)scopes;
		written[i] = (double)run.write_ns / (double)scopes;
	}
	print("one that drains and writes", direct, rounds, scopes);
	print("the one that drains, into the hand-off", drained, rounds, scopes);
	print("the one that writes, out of the hand-off", written, rounds, scopes);
	return 0;
}
