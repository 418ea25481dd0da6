/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code that goes over to another stack, in one file. Purpose: fibers and coroutines written by
 * hand, which import nothing that tells of them. Stateless. Invariants: a load of the stack pointer
 * counts unless it is seen to put back what its own frame has had; where that cannot be told it
 * counts too.
 */
#ifndef SCOPETRACE_CODE_STACK_SWITCH_H
#define SCOPETRACE_CODE_STACK_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "program/image.h"

struct stack_switch {
	bool found;
	uint64_t address; /* of the first one, as the file's symbols count */
};

/*
 * 0, with *found told, or -errno of reading it. Files for other machines than x86-64 and arm64:
 * none found.
 */
int stack_switch_find(struct image *image, struct stack_switch *found);

#endif
