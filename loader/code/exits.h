/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The machine code of one function, by Capstone. Purpose: where it is left (for `instruction`
 * returns), and whether anything inside it could unwind or switch stacks past a hijacked return
 * address. Stateless but for the handle; the bytes may be anything: what cannot be decoded to its
 * end is refused with the reason, never guessed (design: pairing.md, "Safe returns").
 */
#ifndef SCOPETRACE_CODE_EXITS_H
#define SCOPETRACE_CODE_EXITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum exit_kind {
	EXIT_RETURN = 1,      /* ret in any form that the kernel takes a probe on */
	EXIT_JUMP = 2,	      /* a direct jump out of the function: a tail call */
	EXIT_CONDITIONAL = 3, /* the same, taken on a condition */
	/* a jump through a register or memory; whether it leaves is seen at the hit */
	EXIT_INDIRECT = 4,
};

enum exit_condition {
	CONDITION_ALWAYS = 0,
	/* `code`: x86-64 the low nibble of jcc, arm64 the condition of b.cond */
	CONDITION_FLAGS = 1,
	CONDITION_ZERO = 2,	 /* register `base` (`width` bits of it) is zero: cbz, jrcxz */
	CONDITION_NOT_ZERO = 3,	 /* cbnz */
	CONDITION_BIT_CLEAR = 4, /* bit `code` of register `base` is clear: tbz */
	CONDITION_BIT_SET = 5,	 /* tbnz */
};

/* Registers by their hardware numbers: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 ... r15; x0
 * ... x30, sp 31. */
#define REGISTER_IP   32 /* rip-relative memory: the address behind the instruction */
#define REGISTER_NONE 255

struct exit_site {
	uint64_t address; /* of the instruction, as the file's symbols count */
	uint64_t target;  /* EXIT_JUMP, EXIT_CONDITIONAL */
	int64_t displacement;
	uint16_t pop; /* EXIT_RETURN: bytes taken off beyond the return address (ret imm16) */
	uint8_t kind; /* enum exit_kind */
	uint8_t length;
	uint8_t condition; /* enum exit_condition */
	uint8_t code;
	uint8_t width;
	/* EXIT_INDIRECT: the target is read from base + index * scale + displacement */
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
	void *context;
};

/*
 * What can be told of a target at a hit (bpf/scope_event.h): whether it lies in one of so many
 * ranges. A function of more is refused if it has an indirect jump that may leave it.
 */
enum { SHAPE_RANGES_TOLD = 2 };

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

/* No call, no jump of any kind out of it, no system call, no load of the stack pointer: nothing inside can
 * unwind or switch stacks. */
bool function_shape_is_leaf(const struct function_shape *shape);

#endif
