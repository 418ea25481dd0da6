/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several files of one capture, as its drainers left them. Purpose: a drainer that was killed has
 * written records that the next one reads again; each is told once. Owner: who reads the files.
 * Invariant: two records are one only if they came from the same place: the same end in the same
 * kernel's ring, the same claim in the same ring of the same segment. Of losses of known claims
 * those stay that no file has an event of, each once; others are one if they are the same in all
 * they say. What a capture of a ring ends with (scopes of no place in the ring, accounts of
 * functions) is that of one file, the account of a segment that of the last file with one. Other
 * records (strings, functions, processes, threads, anchors) say again what is so, and are left to
 * their reader.
 *
 * Memory grows with what the files may have in common, not with the files.
 */
#ifndef SCOPETRACE_FILE_JOIN_H
#define SCOPETRACE_FILE_JOIN_H

#include "file/chunk.h"

struct scope_file_join;

/*
 * Reads all of the files, which must be seekable, to find what they repeat. NULL with errno, logged:
 * EINVAL (not parts of one capture, or one of them twice), EFBIG (they have too much in common), or
 * as chunk_reader_next() has it.
 */
struct scope_file_join *scope_file_join_create(struct scope_file *const *files, size_t count);
void scope_file_join_destroy(struct scope_file_join *join); /* takes NULL */

/*
 * From here on the reader, which reads file `index` of those, passes over what an earlier file
 * holds.
 */
void scope_file_join_apply(const struct scope_file_join *join, size_t index,
			   struct chunk_reader *reader);

/* How many records are passed over, in all files. */
uint64_t scope_file_join_repeats(const struct scope_file_join *join);

#endif
