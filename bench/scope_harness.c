// SPDX-License-Identifier: GPL-2.0-or-later
#include "scope_harness.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "reader.h"

/* ---- threads ---- */

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

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

/* Kept, so that every run finds the same memory. */
static struct scope_ring *ring_of(unsigned thread)
{
	static struct scope_ring *rings[THREADS_MAX];
	size_t size = sizeof(struct scope_ring) + LINES * sizeof(struct scope_slot);

	if (!rings[thread]) {
		rings[thread] = aligned_alloc(128, size);
		if (!rings[thread])
			exit(1);
		memset(rings[thread], 0, size);
	}
	return rings[thread];
}

double run_turns(void (*turns)(struct work *work), unsigned threads)
{
	struct work work[THREADS_MAX] = {{0}};
	pthread_barrier_t start;
	uint64_t ns = 0;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned i = 0; i < threads; i++) {
		work[i].start = &start;
		work[i].turns = turns;
		work[i].ring = ring_of(i);
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
	(void)context, (void)ring, (void)reason, (void)count;
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

struct recorder recorder_start(void)
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

void recorder_record(const struct recorder *recorder, bool on)
{
	char order = on;

	if (write(recorder->orders, &order, 1) != 1 || read(recorder->answers, &order, 1) != 1) {
		fprintf(stderr, "the reader has ended: may this user read its own processes?\n");
		exit(1);
	}
}

void recorder_end(const struct recorder *recorder)
{
	close(recorder->orders);
	close(recorder->answers);
	waitpid(recorder->pid, NULL, 0);
}

/* ---- figures ---- */

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

double median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), compare);
	return values[count / 2];
}
