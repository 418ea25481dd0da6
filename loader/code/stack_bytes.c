// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/stack_bytes.h"

#include <string.h>

/*
 * `pop %rsp` is a single byte, which stands in every other function as a part of something else:
 * behind a prefix it is `pop %r12`, behind others a subtraction of floating-point numbers. It
 * counts where what a stack switch does next follows: pops, a return, an indirect jump or call.
 */
static bool is_pop(const uint8_t *at, size_t before, size_t left)
{
	if ((before > 0 && ((at[-1] & 0xf1) == 0x41 || at[-1] == 0x0f)) ||
	    (before > 1 && at[-2] == 0xc5) || (before > 2 && at[-3] == 0xc4) ||
	    (before > 3 && at[-4] == 0x62))
		return false;
	if (at[1] == 0xc3 || at[1] == 0xe9 || at[1] == 0xeb) /* ret, jmp */
		return true;
	/* The lowest byte of a distance of four bytes, mostly a small one. */
	if (left > 3 && (at[3] == 0 || (at[2] == 0xff && at[3] == 0xff)))
		return false;
	switch (at[1]) {
	case 0xc2: /* ret $ */
	case 0x9d: /* popf */
		return true;
	case 0x48: /* mov from or to memory or a register */
	case 0x49:
	case 0x4c:
		return at[2] == 0x8b || at[2] == 0x89;
	case 0xf2: /* bnd */
		return at[2] == 0xc3 || at[2] == 0xff;
	case 0xf3: /* rep */
		return at[2] == 0xc3;
	case 0x41: /* of r8-r15 */
		return (at[2] & 0xf8) == 0x58 || at[2] == 0xff;
	case 0xff: /* call, jmp */
		return (at[2] & 0x38) == 0x10 || (at[2] & 0x38) == 0x20;
	default:
		return (at[1] & 0xf8) == 0x58;
	}
}

/*
 * `leave` likewise, and where what else may follow it at the end of a frame does: jumps, more of
 * the stack.
 */
static bool is_leave(const uint8_t *at, size_t left)
{
	switch (at[1]) {
	case 0xc2: /* ret $ */
	case 0xc3: /* ret */
	case 0xc9: /* leave */
	case 0x9d: /* popf */
	case 0xe9: /* jmp */
	case 0xeb:
		return true;
	case 0xf2: /* bnd */
		return at[2] == 0xc3 || at[2] == 0xe9 || at[2] == 0xff;
	case 0xf3: /* rep */
		return at[2] == 0xc3;
	case 0x3e: /* notrack */
		return at[2] == 0xff;
	case 0x41: /* of r8-r15 */
		return (at[2] & 0xf8) == 0x58 || at[2] == 0xff;
	case 0xff: /* call, jmp */
		return (at[2] & 0x38) == 0x10 || (at[2] & 0x38) == 0x20;
	case 0x48: /* lea, add, mov of the stack pointer */
	case 0x49:
		return left > 3 &&
		       (((at[2] == 0x8d || at[2] == 0x8b) && (at[3] >> 3 & 7) == 4) ||
			((at[2] == 0x81 || at[2] == 0x83) && (at[3] == 0xc4 || at[3] == 0xec)));
	default:
		return (at[1] & 0xf8) == 0x58;
	}
}

/* lea of (%rsp ...) is no load, and of N(%rbp) the end of a frame. */
static enum stack_bytes judge_lea(const uint8_t *at, size_t left)
{
	uint8_t rm = at[2] & 7;
	bool is_low = !(at[0] & 1);

	if (is_low && rm == 4 && left > 3 && (at[3] & 7) == 4)
		return STACK_BYTES_NONE;
	return is_low && rm == 5 && at[2] >= 0x40 ? STACK_BYTES_FRAME : STACK_BYTES_LOAD;
}

typedef uint8_t vector __attribute__((vector_size(STACK_BYTES_BLOCK)));

static vector load(const uint8_t *at)
{
	vector bytes;

	memcpy(&bytes, at, sizeof(bytes));
	return bytes;
}

bool stack_bytes_none(const uint8_t *at)
{
	vector first = load(at), second = load(at + 1), third = load(at + 2);
	/* 87, 89, 8b, 8d, c7 and a few that are none; 94; 0f */
	vector is_move = ((vector)((second & 0xf9) == 0x89) | (vector)((second & 0xbf) == 0x87)) &
			 ((vector)((third & 0x38) == 0x20) | (vector)((third & 0xc7) == 0xc4));
	vector is_other = (vector)(second == 0x94) |
			  ((vector)(second == 0x0f) & (vector)((third & 0xf0) == 0x40));
	/* All that may stand behind pop and leave, and more. */
	vector is_next = (vector)((second & 0xc0) == 0xc0) | (vector)((second & 0xf8) == 0x58) |
			 (vector)((second & 0xf0) == 0x40) | (vector)(second == 0x9d) |
			 (vector)(second == 0x3e);
	vector found = ((vector)((first & 0xf8) == 0x48) & (is_move | is_other)) |
		       (((vector)(first == 0x5c) | (vector)(first == 0xc9)) & is_next);
	uint64_t halves[STACK_BYTES_BLOCK / sizeof(uint64_t)], any = 0;

	memcpy(halves, &found, sizeof(found));
	for (size_t i = 0; i < sizeof(halves) / sizeof(halves[0]); i++)
		any |= halves[i];
	return !any;
}

enum stack_bytes stack_bytes_x86(const uint8_t *at, size_t before, size_t left)
{
	bool is_reg_sp, is_rm_sp, is_load;
	uint8_t reg, rm;

	if (left < 3 && (left < 2 || at[1] != 0xc3))
		return STACK_BYTES_NONE;
	if (at[0] == 0x5c)
		return is_pop(at, before, left) ? STACK_BYTES_LOAD : STACK_BYTES_NONE;
	if (at[0] == 0xc9)
		return is_leave(at, left) ? STACK_BYTES_LEAVE : STACK_BYTES_NONE;
	if (left < 3)
		return STACK_BYTES_NONE;
	if ((at[0] & 0xf8) != 0x48)
		return STACK_BYTES_NONE;
	reg = at[2] >> 3 & 7;
	rm = at[2] & 7;
	is_reg_sp = reg == 4 && !(at[0] & 4);
	is_rm_sp = at[2] >= 0xc0 && rm == 4 && !(at[0] & 1);
	switch (at[1]) {
	case 0x8b: /* mov r/m,r */
		if (at[0] == 0x48 && at[2] == 0xe5)
			return STACK_BYTES_FRAME;
		is_load = is_reg_sp;
		break;
	case 0x89: /* mov r,r/m */
		if (at[0] == 0x48 && at[2] == 0xec)
			return STACK_BYTES_FRAME;
		is_load = is_rm_sp;
		break;
	case 0xc7: /* mov $,r/m */
		is_load = is_rm_sp;
		break;
	case 0x87: /* xchg */
		is_load = is_reg_sp || is_rm_sp;
		break;
	case 0x8d: /* lea */
		return is_reg_sp ? judge_lea(at, left) : STACK_BYTES_NONE;
	case 0x94: /* xchg %rax,%rsp */
		is_load = at[0] == 0x48;
		break;
	case 0x0f: /* cmov */
		is_load =
			(at[2] & 0xf0) == 0x40 && left > 3 && (at[3] >> 3 & 7) == 4 && !(at[0] & 4);
		break;
	default:
		is_load = false;
	}
	return is_load ? STACK_BYTES_LOAD : STACK_BYTES_NONE;
}

/*
 * add or sub of a constant into sp from another register (`mov sp, xN` is one), or the sum of two.
 */
bool stack_bytes_arm64(const uint8_t *at, size_t left)
{
	uint32_t word;

	if (left < sizeof(word))
		return false;
	memcpy(&word, at, sizeof(word));
	if ((word & 0x1f) != 31 || (word >> 5 & 0x1f) == 31)
		return false;
	return (word & 0xbf000000) == 0x91000000 || (word & 0xbfe00000) == 0x8b200000;
}

/* ---- rbp ---- */

/* What becomes of rbp by an instruction that begins with REX.W, of at least four bytes. */
static void note_wide(const uint8_t *at, struct stack_bytes_frame *frame)
{
	uint8_t reg = at[2] >> 3 & 7, rm = at[2] & 7;
	bool is_reg = reg == 5 && !(at[0] & 4); /* the operand that may be memory is the source */
	/* it is a register, and the result */
	bool is_rm = at[2] >= 0xc0 && rm == 5 && !(at[0] & 1);
	bool is_of_rsp = rm == 4 && !(at[0] & 1) && (at[2] >= 0xc0 || (at[3] & 7) == 4);
	bool is_of_rbp = rm == 5 && !(at[0] & 1) && at[2] >= 0x40;

	switch (at[1]) {
	case 0x8b: /* mov r/m,r */
		frame->may_be_own |= is_reg && at[2] >= 0xc0 && is_of_rsp;
		frame->may_be_strange |= is_reg && !(at[2] >= 0xc0 && is_of_rsp);
		break;
	case 0x89: /* mov r,r/m */
		frame->may_be_own |= is_rm && at[0] == 0x48 && reg == 4;
		frame->may_be_strange |= is_rm && !(at[0] == 0x48 && reg == 4);
		break;
	case 0x8d: /* lea */
		frame->may_be_own |= is_reg && is_of_rsp;
		frame->may_be_strange |= is_reg && !is_of_rsp && !is_of_rbp;
		break;
	case 0x87: /* xchg */
		frame->may_be_strange |= is_reg || is_rm;
		break;
	case 0x95: /* xchg %rax,%rbp */
	case 0xbd: /* movabs */
		frame->may_be_strange |= at[0] == 0x48;
		break;
	case 0xc7: /* mov $ */
		frame->may_be_strange |= is_rm;
		break;
	case 0x0f: /* cmov; movq from a vector */
		frame->may_be_strange |=
			(at[2] & 0xf0) == 0x40 && (at[3] & 0x38) == 0x28 && !(at[0] & 4);
		frame->may_be_strange |= at[2] == 0x7e && (at[3] & 0xc7) == 0xc5 && !(at[0] & 1);
		break;
	default:
		break;
	}
}

/* push of another register or of memory, and pop %rbp: where the pop stands. */
static bool is_pushed(const uint8_t *at, size_t before)
{
	static const struct {
		uint8_t distance, mask, modrm;
	} forms[] = {{2, 0xf8, 0x30}, {3, 0xff, 0x34}, {3, 0xf8, 0x70},
		     {4, 0xff, 0x74}, {6, 0xf8, 0xb0}, {7, 0xff, 0xb4}};

	if (before > 0 && (at[-1] & 0xf8) == 0x50)
		return at[-1] != 0x55 || (before > 1 && at[-2] == 0x41);
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		const uint8_t *from = at - forms[i].distance;

		if (before >= forms[i].distance && from[0] == 0xff &&
		    (from[1] & forms[i].mask) == forms[i].modrm)
			return true;
	}
	return false;
}

struct stack_bytes_frame stack_bytes_frame(const uint8_t *bytes, size_t size)
{
	struct stack_bytes_frame frame = {false, false};

	for (size_t i = 0; i + 3 < size && !frame.may_be_strange; i++) {
		if ((bytes[i] & 0xf8) == 0x48)
			note_wide(bytes + i, &frame);
		else if (bytes[i] == 0x5d)
			frame.may_be_strange |= is_pushed(bytes + i, i);
		else if (bytes[i] == 0xc9) /* leave, twice: by what stands in the frame */
			frame.may_be_strange |= bytes[i + 1] == 0xc9;
		else if (bytes[i] == 0xc8) /* enter */
			frame.may_be_own |= bytes[i + 3] == 0;
	}
	return frame;
}
