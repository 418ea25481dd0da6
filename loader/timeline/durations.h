/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a set of durations comes to. Purpose: one definition of a percentile for all that is reported.
 * Stateless.
 */
#ifndef SCOPETRACE_TIMELINE_DURATIONS_H
#define SCOPETRACE_TIMELINE_DURATIONS_H

#include "timeline/timeline.h"

/* Exact, by nearest rank; puts the durations in order. */
void statistics_of_durations(uint64_t *durations, uint64_t count, struct duration_statistics *statistics);

#endif
