/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the ends of calls are seen, function by function. Purpose: never to kill what we watch
 * (design: pairing.md, "Safe returns"). Owner: the command; const once made.
 *
 * The kernel's uretprobe puts a return address of its own on the stack: cheap, and deadly where
 * anything unwinds or switches past it. The hazard belongs to the process; the exception is a
 * function in which nothing but itself, and others like it, runs from its entry to its return.
 */
#ifndef SCOPETRACE_PLAN_RETURNS_H
#define SCOPETRACE_PLAN_RETURNS_H

#include <stdbool.h>
#include <stddef.h>

#include "code/exits.h"
#include "plan/hazard.h"
#include "code/shape.h"
#include "program/symbol.h"

/* The numbers are those of enum return_mode (bpf/scope_event.h). */
enum return_way {
	RETURN_AUTO = 0,
	RETURN_URETPROBE = 1,
	RETURN_INSTRUCTION = 2, /* probes on the instructions that leave the function */
	RETURN_NONE = 3,	/* entries only */
};

enum return_reason {
	RETURN_ASKED = 1, /* --returns says so */
	RETURN_HARMLESS,  /* nothing in the process can unwind or switch past a return address */
	RETURN_CLOSED,	  /* nothing that could runs inside this function */
	RETURN_HAZARD,	  /* something in the process can */
	/* of a library, and the process may go on with another program, which may */
	RETURN_EXEC,
	/* its own loop comes back to the probe, and each turn would use up a uretprobe */
	RETURN_LOOP,
	RETURN_REASONS,
};

struct return_choice {
	enum return_way way;
	enum return_reason reason;
	const struct function_shape
		*shape; /* with RETURN_INSTRUCTION; with RETURN_AUTO if it can be told; or NULL */
	const char *refused; /* why the function is left out; NULL: it is not */
	bool loops;	     /* an entry on its own open frame is a turn, not a call */
	bool inside;	     /* its entry lies inside another of the functions */
};

struct return_plan {
	struct return_choice *choices; /* one for each function, in their order */
	size_t count;
	size_t exit_count; /* of all functions together, however their returns are seen now */
	size_t refused;
	struct shapes *shapes;
	const struct hazard *hazard;
};

/*
 * Chooses for each of `functions`, of `table`. With RETURN_AUTO by the hazard; other ways are taken
 * as they are. 0 or -ENOMEM. return_plan_clear in any case, before the table is closed.
 */
int return_plan_make(struct return_plan *plan, const struct symbol_table *table,
		     const struct hazard *hazard, const struct function *const *functions,
		     size_t count, enum return_way way);
void return_plan_clear(struct return_plan *plan);

/*
 * The same again, in *plan, with what has been found of its hazard since. Both share what was read
 * of the files: one of them is to be cleared, and of the other no more than `choices` freed. 0 or
 * -ENOMEM, with that one.
 */
int return_plan_again(const struct return_plan *former, const struct function *const *functions,
		      enum return_way way, struct return_plan *plan);

const char *return_way_name(enum return_way way); /* as --returns takes it */

/* In a few words, e.g. "nothing inside can throw or switch stacks". */
const char *return_reason_text(enum return_reason reason);

#endif
