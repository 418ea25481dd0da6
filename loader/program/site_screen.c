// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/site_screen.h"

#include <capstone/capstone.h>
#include <stdbool.h>

/* What stands before the opcode, and the opcode. */
struct opening {
	bool has_refused_prefix; /* es, cs, ss, ds or notrack, lock */
	bool has_repeat;
	uint8_t rex;
	uint8_t opcode[2];
	uint8_t next; /* the byte behind a one-byte opcode */
};

static struct opening read_opening(const uint8_t *bytes, size_t length)
{
	struct opening opening = {0};
	size_t at = 0;

	for (; at < length; at++) {
		uint8_t byte = bytes[at];

		if (byte == 0x26 || byte == 0x2e || byte == 0x36 || byte == 0x3e || byte == 0xf0)
			opening.has_refused_prefix = true;
		else if (byte == 0xf2 || byte == 0xf3)
			opening.has_repeat = true;
		else if (byte != 0x64 && byte != 0x65 && byte != 0x66 && byte != 0x67)
			break;
	}
	if (at < length && (bytes[at] & 0xf0) == 0x40)
		opening.rex = bytes[at++];
	opening.opcode[0] = at < length ? bytes[at] : 0;
	opening.next = at + 1 < length ? bytes[at + 1] : 0;
	opening.opcode[1] = opening.opcode[0] == 0x0f ? opening.next : 0;
	return opening;
}

/*
 * The kernel looks up the opcode byte of VEX and EVEX instructions among the jumps of the legacy map:
 * 70 to 7f, 90, e8, e9 and eb it then "emulates" (Linux 6.18: branch_setup_xol_ops). All of them are
 * refused, since the list depends on the kernel and a probe behind them is as good.
 */
static bool is_vector(const struct opening *opening)
{
	uint8_t opcode = opening->opcode[0];

	return opcode == 0x62 || opcode == 0xc4 || opcode == 0xc5 ||
	       (opcode == 0x8f && (opening->next & 0x1f) >= 8);
}

/* ins, outs, movs, cmps, stos, lods, scas: under a single step each turn comes back to the probe. */
static bool is_repeated_string(const struct opening *opening)
{
	uint8_t opcode = opening->opcode[0];

	return opening->has_repeat &&
	       ((opcode >= 0x6c && opcode <= 0x6f) || (opcode >= 0xa4 && opcode <= 0xa7) ||
		(opcode >= 0xaa && opcode <= 0xaf));
}

static const char *screen_two_bytes(uint8_t opcode)
{
	switch (opcode) {
	case 0x05: /* syscall stores the flags in r11 */
	case 0x07:
	case 0x34:
	case 0x35:
		return "a system call, which would show the program the tracer's single step";
	default:
		return NULL;
	}
}

const char *site_screen_x86(const uint8_t *bytes, size_t length)
{
	struct opening opening = read_opening(bytes, length);

	if (opening.has_refused_prefix)
		return "a lock, segment or notrack prefix, on which the kernel takes no probe";
	if (is_vector(&opening))
		return "a vector instruction, which the kernel may take for a jump";
	if (is_repeated_string(&opening))
		return "a repeated string instruction, each turn of which would be a hit";
	switch (opening.opcode[0]) {
	case 0x0f:
		return screen_two_bytes(opening.opcode[1]);
	case 0x9c:
		return "pushf, which would store the tracer's trap flag in the program's stack";
	case 0x9d:
	case 0xcf:
		return "an instruction that loads the flags, among them the tracer's trap flag";
	case 0x8e: /* after a load of ss, and only of ss, the processor defers the step's trap */
		return (opening.next >> 3 & 7) == 2
			       ? "a load of the stack segment, behind which no step is seen"
			       : NULL;
	case 0xcc:
	case 0xcd:
	case 0xce:
	case 0xf1:
		return "an interrupt instruction, on which the kernel takes no probe";
	default:
		return NULL;
	}
}

static bool leaves_stack_alone(csh handle, const cs_insn *insn)
{
	uint8_t read_count, write_count;
	cs_regs reads, writes;

	if (cs_regs_access(handle, insn, reads, &read_count, writes, &write_count))
		return false;
	for (uint8_t i = 0; i < write_count; i++) {
		if (writes[i] == X86_REG_RSP || writes[i] == X86_REG_ESP || writes[i] == X86_REG_SP)
			return false;
	}
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];

		/* Read or written: Capstone 4 is wrong about some vector instructions. */
		if (op->type == X86_OP_MEM && op->mem.base == X86_REG_RSP)
			return false;
	}
	return true;
}

size_t site_step_over_x86(const uint8_t *bytes, size_t length)
{
	struct opening opening = read_opening(bytes, length);
	cs_insn *insn = NULL;
	csh handle;
	size_t size = 0;

	if (opening.has_refused_prefix || (!is_vector(&opening) && !is_repeated_string(&opening)))
		return 0;
	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return 0;
	cs_option(handle, CS_OPT_DETAIL, CS_OPT_ON);
	if (cs_disasm(handle, bytes, length, 0, 1, &insn) == 1) {
		if (leaves_stack_alone(handle, insn))
			size = insn->size;
		cs_free(insn, 1);
	}
	cs_close(&handle);
	return size;
}

size_t site_length(const uint8_t *bytes, size_t length)
{
#if defined(__x86_64__)
	cs_insn *insn = NULL;
	csh handle;

	if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle) != CS_ERR_OK)
		return length;
	if (cs_disasm(handle, bytes, length, 0, 1, &insn) == 1) {
		length = insn->size;
		cs_free(insn, 1);
	}
	cs_close(&handle);
	return length;
#else
	(void)bytes;
	return length < 4 ? length : 4;
#endif
}
