/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a set of durations comes to. Purpose: one definition of a percentile for all that is
 * reported, in bounded memory. Owner: one thread. Invariants: count, total, minimum and maximum are
 * exact; percentiles are exact up to DURATIONS_EXACT durations, beyond they are the middle of a
 * bucket: of 128 in each power of two, so within 1/256 of the truth.
 */
#ifndef SCOPETRACE_TIMELINE_DURATIONS_H
#define SCOPETRACE_TIMELINE_DURATIONS_H

#include "timeline/timeline.h"

#define DURATIONS_EXACT	  1024
#define DURATIONS_OCTAVES 58 /* below 128 ns, and each power of two from there on */

struct durations {
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns, max_ns;
	uint64_t *exact; /* all of them, while they are few */
	size_t exact_capacity;
	/* then, each made when it is needed: how many are in each of its 128 buckets */
	uint64_t **octaves;
};

/* 0 or -ENOMEM. */
int durations_add(struct durations *durations, uint64_t ns);

/* Zeros where there is none. */
void durations_summary(struct durations *durations, struct duration_statistics *statistics);

/* Frees what it holds; it is empty and usable afterwards. */
void durations_clear(struct durations *durations);

#endif
