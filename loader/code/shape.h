/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The shapes of the functions of a symbol table. Purpose: from a function to its bytes, its parts
 * elsewhere (.cold) and its unwind tables, and so to where it is left (disassemble.h); each read
 * once. Owner: the command; no longer than the table, whose files are kept open once they were
 * needed. One thread.
 */
#ifndef SCOPETRACE_CODE_SHAPE_H
#define SCOPETRACE_CODE_SHAPE_H

#include <stdbool.h>

#include "code/exits.h"
#include "program/symbol.h"

struct shapes;

/* NULL when memory is out. */
struct shapes *shapes_open(const struct symbol_table *table);
void shapes_close(struct shapes *shapes); /* takes NULL too */

/*
 * The shape of one of table->functions, valid until shapes_close. 0; -ENOTSUP, and (*shape)->why
 * tells what is not understood, or why its bytes cannot be read; -ENOMEM, and there is no shape.
 */
int shapes_of(struct shapes *shapes, const struct function *function,
	      const struct function_shape **shape);

/*
 * The jumps by which the function's own loop comes back to its probe, valid until shapes_close, and
 * how many there are: all of them, or 0 where it has none or not all are known (turn.h).
 */
size_t shapes_turns(struct shapes *shapes, const struct function *function,
		    const struct exit_site **turns);

/*
 * True if the unwind tables tell that something is on the stack already where the function's probe
 * goes: it is a label in the midst of another one, and what lies at its stack pointer is no return
 * address.
 */
bool shapes_is_amid_frame(struct shapes *shapes, const struct function *function);

/*
 * Raw name of the function of another file to which the stub (.plt) at `address` of this one jumps,
 * or NULL.
 */
const char *shapes_import(struct shapes *shapes, const struct module *module, uint64_t address);

/*
 * True if the function looks at its own return address (code/return_slot.h), or hands it on by a tail
 * call to what does, or calls what looks at that of its caller: no uretprobe may replace it. Also true
 * where memory is short.
 */
bool shapes_looks_at_return(struct shapes *shapes, const struct function *function);

/*
 * True if nothing that runs between the function's entry and its return can unwind or switch stacks
 * past it: it is a leaf, or every call and every jump out of it goes directly to a function of the
 * same module of which the same is true. Signal handlers and asynchronous cancellation are for the
 * caller to judge.
 */
bool shapes_is_closed(struct shapes *shapes, const struct function *function);

#endif
