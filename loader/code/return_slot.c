// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/return_slot.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "code/insn.h"

/* Bytes from the stack pointer at the entry, where the return address lies; UNKNOWN: not known. */
struct frame {
	int64_t stack_pointer;
	int64_t frame_pointer;
};

#define UNKNOWN INT64_MIN

struct way {
	uint64_t address;
	struct frame frame;
};

struct look {
	const struct function_code *code;
	struct decoder decoder;
	uint8_t **visited; /* per range, a byte per byte */
	struct way *ways;  /* to follow yet */
	size_t way_count, way_capacity;
	bool found;
};

/* ---- one instruction ---- */

static int64_t plus(int64_t place, int64_t bytes)
{
	return place == UNKNOWN ? UNKNOWN : place + bytes;
}

/* Where a memory operand lies, or UNKNOWN. */
static int64_t place_of(const x86_op_mem *memory, const struct frame *frame)
{
	if (memory->index != X86_REG_INVALID || memory->segment != X86_REG_INVALID)
		return UNKNOWN;
	if (memory->base == X86_REG_RSP)
		return plus(frame->stack_pointer, memory->disp);
	if (memory->base == X86_REG_RBP)
		return plus(frame->frame_pointer, memory->disp);
	return UNKNOWN;
}

/* `lock orq $0,(%rsp)` and its like leave the word alone, whatever it is. */
static bool is_barrier(const cs_x86 *x86, unsigned int id)
{
	return x86->prefix[0] == X86_PREFIX_LOCK && x86->op_count == 2 &&
	       x86->operands[1].type == X86_OP_IMM &&
	       ((x86->operands[1].imm == 0 && (id == X86_INS_OR || id == X86_INS_ADD ||
					       id == X86_INS_SUB || id == X86_INS_XOR)) ||
		(x86->operands[1].imm == -1 && id == X86_INS_AND));
}

/* Operands of the slot: its address by lea, its content by all else but nops. */
static bool touches_slot(const cs_insn *insn, const struct frame *frame)
{
	const cs_x86 *x86 = &insn->detail->x86;

	if (insn->id == X86_INS_NOP || is_barrier(x86, insn->id))
		return false;
	for (uint8_t i = 0; i < x86->op_count; i++) {
		const cs_x86_op *op = &x86->operands[i];
		int64_t place = op->type == X86_OP_MEM ? place_of(&op->mem, frame) : UNKNOWN;

		if (place == UNKNOWN)
			continue;
		if (insn->id == X86_INS_LEA ? place == 0 : place < 8 && place + op->size > 0)
			return true;
	}
	return false;
}

static bool is_register(const cs_x86_op *op, x86_reg reg)
{
	return op->type == X86_OP_REG && op->reg == reg;
}

/* mov, lea, add, sub of the stack or frame pointer; true if the instruction was one of them. */
static bool move_pointer(const cs_insn *insn, struct frame *frame)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	int64_t *to, from = UNKNOWN;

	if (insn->detail->x86.op_count != 2)
		return false;
	if (is_register(&op[0], X86_REG_RSP))
		to = &frame->stack_pointer;
	else if (is_register(&op[0], X86_REG_RBP))
		to = &frame->frame_pointer;
	else
		return false;
	if (insn->id == X86_INS_MOV && is_register(&op[1], X86_REG_RSP))
		from = frame->stack_pointer;
	else if (insn->id == X86_INS_MOV && is_register(&op[1], X86_REG_RBP))
		from = frame->frame_pointer;
	else if (insn->id == X86_INS_LEA)
		from = place_of(&op[1].mem, frame);
	else if (insn->id == X86_INS_ADD && op[1].type == X86_OP_IMM)
		from = plus(*to, op[1].imm);
	else if (insn->id == X86_INS_SUB && op[1].type == X86_OP_IMM)
		from = plus(*to, -op[1].imm);
	else if (insn->id == X86_INS_CMP || insn->id == X86_INS_TEST)
		return true;
	*to = from;
	return true;
}

static void forget_written(const struct flow *flow, struct frame *frame)
{
	uint32_t written = flow->written;

	if (written >> X86_RSP & 1)
		frame->stack_pointer = UNKNOWN;
	if (written >> X86_RBP & 1)
		frame->frame_pointer = UNKNOWN;
}

/* Changes *frame as the instruction does. True: it looks at the return address. */
static bool step(const struct look *look, const struct flow *flow, struct frame *frame)
{
	const cs_insn *insn = look->decoder.insn;
	const cs_x86_op *op = insn->detail->x86.operands;
	uint8_t count = insn->detail->x86.op_count;
	bool looks = touches_slot(insn, frame);

	if (move_pointer(insn, frame))
		return looks;
	switch (insn->id) {
	case X86_INS_PUSH:
		frame->stack_pointer =
			plus(frame->stack_pointer, count && op[0].size == 2 ? -2 : -8);
		return looks;
	case X86_INS_PUSHFQ:
		frame->stack_pointer = plus(frame->stack_pointer, -8);
		return looks;
	case X86_INS_POPFQ:
	case X86_INS_POP:
		looks |= frame->stack_pointer == 0;
		frame->stack_pointer = plus(frame->stack_pointer, count && op[0].size == 2 ? 2 : 8);
		forget_written(flow, frame);
		return looks;
	case X86_INS_LEAVE:
		frame->stack_pointer = plus(frame->frame_pointer, 8);
		frame->frame_pointer = UNKNOWN;
		return looks;
	case X86_INS_MOV:
		/* A copy of the stack pointer while it points to the slot is the slot's address. */
		looks |=
			count == 2 && is_register(&op[1], X86_REG_RSP) && frame->stack_pointer == 0;
		return looks;
	default:
		forget_written(flow, frame);
		return looks;
	}
}

/* ---- the flow ---- */

static int follow(struct look *look, uint64_t address, const struct frame *frame)
{
	if (vec_grow(&look->ways, &look->way_capacity, look->way_count))
		return -ENOMEM;
	look->ways[look->way_count++] = (struct way){address, *frame};
	return 0;
}

static size_t range_at(const struct look *look, uint64_t address)
{
	size_t i = 0;

	while (i < look->code->range_count &&
	       address - look->code->ranges[i].address >= look->code->ranges[i].size)
		i++;
	return i;
}

/* A call or jump through a register or memory. */
static bool looks_through(const struct look *look, const struct flow *flow,
			  const struct frame *frame)
{
	const struct function_code *code = look->code;
	const char *name = flow->read_size && code->name_of_slot
				   ? code->name_of_slot(flow->read, code->context)
				   : NULL;

	return touches_slot(look->decoder.insn, frame) ||
	       (name && return_slot_is_read_by(name, flow->kind == FLOW_INDIRECT));
}

/* A straight line, until control goes elsewhere or where it has been. */
static int walk_line(struct look *look, struct way way)
{
	int err = 0;

	while (!err && !look->found) {
		size_t index = range_at(look, way.address);
		const struct code_range *range = &look->code->ranges[index];
		struct flow flow;
		uint64_t at;

		if (index == look->code->range_count)
			return 0;
		at = way.address - range->address;
		if (look->visited[index][at] || !decoder_read(&look->decoder, range->bytes + at,
							      range->size - at, way.address, &flow))
			return 0;
		look->visited[index][at] = 1;
		switch (flow.kind) {
		case FLOW_NEXT:
			look->found = step(look, &flow, &way.frame);
			break;
		case FLOW_CALL: /* of what follows, it is a push: call 1f; 1: pop */
			if (flow.target == way.address + flow.site.length)
				way.frame.stack_pointer = plus(way.frame.stack_pointer, -8);
			break;
		case FLOW_CALL_INDIRECT:
			look->found = looks_through(look, &flow, &way.frame);
			break;
		case FLOW_BRANCH:
			err = follow(look, flow.target, &way.frame);
			break;
		case FLOW_JUMP:
			return follow(look, flow.target, &way.frame);
		case FLOW_INDIRECT:
			look->found = looks_through(look, &flow, &way.frame);
			return 0;
		default:
			return 0;
		}
		way.address += flow.site.length;
	}
	return err;
}

static void close_look(struct look *look)
{
	for (size_t i = 0; look->visited && i < look->code->range_count; i++)
		free(look->visited[i]);
	free(look->visited);
	free(look->ways);
	decoder_close(&look->decoder);
}

static int open_look(struct look *look)
{
	const struct function_code *code = look->code;
	int err = decoder_open(code->machine, &look->decoder);

	if (err)
		return err;
	look->visited = calloc(code->range_count ? code->range_count : 1, sizeof(*look->visited));
	if (!look->visited)
		return -ENOMEM;
	for (size_t i = 0; i < code->range_count; i++) {
		look->visited[i] = calloc(1, code->ranges[i].size + 1);
		if (!look->visited[i])
			return -ENOMEM;
	}
	return 0;
}

int return_slot_read(const struct function_code *code, bool *looks)
{
	struct look look = {.code = code};
	const struct frame entry = {.frame_pointer = UNKNOWN};
	int err;

	*looks = false;
	if (code->machine != EM_X86_64 || !code->range_count)
		return -ENOTSUP;
	err = open_look(&look);
	if (!err)
		err = follow(&look, code->ranges[0].address, &entry);
	while (!err && !look.found && look.way_count)
		err = walk_line(&look, look.ways[--look.way_count]);
	*looks = !err && look.found;
	close_look(&look);
	return err;
}

/* ---- by name ---- */

static bool is_one_of(const char *name, const char *const *names)
{
	for (; *names; names++) {
		if (strcmp(name, *names) == 0)
			return true;
	}
	return false;
}

bool return_slot_is_read_by(const char *name, bool is_tail)
{
	/* Profilers ask who called their caller. */
	static const char *const of_caller[] = {"mcount", "_mcount", "__mcount", "__fentry__",
						NULL};
	/* glibc: from where the call comes decides what is found, or where execution goes on. */
	static const char *const of_own[] = {"dlsym",
					     "dlvsym",
					     "dlopen",
					     "dlmopen",
					     "setjmp",
					     "_setjmp",
					     "sigsetjmp",
					     "__sigsetjmp",
					     "getcontext",
					     "swapcontext",
					     "vfork",
					     "__vfork",
					     "__cyg_profile_func_enter",
					     "__cyg_profile_func_exit",
					     NULL};

	return is_one_of(name, of_caller) || (is_tail && is_one_of(name, of_own));
}
