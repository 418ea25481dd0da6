/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine code of one function, by Capstone. Purpose: where it is left (for `instruction`
 * returns), and whether anything inside it could unwind or switch stacks past a hijacked return
 * address. Stateless but for the handle; the bytes may be anything: what cannot be decoded to its
 * end is refused with the reason, never guessed.
 */
#ifndef SCOPETRACE_CODE_EXITS_H
#define SCOPETRACE_CODE_EXITS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/scope_event.h"

struct exit_site {
	uint64_t address; /* of the instruction, as the file's symbols count */
	uint64_t target;  /* SITE_JUMP, SITE_CONDITIONAL */
	int64_t displacement;
	uint16_t pop; /* SITE_RETURN: bytes taken off beyond the return address (ret imm16) */
	uint8_t kind; /* enum site_kind */
	uint8_t length;
	uint8_t condition; /* enum site_condition */
	uint8_t code;
	uint8_t width;
	/* SITE_INDIRECT: the target is read from base + index * scale + displacement */
	uint8_t is_memory;
	uint8_t base;
	uint8_t index;
	uint8_t scale;
	/* the kernel emulates it (jmp, jcc, arm64 branches) instead of stepping over it */
	uint8_t is_emulated;
};

/*
 * One stretch of code of a function: its body, or a part that the compiler put elsewhere (.cold).
 */
struct code_range {
	const uint8_t *bytes;
	uint64_t address;
	uint64_t size;
};

struct function_code {
	uint16_t machine;		 /* EM_X86_64 or EM_AARCH64 */
	const struct code_range *ranges; /* the body first */
	size_t range_count;
	uint64_t probe; /* address at which the entry probe would go: jumps to it are looked for */
	/* True if, by the file's unwind tables, the frame at `address` is as at the entry (nothing pushed):
	 * only there can a jump leave the function. NULL or *known false: no tables. */
	bool (*is_entry_frame)(uint64_t address, bool *known, void *context);
	/*
	 * Asked of a direct jump out of all ranges (`is_entry`: the frame there is not seen to
	 * differ from that at the entry): true and *part if its target lies in a part of this very
	 * function that the compiler put elsewhere. The bytes must live as long as the call of
	 * function_shape_read. NULL: there is none.
	 */
	bool (*find_part)(const struct exit_site *jump, bool is_entry, struct code_range *part,
			  void *context);
	/*
	 * Raw name of the function whose address is in a word of the file (its GOT), or NULL.
	 * NULL: nobody knows.
	 */
	const char *(*name_of_slot)(uint64_t slot, void *context);
	void *context;
};

struct shape_range {
	uint64_t address;
	uint64_t size;
};

struct function_shape {
	struct exit_site *exits; /* by address */
	size_t exit_count;
	struct shape_range *ranges; /* the body first; then the parts, those found too */
	size_t range_count;
	/* targets of its direct calls and of its leaving direct jumps, sorted, each once */
	uint64_t *callees;
	size_t callee_count;
	/* through a register or memory (PLT stubs are found among the callees) */
	bool calls_indirectly;
	bool enters_kernel;	  /* syscall, int, sysenter, svc */
	bool loads_stack_pointer; /* from memory or another register, outside its own epilogue */
	/* a branch inside goes to `probe`: an entry there may be a turn of a loop */
	bool is_looped_to;
	/* an instruction inside reads its own return address, or makes the address of it */
	bool looks_at_return;
	bool decoded; /* false: `why` tells; then nothing else here is to be relied on */
	char why[160]; /* e.g. "bytes at +0x1a cannot be decoded", "notrack jump that may leave at +0x30" */
};

/*
 * Fills in *shape; free it by function_shape_clear whatever it returns. 0, -ENOMEM, or -ENOTSUP
 * (`why` tells): a byte that cannot be decoded, an end that runs on into what follows, an exit on
 * which the kernel takes no probe (bnd/rep ret and plain jumps are fine; notrack, cs and lock
 * prefixes, int3 are not), a leaving form that is not understood (far returns, loop, eretaa ...).
 */
int function_shape_read(const struct function_code *code, struct function_shape *shape);
void function_shape_clear(struct function_shape *shape);

#endif
