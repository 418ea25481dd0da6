/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the stack pointer comes from in one stretch of machine code, by Capstone. Purpose: to tell
 * a function that puts back its own stack pointer (alloca, variable arrays, realigned frames) from
 * one that goes over to another stack. One owner. Invariants: the code is read from its start to
 * its end; a value counts as the frame's own only if it is seen to come from the stack pointer,
 * whatever is not understood is foreign. The unwind tables are believed of a register only if
 * nothing in the code gives it another value: they tell what a compiler meant, and not what
 * somebody's assembler in the midst of it does.
 */
#ifndef SCOPETRACE_CODE_STACK_FLOW_H
#define SCOPETRACE_CODE_STACK_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stack_code {
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	const uint8_t *bytes;
	uint64_t address;
	size_t size;
	/* The register through which, by the unwind tables, the frame is found at this address (numbered as
	 * by the hardware), or -1. NULL: no tables. */
	int (*frame_register)(uint64_t address, void *context);
	/* True if a call of this address never comes back. NULL: nobody knows of any. */
	bool (*is_endless)(uint64_t address, void *context);
	void *context;
};

enum stack_load {
	/* no instruction begins at this address, or it does not load the stack pointer */
	STACK_LOAD_NONE,
	STACK_LOAD_OWN,	    /* puts back what this frame has had */
	STACK_LOAD_FOREIGN, /* from somewhere else */
	/* no instruction seems to begin here, but what is before could not all be decoded */
	STACK_LOAD_UNSURE,
};

struct stack_flow;

/* NULL when memory is out or the machine is none of the two (errno). The code must live as long. */
struct stack_flow *stack_flow_open(const struct stack_code *code);
void stack_flow_close(struct stack_flow *flow); /* takes NULL too */

/* The instruction at this address, judged. */
enum stack_load stack_flow_judge(struct stack_flow *flow, uint64_t address);

/*
 * False if not all that stands before the address could be decoded: instructions may begin
 * elsewhere.
 */
bool stack_flow_is_sure(const struct stack_flow *flow, uint64_t address);

#endif
