/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a chunk holds, in one entry. Purpose: a reader finds the chunks it needs without reading
 * all. Stateless.
 */
#ifndef SCOPETRACE_FILE_INDEX_H
#define SCOPETRACE_FILE_INDEX_H

#include <stddef.h>

#include "file/chunk.h"

/* The entry of a chunk of `count` records of this build's size (strings: not looked at). */
struct index_entry index_entry_make(uint64_t offset, uint16_t type, const void *records,
				    uint32_t count);

/*
 * The entries of all chunks of a seekable file, in their order, but for header, index and footer:
 * malloc'ed, the caller frees. From the file's own index, if it has one that covers it; else the
 * file is read through. 0 or -errno, as chunk_reader_next() has it.
 */
int scope_file_index_read(struct scope_file *file, struct index_entry **entries, size_t *count);

#endif
