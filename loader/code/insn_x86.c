// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/insn.h"

#include <string.h>

enum { LONGEST = 15 }; /* bytes of an instruction */

/* What stands before the opcode. */
struct prefixes {
	size_t count;
	bool has_data16;
	bool has_address32;
	bool has_lock;
	bool has_notrack;	/* ds: the same byte */
	bool has_other_segment; /* es, cs, ss */
	bool has_fs_gs;
	uint8_t rex;
};

static struct prefixes read_prefixes(const uint8_t *bytes, size_t length)
{
	struct prefixes p = {0};

	for (; p.count < length; p.count++) {
		switch (bytes[p.count]) {
		case 0x66:
			p.has_data16 = true;
			continue;
		case 0x67:
			p.has_address32 = true;
			continue;
		case 0xf0:
			p.has_lock = true;
			continue;
		case 0x3e:
			p.has_notrack = true;
			continue;
		case 0x26:
		case 0x2e:
		case 0x36:
			p.has_other_segment = true;
			continue;
		case 0x64:
		case 0x65:
			p.has_fs_gs = true;
			continue;
		case 0xf2:
		case 0xf3:
			continue;
		}
		break;
	}
	if (p.count < length && (bytes[p.count] & 0xf0) == 0x40)
		p.rex = bytes[p.count++];
	return p;
}

/*
 * What the kernel's uprobes refuse before they look at the opcode, and for branches what they
 * refuse then.
 */
static const char *refused_prefix(const struct prefixes *p)
{
	if (p->has_notrack)
		return "a notrack or ds prefix, on which the kernel takes no probe";
	if (p->has_other_segment)
		return "a segment prefix, on which the kernel takes no probe";
	if (p->has_lock)
		return "a lock prefix, on which the kernel takes no probe";
	if (p->has_data16)
		return "a 16-bit prefix, on which the kernel takes no probe";
	return NULL;
}

/* ---- direct branches and returns: read from their bytes ---- */

static int64_t read_relative(const uint8_t *bytes, size_t size)
{
	int32_t relative;

	if (size == 1)
		return (int8_t)bytes[0];
	memcpy(&relative, bytes, sizeof(relative));
	return relative;
}

/*
 * A branch with a distance of `size` bytes at `at`. One with a 16-bit prefix is read by Intel's
 * processors and AMD's each in its own way, so it is none here (a rex prefix takes that away: calls
 * of __tls_get_addr).
 */
static bool read_branch(const uint8_t *bytes, size_t length, size_t at, size_t size,
			const struct prefixes *p, struct flow *flow)
{
	if (at + size > length || (p->has_data16 && !(p->rex & 8)))
		return false;
	flow->site.length = (uint8_t)(at + size);
	flow->target = flow->site.address + at + size + (uint64_t)read_relative(bytes + at, size);
	flow->site.target = flow->target;
	flow->refused = refused_prefix(p);
	flow->site.is_emulated = 1;
	return true;
}

static bool read_conditional(struct flow *flow, enum site_condition condition, uint8_t code,
			     uint8_t width)
{
	flow->kind = FLOW_BRANCH;
	flow->site.kind = SITE_CONDITIONAL;
	flow->site.condition = (uint8_t)condition;
	flow->site.code = code;
	flow->site.width = width;
	return true;
}

/* loop, loope, loopne (e0-e2) and jrcxz (e3). */
static bool read_counted(const struct prefixes *p, uint8_t opcode, struct flow *flow)
{
	flow->site.is_emulated = 0;
	read_conditional(flow, SITE_ZERO, 0, p->has_address32 ? 32 : 64);
	flow->site.base = 1;
	if (opcode == 0xe3)
		return true;
	flow->written = 1u << 1;
	flow->refused = "a loop instruction, whose condition is not understood";
	return true;
}

static bool read_return(const uint8_t *bytes, size_t length, size_t at, const struct prefixes *p,
			struct flow *flow)
{
	bool has_count = bytes[at] == 0xc2;

	if (p->has_data16 || at + (has_count ? 3 : 1) > length)
		return false;
	flow->kind = FLOW_RETURN;
	flow->site.kind = SITE_RETURN;
	flow->site.length = (uint8_t)(at + (has_count ? 3 : 1));
	flow->site.pop = has_count ? (uint16_t)(bytes[at + 1] | bytes[at + 2] << 8) : 0;
	flow->refused = refused_prefix(p);
	return true;
}

/* True if it was one of these forms; then *valid tells whether it was whole. */
static bool read_control(const uint8_t *bytes, size_t length, const struct prefixes *p,
			 struct flow *flow, bool *valid)
{
	size_t at = p->count;
	uint8_t opcode = at < length ? bytes[at] : 0;

	switch (opcode) {
	case 0x70 ... 0x7f:
		*valid = read_branch(bytes, length, at + 1, 1, p, flow) &&
			 read_conditional(flow, SITE_FLAGS, opcode & 0x0f, 0);
		return true;
	case 0xe0 ... 0xe3:
		*valid = read_branch(bytes, length, at + 1, 1, p, flow) &&
			 read_counted(p, opcode, flow);
		return true;
	case 0xc2:
	case 0xc3:
		*valid = read_return(bytes, length, at, p, flow);
		return true;
	case 0xe8:
	case 0xe9:
	case 0xeb:
		*valid = read_branch(bytes, length, at + 1, opcode == 0xeb ? 1 : 4, p, flow);
		flow->kind = opcode == 0xe8 ? FLOW_CALL : FLOW_JUMP;
		flow->site.kind = SITE_JUMP;
		return true;
	case 0x0f:
		if (at + 1 >= length || (bytes[at + 1] & 0xf0) != 0x80)
			return false;
		*valid = read_branch(bytes, length, at + 2, 4, p, flow) &&
			 read_conditional(flow, SITE_FLAGS, bytes[at + 1] & 0x0f, 0);
		return true;
	default:
		return false;
	}
}

/* ---- lengths that Capstone 4 does not know ---- */

/*
 * Bytes of a ModRM operand at `at`, with its SIB byte and displacement; 0 if they are not all
 * there.
 */
static size_t modrm_size(const uint8_t *bytes, size_t length, size_t at)
{
	size_t size = 1;
	uint8_t mod, rm;

	if (at >= length)
		return 0;
	mod = bytes[at] >> 6;
	rm = bytes[at] & 7;
	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (at + 1 >= length)
			return 0;
		size++;
		if (mod == 0 && (bytes[at + 1] & 7) == 5)
			size += 4;
	}
	if (mod == 1)
		size += 1;
	else if (mod == 2 || (mod == 0 && rm == 5))
		size += 4;
	return at + size <= length ? size : 0;
}

/* Whether an opcode of map 1 (0f) has a byte behind its operand, in its vector forms. */
static bool has_immediate(uint8_t opcode)
{
	return (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xc2 ||
	       (opcode >= 0xc4 && opcode <= 0xc6);
}

/*
 * Whether a general register may be the result of such an instruction: rdssp, shlx, vcvttss2usi,
 * vpextrb. Whichever, as far as this goes: the operand names it.
 */
static bool has_general_result(uint8_t map, uint8_t opcode)
{
	switch (map) {
	case 2:
		return opcode >= 0xf0 || opcode == 0x1e || opcode == 0xae || opcode == 0x01;
	case 3:
		return opcode >= 0xf0 || (opcode >= 0x14 && opcode <= 0x17);
	default:
		return opcode == 0x2c || opcode == 0x2d || opcode == 0x50 || opcode == 0x78 ||
		       opcode == 0x79 || opcode == 0x7e || opcode == 0x93 || opcode == 0xc5 ||
		       opcode == 0xd7;
	}
}

/*
 * Capstone 4 knows little of what came after 2015: GFNI, VAES, AVX-512 IFMA, VNNI and FP16, reads
 * of the shadow stack. All of them are vector instructions or harmless ones of one shape, whose
 * length follows from it. None branches or writes the stack pointer. Map 4 (APX: push2, jmpabs) is
 * not taken.
 */
static bool read_shape(const uint8_t *bytes, size_t length, const struct prefixes *p,
		       struct flow *flow)
{
	size_t at = p->count, size;
	uint8_t map, opcode;

	if (at + 3 >= length && !(at + 2 < length && bytes[at] == 0x0f))
		return false;
	if (bytes[at] == 0x62) {
		map = bytes[at + 1] & 7;
		at += 4;
	} else if (bytes[at] == 0xc4) {
		map = bytes[at + 1] & 0x1f;
		at += 3;
	} else if (bytes[at] == 0xc5) {
		map = 1;
		at += 2;
	} else if (bytes[at] == 0x0f && (bytes[at + 1] == 0x38 || bytes[at + 1] == 0x3a)) {
		map = bytes[at + 1] == 0x38 ? 2 : 3;
		at += 2;
	} else if (bytes[at] == 0x0f &&
		   (bytes[at + 1] == 0x1e || bytes[at + 1] == 0xae)) { /* rdssp, incssp */
		map = 2;
		at += 1;
	} else if (bytes[at] == 0x0f && bytes[at + 1] == 0x01 && (bytes[at + 2] & 0xfe) == 0xee) {
		map = 2; /* rdpkru, wrpkru */
		at += 1;
	} else {
		return false;
	}
	if (at >= length || !(map == 1 || map == 2 || map == 3 || map == 5 || map == 6))
		return false;
	opcode = bytes[at++];
	size = modrm_size(bytes, length, at);
	at += size + (map == 3 || (map == 1 && has_immediate(opcode)) ? 1 : 0);
	if (!size || at > length || at > LONGEST)
		return false;
	if (has_general_result(map, opcode))
		flow->written = 0xffff & ~(1u << X86_RSP);
	flow->site.length = (uint8_t)at;
	return true;
}

/*
 * ud1 and ud0 have an operand (clang's sanitizers put a number in it), which Capstone 4 leaves out.
 */
static bool read_undefined(const uint8_t *bytes, size_t length, const struct prefixes *p,
			   struct flow *flow)
{
	size_t at = p->count, size;

	if (at + 2 >= length || bytes[at] != 0x0f ||
	    (bytes[at + 1] != 0xb9 && bytes[at + 1] != 0xff))
		return false;
	size = modrm_size(bytes, length, at + 2);
	flow->kind = FLOW_STOP;
	flow->site.length = (uint8_t)(at + 2 + size);
	return size != 0;
}

/* ---- what Capstone says ---- */

#define REGISTERS_8(i, q, d, w, b)                                                 \
	[X86_REG_##q] = (i) + 1, [X86_REG_##d] = (i) + 1, [X86_REG_##w] = (i) + 1, \
	[X86_REG_##b] = (i) + 1
#define REGISTERS_R(i, r) REGISTERS_8(i, r, r##D, r##W, r##B)

/* Their hardware numbers plus one. */
static const uint8_t numbers[X86_REG_ENDING] = {
	REGISTERS_8(0, RAX, EAX, AX, AL),
	REGISTERS_8(1, RCX, ECX, CX, CL),
	REGISTERS_8(2, RDX, EDX, DX, DL),
	REGISTERS_8(3, RBX, EBX, BX, BL),
	REGISTERS_8(4, RSP, ESP, SP, SPL),
	REGISTERS_8(5, RBP, EBP, BP, BPL),
	REGISTERS_8(6, RSI, ESI, SI, SIL),
	REGISTERS_8(7, RDI, EDI, DI, DIL),
	REGISTERS_R(8, R8),
	REGISTERS_R(9, R9),
	REGISTERS_R(10, R10),
	REGISTERS_R(11, R11),
	REGISTERS_R(12, R12),
	REGISTERS_R(13, R13),
	REGISTERS_R(14, R14),
	REGISTERS_R(15, R15),
	[X86_REG_AH] = 1,
	[X86_REG_CH] = 2,
	[X86_REG_DH] = 3,
	[X86_REG_BH] = 4,
};

static uint8_t number_of(unsigned int reg)
{
	return reg < X86_REG_ENDING && numbers[reg] ? numbers[reg] - 1 : SITE_REGISTER_NONE;
}

static uint32_t bit_of(unsigned int reg)
{
	uint8_t number = number_of(reg);

	return number == SITE_REGISTER_NONE ? 0 : 1u << number;
}

static bool is_own_frame(const cs_x86_op *op)
{
	return op->type == X86_OP_MEM && op->mem.index == X86_REG_INVALID &&
	       op->mem.segment == X86_REG_INVALID &&
	       (op->mem.base == X86_REG_RSP || op->mem.base == X86_REG_RBP);
}

/* to = from + something: moves, lea, and arithmetic on the register itself. */
static void read_derived(const cs_insn *insn, struct flow *flow)
{
	const cs_x86_op *op = insn->detail->x86.operands;

	if (insn->detail->x86.op_count < 2 || op[0].type != X86_OP_REG || op[0].size != 8)
		return;
	switch (insn->id) {
	case X86_INS_MOV:
		if (op[1].type == X86_OP_REG)
			flow->from = number_of(op[1].reg);
		break;
	case X86_INS_LEA:
		/* An index is a size only if the base is the stack pointer itself: else who knows which is
		 * which. */
		if (op[1].mem.index == X86_REG_INVALID || op[1].mem.base == X86_REG_RSP)
			flow->from = number_of(op[1].mem.base);
		break;
	case X86_INS_ADD:
		if (op[1].type == X86_OP_REG)
			flow->added = number_of(op[1].reg);
		/* fall through */
	case X86_INS_SUB:
	case X86_INS_AND:
		flow->from = number_of(op[0].reg);
		break;
	default:
		break;
	}
	if (flow->from != SITE_REGISTER_NONE)
		flow->to = number_of(op[0].reg);
}

/* Implicit writes of the stack pointer (push, pop, enter ...) move it by what they say: no load. */
static void read_registers(const cs_insn *insn, struct flow *flow)
{
	const cs_detail *detail = insn->detail;

	for (uint8_t i = 0; i < detail->regs_write_count; i++)
		flow->written |= bit_of(detail->regs_write[i]);
	flow->written &= ~(1u << X86_RSP);
	for (uint8_t i = 0; i < detail->x86.op_count; i++) {
		const cs_x86_op *op = &detail->x86.operands[i];

		if (op->type == X86_OP_REG && (op->access & CS_AC_WRITE))
			flow->written |= bit_of(op->reg);
	}
	if (insn->id == X86_INS_POP)
		flow->is_restore = true;
	else if (insn->id == X86_INS_MOV && detail->x86.op_count == 2)
		flow->is_restore = is_own_frame(&detail->x86.operands[1]);
	if (insn->id == X86_INS_MOV || insn->id == X86_INS_MOVSXD)
		flow->is_indexed = detail->x86.op_count == 2 &&
				   detail->x86.operands[1].type == X86_OP_MEM &&
				   detail->x86.operands[1].mem.index != X86_REG_INVALID;
	read_derived(insn, flow);
	if (insn->id == X86_INS_LEAVE) {
		flow->written = 1u << X86_RBP;
		flow->is_restore = true;
		flow->to = X86_RSP;
		flow->from = X86_RBP;
	}
	if (flow->written & 1u << X86_RSP)
		flow->is_restore = false;
}

static void read_memory(const cs_insn *insn, struct flow *flow)
{
	for (uint8_t i = 0; i < insn->detail->x86.op_count; i++) {
		const cs_x86_op *op = &insn->detail->x86.operands[i];
		uint64_t address;

		if (op->type != X86_OP_MEM || op->mem.base != X86_REG_RIP)
			continue;
		address = insn->address + insn->size + (uint64_t)op->mem.disp;
		if (insn->id == X86_INS_LEA) {
			flow->points = address;
		} else if (insn->id != X86_INS_NOP) {
			flow->read = address;
			flow->read_size = op->size;
		}
	}
}

/* jmp and call through a register or memory (ff /4, ff /2). */
static bool read_indirect(const cs_insn *insn, const struct prefixes *p, struct flow *flow)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	struct exit_site *site = &flow->site;

	if (p->has_data16 || insn->detail->x86.op_count != 1)
		return false;
	flow->kind = insn->id == X86_INS_CALL ? FLOW_CALL_INDIRECT : FLOW_INDIRECT;
	flow->is_notrack = p->has_notrack;
	flow->refused = refused_prefix(p);
	site->kind = SITE_INDIRECT;
	if (op->type == X86_OP_REG) {
		site->base = number_of(op->reg);
		return site->base != SITE_REGISTER_NONE;
	}
	if (op->type != X86_OP_MEM)
		return false;
	site->is_memory = 1;
	site->base = op->mem.base == X86_REG_RIP ? SITE_REGISTER_IP : number_of(op->mem.base);
	site->index = number_of(op->mem.index);
	site->scale = (uint8_t)op->mem.scale;
	site->displacement = op->mem.disp;
	if (!flow->refused && (p->has_fs_gs || p->has_address32))
		flow->refused =
			"a jump through thread-local or 32-bit memory, whose target is not understood";
	return true;
}

static bool read_decoded(const cs_insn *insn, const struct prefixes *p, struct flow *flow)
{
	switch (insn->id) {
	case X86_INS_JMP:
	case X86_INS_CALL:
		return read_indirect(insn, p, flow);
	case X86_INS_XBEGIN:
		flow->kind = FLOW_BRANCH;
		flow->target = (uint64_t)insn->detail->x86.operands[0].imm;
		flow->refused = "a transaction that aborts to elsewhere";
		return true;
	case X86_INS_UD2:
	case X86_INS_HLT:
		flow->kind = FLOW_STOP;
		return true;
	case X86_INS_SYSCALL:
	case X86_INS_SYSENTER:
	case X86_INS_INT:
		flow->enters_kernel = true;
		return true;
	case X86_INS_INT3:
	case X86_INS_NOP:
		flow->is_padding = true;
		return true;
	case X86_INS_LJMP:
	case X86_INS_LCALL:
	case X86_INS_RETF:
	case X86_INS_RETFQ:
	case X86_INS_IRET:
	case X86_INS_IRETD:
	case X86_INS_IRETQ:
	case X86_INS_SYSRET:
	case X86_INS_SYSEXIT:
		return false;
	default:
		return true;
	}
}

size_t flow_x86_unknown(const uint8_t *bytes, size_t length, uint32_t *written)
{
	size_t most = length < LONGEST ? length : LONGEST;
	struct prefixes p = read_prefixes(bytes, most);
	struct flow flow = {.kind = FLOW_NEXT};

	if (!read_undefined(bytes, most, &p, &flow) && !read_shape(bytes, most, &p, &flow))
		return 0;
	*written = flow.written;
	return flow.site.length;
}

bool flow_x86_read(struct decoder *decoder, const uint8_t *bytes, size_t length, struct flow *flow)
{
	size_t most = length < LONGEST ? length : LONGEST, left = most;
	struct prefixes p = read_prefixes(bytes, most);
	uint64_t address = flow->site.address;
	const uint8_t *next = bytes;
	const cs_insn *insn = decoder->insn;
	bool valid;

	if (read_control(bytes, most, &p, flow, &valid))
		return valid;
	if (read_undefined(bytes, most, &p, flow))
		return true;
	if (!cs_disasm_iter(decoder->handle, &next, &left, &address, decoder->insn))
		return read_shape(bytes, most, &p, flow);
	flow->site.length = (uint8_t)insn->size;
	flow->is_padding = insn->size == 2 && bytes[0] == 0 && bytes[1] == 0;
	read_registers(insn, flow);
	read_memory(insn, flow);
	return read_decoded(insn, &p, flow);
}
