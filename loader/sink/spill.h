/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A file without a name in which records wait for their turn. Purpose: sorted output of a capture
 * of any size in bounded memory. Owner: one sink. Invariant: what is in it comes out by stream, in
 * the order in which it went in. It lies in $TMPDIR or /var/tmp, and is gone with its process.
 */
#ifndef SCOPETRACE_SINK_SPILL_H
#define SCOPETRACE_SINK_SPILL_H

#include <stddef.h>
#include <sys/types.h>

struct spill;

/* For streams 0 to `streams` - 1. NULL with errno EBADMSG, logged. */
struct spill *spill_create(size_t streams);
void spill_destroy(struct spill *spill); /* takes NULL */

/* Whole records. 0, or -ENOMEM, or -EBADMSG, logged. */
int spill_add(struct spill *spill, size_t stream, const void *bytes, size_t length);

/* Takes the whole records at the beginning of the bytes: how many bytes they are, or -errno. */
typedef ssize_t (*spill_taker)(void *context, const unsigned char *bytes, size_t length);

/*
 * Gives all of the stream to `take`, and forgets it. 0, or what `take` failed with, or -EBADMSG,
 * logged.
 */
int spill_take(struct spill *spill, size_t stream, spill_taker take, void *context);

#endif
