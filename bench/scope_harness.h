/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the benchmarks of manual scopes share. Purpose: the same loop under threads of its own, timed by the
 * CPU time of each, while another process drains the segment of this one every millisecond, as the loader
 * does.
 */
#ifndef SCOPETRACE_BENCH_SCOPE_HARNESS_H
#define SCOPETRACE_BENCH_SCOPE_HARNESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment.h"

enum { TURNS = 200000, ROUNDS_MAX = 99, THREADS_MAX = 32, LINES = 8192 };

/*
 * One thread's: the loop to run, and a ring of its own for loops that do not go through libscope. Apart from
 * the others' by two cache lines, or their counting would be what is measured.
 */
struct work {
	_Alignas(128) pthread_t thread;
	pthread_barrier_t *start;
	void (*turns)(struct work *work);
	struct scope_ring *ring; /* with LINES slots behind it */
	uint64_t sink;
	uint64_t ns;
};

/* Each loop does this much besides, so that none of them is optimised away. */
#define TURN_WORK(work) __atomic_store_n(&(work)->sink, (work)->sink + 1, __ATOMIC_RELAXED)

/* The mean CPU time of one turn, in ns, on `threads` threads. */
double run_turns(void (*turns)(struct work *work), unsigned threads);

/* The other process. Start it before any thread. */
struct recorder {
	pid_t pid;
	int orders;
	int answers;
};
struct recorder recorder_start(void);
void recorder_record(const struct recorder *recorder, bool on);
void recorder_end(const struct recorder *recorder);

/* Sorts. */
double median(double *values, unsigned count);

#endif
