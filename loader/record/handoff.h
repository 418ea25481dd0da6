/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The hand-off buffer between a thread that must not wait, the writer, and one
 * that may, the reader. Purpose: a drain keeps its pace while the disk does not; what finds no room
 * is discarded and counted, and the count stands in the stream where the records are missing. One
 * writer, one reader, each of them one thread at a time; the writer may be a signal handler, also
 * one that interrupts the reader.
 *
 * A record is `length, time, header, payload` in 64-bit words, length counting all of them, and one
 * tag that says whose it is. Words and tags lie in two rings that run in parallel. Both positions
 * are one 64-bit word each (tags in the high bits, words in the low 32) and so advance together. A
 * record is never cut by the end of its ring: a length of zero says that it goes on at the
 * beginning.
 *
 * A record with a null tag tells of discarded writes: its time is that of the first, its header is
 * zero, its payload one word, their number (PENDING_COUNT_MAX: so many, or more). It comes behind
 * all that was written before them, and before all that was written after.
 *
 * Progress: handoff_write is lock-free, allocates nothing and never waits; only a handoff_read that
 * is told to wait does.
 */
#ifndef SCOPETRACE_RECORD_HANDOFF_H
#define SCOPETRACE_RECORD_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDOFF_FIXED_WORDS 2	       /* of each record, before its header: length, time */
#define HANDOFF_SIZE_END    (1u << 28) /* sizes of the rings are below this */

struct handoff;

/*
 * A buffer of `data_words` words and `tags` tags, both powers of two, for records with a header of
 * `header_words`: at least one record of discarded writes (HANDOFF_FIXED_WORDS + header_words + 1)
 * must fit. A record of up to half of the words finds room in an empty buffer; a longer one only at
 * some of its places. NULL with errno: EINVAL, ENOMEM, or that of eventfd(2). Nothing is logged.
 */
struct handoff *handoff_create(size_t header_words, size_t data_words, size_t tags);
void handoff_destroy(struct handoff *handoff); /* takes NULL */

/* ---- the writer ---- */

struct handoff_record {
	void *tag; /* never null */
	uint64_t time_ns;
	const uint64_t *header; /* a shorter one than the buffer's is filled up with zeros */
	size_t header_words;
	const uint64_t *payload;
	size_t payload_words;
};

/*
 * Copies a record into the buffer. 0; -ENOBUFS: no room, discarded and counted; -EINVAL: a null tag
 * or a longer header than the buffer's; -EPIPE: closed. Without a buffer (NULL) nothing happens: 0.
 */
int handoff_write(struct handoff *handoff, const struct handoff_record *record);

/*
 * Nothing more will be written: the reader meets the end behind the last record. 0 or -EPIPE:
 * closed before.
 */
int handoff_close(struct handoff *handoff);

/* ---- the reader ---- */

enum handoff_state {
	HANDOFF_RECORDS,
	HANDOFF_EMPTY, /* nothing now */
	HANDOFF_END,   /* closed, and all is read */
};

/* Whole records in a row. They lie in the buffer, and are the reader's until its next read. */
struct handoff_batch {
	const uint64_t *data;
	size_t words;
	void *const *tags; /* of each of the records */
	size_t records;
};

/*
 * The records up to where one of the rings begins anew, or one of discarded writes; gives back
 * those of the read before. With `wait` it sleeps until there is something, and HANDOFF_EMPTY is no
 * answer; without a buffer (NULL) it is the end. A buffer that does not add up is logged, and ends
 * the program.
 */
enum handoff_state handoff_read(struct handoff *handoff, bool wait, struct handoff_batch *batch);

/*
 * For a reader that waits for other things too, after HANDOFF_EMPTY. True: handoff_fd will be
 * readable as soon as there is something to read; it may be before that. False: there is, read
 * again.
 */
bool handoff_sleep(struct handoff *handoff);
int handoff_fd(const struct handoff *handoff);

#endif
