/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one instruction does with addresses of the stack, from Capstone's account of it. Purpose:
 * x86-64 and arm64 in one small language for stack_flow.c; not for others. Stateless. Invariants:
 * what is not understood is STEP_OTHER, whose results are nobody's stack; registers are numbered as
 * by the hardware (rsp 4, sp 31).
 */
#ifndef SCOPETRACE_CODE_STACK_STEP_H
#define SCOPETRACE_CODE_STACK_STEP_H

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stdint.h>

enum { STEP_X86_64_SP = 4, STEP_X86_64_FP = 5, STEP_AARCH64_SP = 31, STEP_NO_REGISTER = 255 };

enum step_kind {
	STEP_OTHER,
	STEP_NOP,    /* also what fills the space between two parts of the code */
	STEP_COPY,   /* to = from + displacement */
	STEP_DERIVE, /* to = from + something that is not an address of the stack */
	STEP_SUM,    /* to = to + from */
	STEP_ADJUST, /* to = to + something that is not an address of the stack */
	STEP_LOAD,   /* to = [from + displacement] */
	STEP_STORE,  /* [from + displacement] = to, or something unknown (no register) */
	STEP_PUSH,   /* x86-64: to, or something unknown (no register) */
	STEP_POP,
	STEP_LEAVE, /* x86-64: rsp = rbp + 8, rbp = [rbp] */
	/* arm64: registers are loaded from the stack, and it is moved, in ways not followed */
	STEP_UNSTACK,
	STEP_CALL,   /* of the address in displacement, if it says that (else 0) */
	STEP_BRANCH, /* to the address in displacement, or on */
	STEP_JUMP,   /* to the address in displacement */
	STEP_LEAP,   /* to an address that it does not say */
	STEP_END,    /* nowhere in this function */
};

struct step {
	uint64_t address;
	int64_t displacement;
	uint32_t writes; /* registers, a bit for each */
	uint8_t kind;
	uint8_t to;
	uint8_t from;
};

static inline uint32_t step_bit(uint8_t reg)
{
	return reg < 32 ? UINT32_C(1) << reg : 0;
}

/* `insn` was read by `handle`, which gives details. */
void step_read(csh handle, const cs_insn *insn, bool is_x86, struct step *step);

#endif
