/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `export -t perfetto`: a protobuf trace for ui.perfetto.dev and trace_processor. Purpose: the
 * picture. Stateless.
 *
 * One packet sequence. A track per process (pid), a track per lane below it (so a recycled tid is
 * another track), a child track per sub-lane, and "lost events" tracks. Times are CLOCK_MONOTONIC,
 * as in every other export.
 *
 * Invariants: a track's events stand in time order, each begin has its end, and equal times nest
 * right: ends of inner scopes before ends of outer ones, those before begins, and a scope of no
 * length whole. Viewers sort by time and keep the order of the file among equals.
 */
#ifndef SCOPETRACE_SINK_PERFETTO_H
#define SCOPETRACE_SINK_PERFETTO_H

#include "sink/sink.h"

int perfetto_write(const struct timeline *timeline, FILE *out, const struct sink_options *options);

#endif
