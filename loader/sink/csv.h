/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * `export -t csv`: a header, then one row a scope, in the order of the timeline (pid, tid, start).
 * Purpose: what other programs read, the tests' independent checker among them. RFC 4180, but lines
 * end in \n alone. Stateless.
 */
#ifndef SCOPETRACE_SINK_CSV_H
#define SCOPETRACE_SINK_CSV_H

#include "sink/sink.h"

int csv_write(const struct timeline *timeline, FILE *out, const struct sink_options *options);

#endif
