// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/stack_step.h"

#include <stddef.h>

/* ---- x86-64 ---- */

/* By its hardware number, whatever part of it is meant. */
static uint8_t x86_register(x86_reg reg)
{
	static const struct {
		uint16_t names[5];
	} registers[16] = {
		{{X86_REG_RAX, X86_REG_EAX, X86_REG_AX, X86_REG_AL, X86_REG_AH}},
		{{X86_REG_RCX, X86_REG_ECX, X86_REG_CX, X86_REG_CL, X86_REG_CH}},
		{{X86_REG_RDX, X86_REG_EDX, X86_REG_DX, X86_REG_DL, X86_REG_DH}},
		{{X86_REG_RBX, X86_REG_EBX, X86_REG_BX, X86_REG_BL, X86_REG_BH}},
		{{X86_REG_RSP, X86_REG_ESP, X86_REG_SP, X86_REG_SPL}},
		{{X86_REG_RBP, X86_REG_EBP, X86_REG_BP, X86_REG_BPL}},
		{{X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL}},
		{{X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL}},
		{{X86_REG_R8, X86_REG_R8D, X86_REG_R8W, X86_REG_R8B}},
		{{X86_REG_R9, X86_REG_R9D, X86_REG_R9W, X86_REG_R9B}},
		{{X86_REG_R10, X86_REG_R10D, X86_REG_R10W, X86_REG_R10B}},
		{{X86_REG_R11, X86_REG_R11D, X86_REG_R11W, X86_REG_R11B}},
		{{X86_REG_R12, X86_REG_R12D, X86_REG_R12W, X86_REG_R12B}},
		{{X86_REG_R13, X86_REG_R13D, X86_REG_R13W, X86_REG_R13B}},
		{{X86_REG_R14, X86_REG_R14D, X86_REG_R14W, X86_REG_R14B}},
		{{X86_REG_R15, X86_REG_R15D, X86_REG_R15W, X86_REG_R15B}},
	};

	if (reg == X86_REG_INVALID)
		return STEP_NO_REGISTER;
	for (uint8_t i = 0; i < 16; i++) {
		for (size_t k = 0; k < 5; k++) {
			if (registers[i].names[k] == reg)
				return i;
		}
	}
	return STEP_NO_REGISTER;
}

/* [register + displacement] and nothing more. */
static bool x86_slot(const cs_x86_op *operand, struct step *step)
{
	if (operand->type != X86_OP_MEM || operand->mem.index != X86_REG_INVALID ||
	    operand->mem.segment != X86_REG_INVALID)
		return false;
	step->from = x86_register(operand->mem.base);
	step->displacement = operand->mem.disp;
	return step->from != STEP_NO_REGISTER;
}

/* Whatever else writes a slot of the frame. */
static void x86_other(const cs_x86 *x86, struct step *step)
{
	if (x86->op_count && (x86->operands[0].access & CS_AC_WRITE) &&
	    x86_slot(&x86->operands[0], step))
		step->kind = STEP_STORE;
}

static void x86_mov(const cs_x86 *x86, struct step *step)
{
	const cs_x86_op *to = &x86->operands[0], *from = &x86->operands[1];

	if (to->type == X86_OP_REG && to->size == 8) {
		step->to = x86_register(to->reg);
		if (from->type == X86_OP_REG) {
			step->from = x86_register(from->reg);
			step->kind = STEP_COPY;
		} else if (from->size == 8 && x86_slot(from, step)) {
			step->kind = STEP_LOAD;
		}
	} else if (x86_slot(to, step)) {
		if (to->size == 8 && from->type == X86_OP_REG)
			step->to = x86_register(from->reg);
		step->kind = STEP_STORE;
	}
}

static void x86_lea(const cs_x86 *x86, struct step *step)
{
	step->to = x86_register(x86->operands[0].reg);
	step->from = x86_register(x86->operands[1].mem.base);
	step->displacement = x86->operands[1].mem.disp;
	if (x86->operands[0].size == 8 && step->from != STEP_NO_REGISTER)
		step->kind =
			x86->operands[1].mem.index == X86_REG_INVALID ? STEP_COPY : STEP_DERIVE;
}

/* add and sub: `sign` tells which. */
static void x86_sum(const cs_x86 *x86, int sign, struct step *step)
{
	const cs_x86_op *to = &x86->operands[0], *from = &x86->operands[1];

	if (to->type != X86_OP_REG || to->size != 8) {
		x86_other(x86, step);
		return;
	}
	step->to = x86_register(to->reg);
	step->kind = STEP_ADJUST;
	if (from->type == X86_OP_IMM) {
		step->from = step->to;
		step->displacement = sign * from->imm;
		step->kind = STEP_COPY;
	} else if (from->type == X86_OP_REG && sign > 0) {
		step->from = x86_register(from->reg);
		step->kind = STEP_SUM;
	}
}

static void x86_and(const cs_x86 *x86, struct step *step)
{
	if (x86->operands[0].type != X86_OP_REG || x86->operands[0].size != 8) {
		x86_other(x86, step);
		return;
	}
	step->to = x86_register(x86->operands[0].reg);
	step->kind = STEP_ADJUST;
}

static void x86_jump(const cs_x86 *x86, enum step_kind kind, struct step *step)
{
	step->kind = STEP_LEAP;
	if (!x86->op_count || x86->operands[0].type != X86_OP_IMM)
		return;
	step->kind = (uint8_t)kind;
	step->displacement = x86->operands[0].imm;
}

static void x86_push_or_pop(const cs_x86 *x86, enum step_kind kind, struct step *step)
{
	step->kind = (uint8_t)kind;
	if (x86->operands[0].type == X86_OP_REG && x86->operands[0].size == 8)
		step->to = x86_register(x86->operands[0].reg);
}

static void x86_call(const cs_x86 *x86, struct step *step)
{
	step->kind = STEP_CALL;
	if (x86->operands[0].type == X86_OP_IMM)
		step->displacement = x86->operands[0].imm;
	step->writes |= 0x0fc7; /* rax, rcx, rdx, rsi, rdi, r8-r11 */
}

static void x86_step(const cs_insn *insn, bool is_jump, struct step *step)
{
	const cs_x86 *x86 = &insn->detail->x86;

	switch (insn->id) {
	case X86_INS_NOP:
		step->kind = STEP_NOP;
		break;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		x86_mov(x86, step);
		break;
	case X86_INS_LEA:
		x86_lea(x86, step);
		break;
	case X86_INS_ADD:
		x86_sum(x86, 1, step);
		break;
	case X86_INS_SUB:
		x86_sum(x86, -1, step);
		break;
	case X86_INS_AND:
		x86_and(x86, step);
		break;
	case X86_INS_PUSH:
	case X86_INS_POP:
		x86_push_or_pop(x86, insn->id == X86_INS_PUSH ? STEP_PUSH : STEP_POP, step);
		break;
	case X86_INS_LEAVE:
		step->kind = STEP_LEAVE;
		step->writes |= step_bit(STEP_X86_64_SP) | step_bit(STEP_X86_64_FP);
		break;
	case X86_INS_ENTER:
		step->kind = STEP_COPY;
		step->to = STEP_X86_64_FP;
		step->from = STEP_X86_64_SP;
		step->displacement = -8;
		break;
	case X86_INS_CALL:
		x86_call(x86, step);
		break;
	case X86_INS_JMP:
		x86_jump(x86, STEP_JUMP, step);
		break;
	case X86_INS_RET:
	case X86_INS_UD2:
	case X86_INS_HLT:
	case X86_INS_INT3:
		step->kind = STEP_END;
		break;
	default:
		if (is_jump)
			x86_jump(x86, STEP_BRANCH, step);
		else
			x86_other(x86, step);
		break;
	}
}

/* ---- arm64 ---- */

static uint8_t arm64_register(arm64_reg reg)
{
	if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
		return (uint8_t)(reg - ARM64_REG_X0);
	if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
		return (uint8_t)(reg - ARM64_REG_W0);
	if (reg == ARM64_REG_X29)
		return 29;
	if (reg == ARM64_REG_X30)
		return 30;
	return reg == ARM64_REG_SP || reg == ARM64_REG_WSP ? STEP_AARCH64_SP : STEP_NO_REGISTER;
}

static void arm64_sum(const cs_arm64 *arm64, struct step *step)
{
	step->to = arm64_register(arm64->operands[0].reg);
	step->from = arm64_register(arm64->operands[1].reg);
	step->kind = step->from == STEP_NO_REGISTER ? STEP_OTHER
		     : step->to == step->from	    ? STEP_ADJUST
						    : STEP_COPY;
}

static void arm64_memory(const cs_insn *insn, struct step *step)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;
	const cs_arm64_op *memory = &arm64->operands[1];
	bool is_load = insn->id == ARM64_INS_LDR || insn->id == ARM64_INS_LDUR;

	if (arm64->op_count < 2 || memory->type != ARM64_OP_MEM ||
	    memory->mem.index != ARM64_REG_INVALID)
		return;
	if (arm64->op_count != 2 || arm64->writeback) {
		if (is_load && arm64_register(memory->mem.base) == STEP_AARCH64_SP)
			step->kind = STEP_UNSTACK;
		return;
	}
	step->to = arm64_register(arm64->operands[0].reg);
	step->from = arm64_register(memory->mem.base);
	step->displacement = memory->mem.disp;
	step->kind = is_load ? STEP_LOAD : STEP_STORE;
}

/* The target is the last operand of all that jump to a constant. */
static void arm64_jump(const cs_arm64 *arm64, enum step_kind kind, struct step *step)
{
	const cs_arm64_op *target = arm64->op_count ? &arm64->operands[arm64->op_count - 1] : NULL;

	step->kind = STEP_LEAP;
	if (!target || target->type != ARM64_OP_IMM)
		return;
	step->kind = (uint8_t)kind;
	step->displacement = target->imm;
}

static void arm64_step(const cs_insn *insn, bool is_jump, struct step *step)
{
	const cs_arm64 *arm64 = &insn->detail->arm64;

	switch (insn->id) {
	case ARM64_INS_NOP:
		step->kind = STEP_NOP;
		break;
	case ARM64_INS_MOV:
	case ARM64_INS_ADD:
	case ARM64_INS_SUB:
	case ARM64_INS_AND:
		if (arm64->op_count > 1 && arm64->operands[1].type == ARM64_OP_REG)
			arm64_sum(arm64, step);
		break;
	case ARM64_INS_LDR:
	case ARM64_INS_LDUR:
	case ARM64_INS_STR:
	case ARM64_INS_STUR:
		arm64_memory(insn, step);
		break;
	case ARM64_INS_LDP:
		if (arm64->op_count > 2 && arm64->operands[2].type == ARM64_OP_MEM &&
		    arm64_register(arm64->operands[2].mem.base) == STEP_AARCH64_SP)
			step->kind = STEP_UNSTACK;
		break;
	case ARM64_INS_BL:
	case ARM64_INS_BLR:
		step->kind = STEP_CALL;
		if (arm64->operands[0].type == ARM64_OP_IMM)
			step->displacement = arm64->operands[0].imm;
		step->writes |= 0x4007ffff; /* x0-x18, x30 */
		break;
	case ARM64_INS_B:
		arm64_jump(arm64,
			   arm64->cc == ARM64_CC_INVALID || arm64->cc == ARM64_CC_AL ? STEP_JUMP
										     : STEP_BRANCH,
			   step);
		break;
	case ARM64_INS_BR:
		step->kind = STEP_LEAP;
		break;
	case ARM64_INS_RET:
		step->kind = STEP_END;
		break;
	default:
		if (is_jump)
			arm64_jump(arm64, STEP_BRANCH, step);
		break;
	}
}

/* ---- any ---- */

static uint32_t written(csh handle, const cs_insn *insn, bool is_x86)
{
	uint8_t read_count, write_count;
	cs_regs reads, writes;
	uint32_t mask = 0;

	if (cs_regs_access(handle, insn, reads, &read_count, writes, &write_count))
		return UINT32_MAX; /* not known: anything */
	for (uint8_t i = 0; i < write_count; i++)
		mask |= step_bit(is_x86 ? x86_register(writes[i]) : arm64_register(writes[i]));
	return mask;
}

void step_read(csh handle, const cs_insn *insn, bool is_x86, struct step *step)
{
	bool is_jump = cs_insn_group(handle, insn, CS_GRP_JUMP);

	*step = (struct step){
		.address = insn->address, .to = STEP_NO_REGISTER, .from = STEP_NO_REGISTER};
	step->writes = written(handle, insn, is_x86);
	if (is_x86)
		x86_step(insn, is_jump, step);
	else
		arm64_step(insn, is_jump, step);
}
