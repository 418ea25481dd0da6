/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether a function looks at its own return address. Purpose: a uretprobe replaces that address, so
 * such a function would read the kernel's trampoline: setjmp's like, dlsym (which asks from where it is
 * called), __builtin_return_address(0), code that pops its return address. Stateless; x86-64 only (on
 * arm64 the address is in a register that every function saves).
 */
#ifndef SCOPETRACE_CODE_RETURN_SLOT_H
#define SCOPETRACE_CODE_RETURN_SLOT_H

#include <stdbool.h>

#include "code/exits.h"

/*
 * Follows the function's control flow from its entry with the stack pointer's distance from the entry,
 * each instruction once. *looks: an instruction reads the word at the entry's stack pointer, pops it,
 * or makes its address. Code that cannot be decoded is not followed. 0, -ENOMEM, or -ENOTSUP for a
 * machine that it does not know; then *looks is false.
 */
int return_slot_read(const struct function_code *code, bool *looks);

/*
 * Whether a call or tail call of the C library's function of this name looks at the return address of
 * its caller's frame, whatever its code is: mcount, dlsym ... `is_tail`: control goes on there with the
 * return address of the function itself.
 */
bool return_slot_is_read_by(const char *name, bool is_tail);

#endif
