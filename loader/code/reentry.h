/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The jumps by which a function's own loop comes back to its probe. Purpose: with a probe on each
 * of them a turn of the loop is told from a call, whatever was left open. Stateless. It is all or
 * nothing: where one may be missing, none is told, and turns must be guessed.
 */
#ifndef SCOPETRACE_CODE_REENTRY_H
#define SCOPETRACE_CODE_REENTRY_H

#include "code/exits.h"

/*
 * Of a function of which function_shape_read has understood all code. 0 and *turns, malloc'ed, in
 * no order; -ENOTSUP when they are not all known, or the kernel takes no probe on one; -ENOMEM.
 */
int turns_read(const struct function_code *code, struct exit_site **turns, size_t *count);

#endif
