/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The stubs (.plt) of one file. Purpose: which imported function a jump through one goes to, so
 * that a tail call into another file is known for what it is. One owner; lives no longer than the
 * image. Invariant: names are those of the file's own dynamic symbols.
 */
#ifndef SCOPETRACE_CODE_PLT_H
#define SCOPETRACE_CODE_PLT_H

#include <stddef.h>
#include <stdint.h>

#include "program/image.h"

/* A word that the dynamic linker fills with the address of a function. */
struct stub_slot {
	uint64_t address;
	const char *name;
};

struct stubs {
	const struct image *image;
	struct stub_slot *slots; /* by address */
	size_t count;
	size_t capacity;
};

/* 0 (also for a file without any) or -ENOMEM. */
int stubs_open(const struct image *image, struct stubs *stubs);
void stubs_close(struct stubs *stubs); /* takes a zeroed one too */

/* Raw name of the function whose address the dynamic linker puts into the word at `slot`, or NULL. */
const char *stubs_slot_name(const struct stubs *stubs, uint64_t slot);

/* Raw name of the function to which the stub at `address` jumps; NULL where no stub is. */
const char *stubs_target(const struct stubs *stubs, uint64_t address);

#endif
