/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a growing capture leaves in the kernel's page cache. Purpose: a long one must not push out what the
 * traced programs have there, and pages used again cost less than new ones. Owner: one capture writer.
 * Invariant: nothing waits for the disk; where that is slower than the writer, the kernel keeps what it must.
 */
#ifndef SCOPETRACE_TIMELINE_CAPTURE_CACHE_H
#define SCOPETRACE_TIMELINE_CAPTURE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define CAPTURE_CACHE_WINDOW (4u << 20)
#define CAPTURE_CACHE_START  16 /* windows behind the end the disk is given work, and */
#define CAPTURE_CACHE_KEPT   32 /* this many stay in memory: short captures as a whole */

struct capture_cache {
	bool is_off;	  /* also where the kernel cannot say what is written: before Linux 6.5 */
	uint64_t window;  /* bytes that are handled at once */
	uint64_t looked;  /* the file's end, the last time */
	uint64_t started; /* up to here its writing was begun, and */
	uint64_t dropped; /* up to here it is no longer in memory */
};

/* For a file that begins at `base`. */
void capture_cache_init(struct capture_cache *cache, uint64_t base);

/* The file goes up to `end` now. */
void capture_cache_written(struct capture_cache *cache, int fd, uint64_t end);

#endif
