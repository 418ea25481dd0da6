/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A thread that drains. Purpose: a source is drained at its own pace, whatever the thread that
 * writes waits for. Owner: the thread that starts it. It takes turns until it is stopped or one
 * fails; between two it sleeps for as long as the turn says. It takes no signals, and runs soon
 * after it wakes (pace_begin).
 */
#ifndef SCOPETRACE_RECORD_DRAIN_THREAD_H
#define SCOPETRACE_RECORD_DRAIN_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "source/pace.h"

/* One turn: 0 or -errno (logged). *pause_ns: how long to sleep after it. */
typedef int (*drainer_turn)(void *context, struct pace *pace, uint64_t *pause_ns);

/* Zero to begin with. */
struct drainer {
	drainer_turn turn;
	void *context;
	pthread_t thread;
	bool started;
	int stop;	/* eventfd, written to by the owner */
	int over;	/* eventfd, written to by the thread when a turn has failed */
	atomic_int err; /* of that turn */
};

/* 0 or -errno (logged). */
int drainer_start(struct drainer *drainer, drainer_turn turn, void *context);

/* True if a turn has failed: nothing more comes of it but its error, from drainer_stop. The fd (-1: not
 * started) becomes readable then. */
bool drainer_failed(const struct drainer *drainer);
int drainer_fd(const struct drainer *drainer);

/*
 * Ends it after its present turn. 0 or -errno of a turn; also if it was stopped before, or never
 * started.
 */
int drainer_stop(struct drainer *drainer);

#endif
