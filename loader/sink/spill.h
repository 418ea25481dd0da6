/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file without a name in which output waits for its turn. Purpose: sorted output of a capture of any size
 * in bounded memory. Owner: one sink. Invariant: what is in it comes out by stream, in the order in which it
 * went in. It lies in $TMPDIR or /var/tmp, and is gone with its process.
 */
#ifndef SCOPETRACE_SINK_SPILL_H
#define SCOPETRACE_SINK_SPILL_H

#include <stdio.h>

struct spill;

/* For streams 0 to `streams` - 1. NULL with errno EBADMSG, said. */
struct spill *spill_create(size_t streams);
void spill_destroy(struct spill *spill); /* takes NULL */

/* 0, or -ENOMEM, or -EBADMSG, said. */
int spill_add(struct spill *spill, size_t stream, const void *bytes, size_t length);

/* Writes all of the stream to `out`, and forgets it. 0, or -errno of `out`, or -EBADMSG, said. */
int spill_put(struct spill *spill, size_t stream, FILE *out);

#endif
