/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The unwind tables of one file (.eh_frame, .debug_frame), by libdw. Purpose: whether the frame at
 * an instruction is as at the entry of its function (only there can a jump leave it), where a
 * function without a size ends, and what is a part of a function (.cold) rather than a function.
 * One owner; lives no longer than the image. Invariants: addresses are those of the file
 * (st_value); what the tables do not tell is "not known", never guessed.
 */
#ifndef SCOPETRACE_CODE_UNWIND_H
#define SCOPETRACE_CODE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/image.h"

/* What one entry (FDE) covers: a function, or a part of one. */
struct unwind_range {
	uint64_t address;
	uint64_t size;
	uint32_t order; /* of its entry in the file's table */
};

struct unwind {
	struct image *image;
	Dwarf_CFI *eh_frame; /* libdwfl owns both; NULL if the file has none */
	Dwarf_CFI *debug_frame;
	uint64_t eh_bias; /* what libdw adds to the addresses of the file */
	uint64_t debug_bias;
	struct unwind_range *ranges; /* by address, none twice */
	size_t count;
	uint32_t *ordered; /* their indexes in the order of the file's table; as many */
};

/* 0 (also for a file without tables: then nothing is known) or -ENOMEM. */
int unwind_open(struct image *image, struct unwind *unwind);
void unwind_close(struct unwind *unwind); /* takes a zeroed one too */

/*
 * True if the frame at `address` is as at the entry: nothing pushed, the return address where the
 * call left it. *known false: no table tells.
 */
bool unwind_is_entry_frame(const struct unwind *unwind, uint64_t address, bool *known);

/* The range that covers the address, or NULL. */
const struct unwind_range *unwind_range_of(const struct unwind *unwind, uint64_t address);

/*
 * The part that the compiler put elsewhere of the function whose range this is (its entry follows
 * the function's own, and begins in the midst of a frame), or NULL. One that begins with the frame
 * of an entry is not known by this.
 */
const struct unwind_range *unwind_part_of(const struct unwind *unwind,
					  const struct unwind_range *range);

/*
 * True if some function of the file has a personality routine (a 'P' in the augmentation of a CIE):
 * it has handlers or clean-ups that an exception would run. Needs no unwind_open.
 */
bool unwind_has_personality(struct image *image);

#endif
