// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What does a manual scope cost? `scope_cost [ROUNDS]` (default 7), also linked as scope_cost_shared with
 * libscope.so. All variants run in turn in each round, on 1, 2 and 8 threads, while another process drains
 * the rings every millisecond; a figure is the median over the rounds of the mean CPU time of one turn, in
 * ns. Prints a JSON line each.
 *
 *     empty     the loop alone, with a store that stands for work
 *     floor     two counter reads and two stores of 64 bytes, into lines that walk through a buffer like a
 * ring's disabled  SCOPE("...") with nobody recording;   enabled  the same, recorded;   hot  SCOPE_HOT("...")
 *     clock     two clock_gettime: the floor of the fallback clock (run with SCOPE_CLOCK=monotonic to
 * compare)
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "reader.h"
#include "scope.h"

enum { TURNS = 400000, ROUNDS_MAX = 99, THREADS_MAX = 8, LINES = 8192 };

static const unsigned thread_counts[] = {1, 2, 8};

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct work {
	pthread_t thread;
	pthread_barrier_t *start;
	void (*turns)(struct work *work);
	uint64_t sink;
	uint64_t ns;
	struct scope_slot *lines;
};

/* Each loop does this much besides, so that none of them is optimised away. */
#define TURN_WORK(work) __atomic_store_n(&(work)->sink, (work)->sink + 1, __ATOMIC_RELAXED)

static void run_empty(struct work *work)
{
	for (unsigned i = 0; i < TURNS; i++)
		TURN_WORK(work);
}

static void store_line(struct work *work, uint64_t at, uint64_t ticks)
{
	struct scope_slot *line = &work->lines[at % LINES];

	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		__atomic_store_n(&line->word[i], ticks + i, __ATOMIC_RELAXED);
	__atomic_store_n(&line->stamp, at, __ATOMIC_RELEASE);
}

static void run_floor(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		store_line(work, 2 * i, clock_raw());
		TURN_WORK(work);
		store_line(work, 2 * i + 1, clock_raw());
	}
}

static void run_clock(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		store_line(work, 2 * i, clock_monotonic_ns());
		TURN_WORK(work);
		store_line(work, 2 * i + 1, clock_monotonic_ns());
	}
}

static void run_scope(struct work *work)
{
	for (unsigned i = 0; i < TURNS; i++) {
		SCOPE("a scope of the benchmark");
		TURN_WORK(work);
	}
}

static void run_hot(struct work *work)
{
	for (unsigned i = 0; i < TURNS; i++) {
		SCOPE_HOT("a hot scope of bench");
		TURN_WORK(work);
	}
}

struct variant {
	const char *name;
	void (*turns)(struct work *work);
	bool recorded;
};

static const struct variant variants[] = {
	{"empty", run_empty, false},  {"disabled", run_scope, false}, {"floor", run_floor, true},
	{"enabled", run_scope, true}, {"hot", run_hot, true},	      {"clock", run_clock, true},
};

enum { VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static void *run_thread(void *argument)
{
	struct work *work = argument;
	uint64_t before;

	work->turns(work); /* the first time makes pages present and begins the thread */
	pthread_barrier_wait(work->start);
	before = cpu_ns();
	work->turns(work);
	work->ns = cpu_ns() - before;
	return NULL;
}

static double run_once(const struct variant *variant, unsigned threads, struct scope_slot *lines)
{
	struct work work[THREADS_MAX] = {{0}};
	pthread_barrier_t start;
	uint64_t ns = 0;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		work[i].start = &start;
		work[i].turns = variant->turns;
		work[i].lines = lines + (size_t)i * LINES;
		if (pthread_create(&work[i].thread, NULL, run_thread, &work[i]) != 0)
			exit(1);
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(work[i].thread, NULL);
		ns += work[i].ns;
	}
	pthread_barrier_destroy(&start);
	return (double)ns / threads / TURNS;
}

/* ---- the other process ---- */

static int pass_record(void *context, uint32_t ring, const struct scope_record *record)
{
	(void)ring;
	*(uint64_t *)context += record->ticks;
	return 0;
}

static int pass_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context;
	(void)ring;
	(void)reason;
	(void)count;
	return 0;
}

/* Drains, records while told to, and says when it does. */
static void run_reader(int orders, int answers)
{
	struct scope_reader *reader = scope_reader_open(getppid());
	uint64_t sum = 0;
	struct scope_reader_events events = {.context = &sum, .record = pass_record, .gap = pass_gap};
	char order;

	if (!reader)
		_exit(1);
	for (;;) {
		ssize_t got = read(orders, &order, 1);

		if (got == 0)
			break;
		if (got == 1) {
			scope_reader_capture(reader, order ? 3600000000000ull : 0);
			if (write(answers, &order, 1) != 1)
				break;
		}
		scope_reader_drain(reader, &events, 0);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	scope_reader_close(reader);
	_exit(0);
}

struct recorder {
	pid_t pid;
	int orders;
	int answers;
};

static struct recorder start_recorder(void)
{
	struct recorder recorder;
	int orders[2], answers[2];

	if (pipe2(orders, 0) != 0 || pipe2(answers, 0) != 0)
		exit(1);
	recorder.pid = fork();
	if (recorder.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(orders[1]);
		close(answers[0]);
		fcntl(orders[0], F_SETFL, O_NONBLOCK);
		run_reader(orders[0], answers[1]);
	}
	close(orders[0]);
	close(answers[1]);
	recorder.orders = orders[1];
	recorder.answers = answers[0];
	return recorder;
}

static void record(const struct recorder *recorder, bool on)
{
	char order = on;

	if (write(recorder->orders, &order, 1) != 1 || read(recorder->answers, &order, 1) != 1) {
		fprintf(stderr, "scope_cost: the reader has ended: may this user read its own processes?\n");
		exit(1);
	}
}

/* ---- figures ---- */

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}

static void print_figures(unsigned threads, unsigned rounds, double ns[VARIANTS][ROUNDS_MAX])
{
	double of[VARIANTS];

	for (unsigned i = 0; i < VARIANTS; i++) {
		of[i] = median(ns[i], rounds);
		printf("{\"bench\":\"scope_cost\",\"threads\":%u,\"figure\":\"%s\",\"ns\":%.2f,\"min\":%.2f,"
		       "\"max\":%.2f}\n",
		       threads, variants[i].name, of[i], ns[i][0], ns[i][rounds - 1]);
	}
	printf("{\"bench\":\"scope_cost\",\"threads\":%u,\"figure\":\"disabled over empty\",\"ns\":%.2f}\n",
	       threads, of[1] - of[0]);
	printf("{\"bench\":\"scope_cost\",\"threads\":%u,\"figure\":\"enabled / floor\",\"ratio\":%.3f}\n",
	       threads, of[3] / of[2]);
	printf("{\"bench\":\"scope_cost\",\"threads\":%u,\"figure\":\"hot / floor\",\"ratio\":%.3f}\n",
	       threads, of[4] / of[2]);
	printf("{\"bench\":\"scope_cost\",\"threads\":%u,\"figure\":\"enabled / clock\",\"ratio\":%.3f}\n",
	       threads, of[3] / of[5]);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 7;
	struct scope_slot *lines = aligned_alloc(64, sizeof(*lines) * LINES * THREADS_MAX);
	static double ns[VARIANTS][ROUNDS_MAX];
	struct recorder recorder;

	if (!lines || rounds < 1 || rounds > ROUNDS_MAX)
		return 1;
	memset(lines, 0, sizeof(*lines) * LINES * THREADS_MAX);
	recorder = start_recorder();
	for (unsigned t = 0; t < sizeof(thread_counts) / sizeof(thread_counts[0]); t++) {
		for (unsigned round = 0; round < rounds; round++) {
			for (unsigned i = 0; i < VARIANTS; i++) {
				record(&recorder, variants[i].recorded);
				ns[i][round] = run_once(&variants[i], thread_counts[t], lines);
			}
		}
		print_figures(thread_counts[t], rounds, ns);
	}
	close(recorder.orders);
	waitpid(recorder.pid, NULL, 0);
	free(lines);
	return 0;
}
