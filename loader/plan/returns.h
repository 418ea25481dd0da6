/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the ends of calls are seen, function by function. Purpose: never to kill what we watch
 *. Owner: the command; const once made.
 *
 * The kernel's uretprobe puts a return address of its own on the stack: cheap, and deadly where
 * anything unwinds or switches past it. The hazard belongs to the process; the exception is a
 * function in which nothing but itself, and others like it, runs from its entry to its return.
 */
#ifndef SCOPETRACE_PLAN_RETURNS_H
#define SCOPETRACE_PLAN_RETURNS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "bpf/scope_event.h"
#include "code/shape.h"
#include "plan/hazard.h"
#include "program/symbol.h"

enum return_reason {
	RETURN_ASKED = 1, /* --returns asks for it */
	RETURN_HARMLESS,  /* nothing in the process can unwind or switch past a return address */
	RETURN_CLOSED,	  /* nothing that could runs inside this function */
	RETURN_HAZARD,	  /* something in the process can */
	/* of a library, and the process may go on with another program, which may */
	RETURN_EXEC,
	/* its own loop re-enters at the probe, and each time would use up a uretprobe */
	RETURN_LOOP,
	RETURN_JUMPS,	 /* a longjmp may leave it, and the kernel would keep its uretprobe */
	RETURN_RECURSES, /* it calls itself, and the kernel has 64 uretprobes for a thread */
	RETURN_OWN,	 /* it looks at its own return address, which a uretprobe replaces */
	RETURN_POPS,	 /* it pops its arguments (ret $N): a uretprobe would not find its entry */
	RETURN_REASONS,
};

struct return_choice {
	enum return_mode mode;
	enum return_reason reason;
	/* with RETURNS_INSTRUCTION; with RETURNS_URETPROBE chosen by itself, if known; or NULL */
	const struct function_shape *shape;
	const char *refused; /* why the function is left out; NULL: it is not */
	uint32_t overlap;    /* of functions whose code overlaps, one number; else 0 */
	bool loops;	     /* an entry on its own open frame is loop re-entry, not a call */
	bool inside;	     /* its entry lies inside another of the functions */
};

struct returns {
	const struct function *const *functions;
	struct return_choice *choices; /* one for each function, in their order */
	size_t count;
	size_t exit_count; /* of all functions together, however their returns are seen now */
	size_t refused;
	enum return_mode mode; /* asked for */
	struct shapes *shapes;
	const struct hazard *hazard;
};

/*
 * Chooses for each of `functions`, which lie in `table` in its order; NULL ones are left out. With
 * RETURNS_AUTO by the hazard; other modes are taken as they are. 0 or -ENOMEM. returns_clear in any
 * case, before the table is closed.
 */
int returns_make(struct returns *returns, const struct symbol_table *table,
		 const struct hazard *hazard, const struct function *const *functions, size_t count,
		 enum return_mode mode);
void returns_clear(struct returns *returns);

/*
 * The same again, in *returns, with what has been found of its hazard since. Both share what was
 * read of the files: one of them is to be cleared, and of the other no more than `choices` freed. 0
 * or -ENOMEM, with that one.
 */
int returns_remake(const struct returns *former, struct returns *returns);

/* True if both see the ends of all calls in the same way. */
bool returns_are_alike(const struct returns *a, const struct returns *b);

/*
 * Logs a line for each mode and reason; the usual case (uretprobes, nothing to fear) only if `all`.
 */
void returns_log(const struct returns *returns, bool all);

const char *return_mode_name(enum return_mode mode); /* as in --returns */

/* In a few words, e.g. "nothing inside can throw or switch stacks". */
const char *return_reason_text(enum return_reason reason);

#endif
