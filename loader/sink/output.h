/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a result goes: standard output, a device or fifo, or a file that appears only when it is
 * whole. Owner: the one command that opened it.
 *
 * Invariant: a file is written without a name where the file system allows it (O_TMPFILE), so that
 * even a kill -9 leaves nothing behind, otherwise under a temporary name beside its own; until
 * output_commit an older file of that name stays.
 */
#ifndef SCOPETRACE_SINK_OUTPUT_H
#define SCOPETRACE_SINK_OUTPUT_H

#include <stdio.h>

struct output;

/* Opens `path` ("-": standard output). NULL with errno; says nothing. */
struct output *output_open(const char *path);

/* The stream to write to; the output's own. */
FILE *output_stream(struct output *output);

/* Flushes, closes and, for a file, gives it its name; frees in any case. 0 or -errno, and then nothing of it
 * is left. */
int output_commit(struct output *output);

/* Throws away what was written, and frees. */
void output_discard(struct output *output);

/*
 * Flushes a stream and tells whether all that was written to it arrived: 0 or -errno of the write
 * that failed. For that, set errno to 0 before the first write: stdio keeps the fact of an error
 * but not its number.
 */
int output_result(FILE *stream);

#endif
