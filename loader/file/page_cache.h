/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What long captures leave in the kernel's page cache. Purpose: they must not push out what the
 * traced programs have there, and pages used again cost less than new ones. Owner: one capture
 * writer, or one reader. Invariants: no writer waits for the disk; where that is slower, the kernel
 * keeps what it must. A file that was in memory before it was read stays there.
 */
#ifndef SCOPETRACE_FILE_PAGE_CACHE_H
#define SCOPETRACE_FILE_PAGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define SCOPE_FILE_CACHE_WINDOW (4u << 20)
#define SCOPE_FILE_CACHE_START	16 /* windows behind the end the disk is given work, and */
#define SCOPE_FILE_CACHE_KEPT	32 /* this many stay in memory: short captures as a whole */

struct scope_file_cache {
	bool is_off;	  /* also where the kernel cannot say what is written: before Linux 6.5 */
	uint64_t window;  /* bytes that are handled at once */
	uint64_t looked;  /* the file's end, the last time */
	uint64_t started; /* up to here its writing was begun, and */
	uint64_t dropped; /* up to here it is no longer in memory */
};

/* For a file that begins at `base`. */
void scope_file_cache_init(struct scope_file_cache *cache, uint64_t base);

/* The file goes up to `end` now. */
void scope_file_cache_written(struct scope_file_cache *cache, int fd, uint64_t end);

#define SCOPE_FILE_CACHE_LONG \
	(1ull << 30) /* shorter files may stay as a whole: they are read twice */

/* Where a reader is. */
struct scope_file_cache_window {
	bool is_off; /* most of the file was in memory when the reader came, or it is short */
	uint64_t first, length;
};

void scope_file_cache_window_init(struct scope_file_cache_window *window, int fd);

/* What is at `offset` is read next. */
void scope_file_cache_read(struct scope_file_cache_window *window, int fd, uint64_t offset);

#endif
