/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One machine instruction: where control goes after it, and what it does to the stack pointer.
 * Purpose: all that disassemble.c must know of an instruction set. Owner: one walk, which keeps the
 * decoder. Branches are read here, as their few forms decide about everything; the rest is
 * Capstone's. Invariants: reads no byte behind those given; a length is never guessed.
 */
#ifndef SCOPETRACE_CODE_INSN_H
#define SCOPETRACE_CODE_INSN_H

#include <capstone/capstone.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code/exits.h"

enum flow_kind {
	FLOW_NEXT = 1,	    /* to the next instruction */
	FLOW_STOP,	    /* nowhere: ud2, hlt, brk */
	FLOW_JUMP,	    /* to `target` */
	FLOW_BRANCH,	    /* to `target` or to the next */
	FLOW_INDIRECT,	    /* anywhere */
	FLOW_RETURN,	    /* to the caller */
	FLOW_CALL,	    /* to `target`, and perhaps back */
	FLOW_CALL_INDIRECT, /* anywhere, and perhaps back */
};

/* The number of the stack pointer among the registers of an architecture (disassemble.h). */
enum { X86_RSP = 4, X86_RBP = 5, ARM64_FP = 29, ARM64_SP = 31 };

struct flow {
	enum flow_kind kind;
	uint64_t target; /* of a direct jump, branch or call */
	/*
	 * Address and length always; the rest if it is a jump, branch or return, as it would be if
	 * it leaves.
	 */
	struct exit_site site;
	/* why the kernel takes no probe on it, or why its target cannot be told; or NULL */
	const char *refused;
	bool is_notrack;
	bool is_padding; /* nop, int3, zeros: what lies between pieces of code */
	bool enters_kernel;
	/* Registers by their bits. Register `to` becomes `from` plus or minus something (SITE_REGISTER_NONE: no
	 * such). */
	uint32_t written;
	uint8_t to;
	uint8_t from;
	uint8_t added;	 /* the register that is added to `to`; or SITE_REGISTER_NONE */
	bool is_indexed; /* what is written is an element of a table in memory */
	/* what is written comes from the function's own frame: pop, ldp from the stack */
	bool is_restore;
	/* Addresses relative to the instruction's own: `read_size` bytes read at `read`; a pointer made to
	 * `points`. */
	uint64_t read;
	uint32_t read_size;
	uint64_t points;
};

struct decoder {
	uint16_t machine;
	uint8_t stack_pointer;	/* its register number */
	uint32_t lost_in_calls; /* registers that a call may change */
	csh handle;
	cs_insn *insn;
};

/* 0, -ENOTSUP for a machine that it does not know, -ENOMEM. */
int decoder_open(uint16_t machine, struct decoder *decoder);
void decoder_close(struct decoder *decoder); /* takes a zeroed one too */

/*
 * Fills in *flow for the instruction at `address`, of which `length` bytes are there. False: no
 * instruction.
 */
bool decoder_read(struct decoder *decoder, const uint8_t *bytes, size_t length, uint64_t address,
		  struct flow *flow);

/* The two instruction sets; for decoder_read. */
bool flow_x86_read(struct decoder *decoder, const uint8_t *bytes, size_t length, struct flow *flow);
bool flow_arm64_read(struct decoder *decoder, const uint8_t *bytes, size_t length,
		     struct flow *flow);

/*
 * The length of an x86-64 instruction that Capstone does not know, or 0: vector instructions and
 * the like, none of which branches or writes the stack pointer. *written: the general registers
 * that may be its result.
 */
size_t flow_x86_unknown(const uint8_t *bytes, size_t length, uint32_t *written);

#endif
