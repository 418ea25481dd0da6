// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/insn.h"

/* Words of the instruction set by mask and value, from the Arm architecture reference manual. */
#define IS(word, mask, value) (((word) & (mask)) == (value))

enum { WORD = 4 };

static const char no_probe[] =
	"a branch that checks a signed address, on which the kernel takes no probe";

/* `bits` bits of the word from `at` on, as a signed number of words. */
static uint64_t distance(uint32_t word, unsigned int at, unsigned int bits)
{
	return (uint64_t)((int64_t)((uint64_t)(word >> at) << (64 - bits)) >> (64 - bits)) * WORD;
}

static void set_target(struct flow *flow, enum flow_kind kind, enum site_kind exit, uint64_t target)
{
	flow->kind = kind;
	flow->site.kind = (uint8_t)exit;
	flow->target = flow->site.address + target;
	flow->site.target = flow->target;
	flow->site.is_emulated = 1;
}

static bool read_direct(uint32_t word, struct flow *flow)
{
	struct exit_site *site = &flow->site;

	if (IS(word, 0x7c000000, 0x14000000)) { /* b, bl */
		set_target(flow, word >> 31 ? FLOW_CALL : FLOW_JUMP, SITE_JUMP,
			   distance(word, 0, 26));
	} else if (IS(word, 0xff000000, 0x54000000)) { /* b.cond, bc.cond */
		set_target(flow, FLOW_BRANCH, SITE_CONDITIONAL, distance(word, 5, 19));
		site->condition = SITE_FLAGS;
		site->code = word & 0x0f;
		if (word & 0x10)
			flow->refused =
				"a hinted conditional branch, on which the kernel takes no probe";
	} else if (IS(word, 0x7e000000, 0x34000000)) { /* cbz, cbnz */
		set_target(flow, FLOW_BRANCH, SITE_CONDITIONAL, distance(word, 5, 19));
		site->condition = word >> 24 & 1 ? SITE_NOT_ZERO : SITE_ZERO;
		site->width = word >> 31 ? 64 : 32;
		site->base = word & 0x1f;
	} else if (IS(word, 0x7e000000, 0x36000000)) { /* tbz, tbnz */
		set_target(flow, FLOW_BRANCH, SITE_CONDITIONAL, distance(word, 5, 14));
		site->condition = word >> 24 & 1 ? SITE_BIT_SET : SITE_BIT_CLEAR;
		site->code = (uint8_t)((word >> 31) << 5 | (word >> 19 & 0x1f));
		site->width = word >> 31 ? 64 : 32;
		site->base = word & 0x1f;
	} else {
		return false;
	}
	/* As a base 31 is the stack pointer, but here the register that is always zero. */
	if (site->base == ARM64_SP)
		flow->refused = "a branch on the zero register, which is not understood";
	return true;
}

static bool read_through_register(uint32_t word, struct flow *flow)
{
	struct exit_site *site = &flow->site;

	site->base = word >> 5 & 0x1f;
	if (IS(word, 0xfffffc1f, 0xd65f0000)) { /* ret */
		flow->kind = FLOW_RETURN;
	} else if (IS(word, 0xfffffbff, 0xd65f0bff)) { /* retaa, retab */
		flow->kind = FLOW_RETURN;
		flow->refused = no_probe;
	} else if (IS(word, 0xfffffc1f, 0xd61f0000)) { /* br */
		flow->kind = FLOW_INDIRECT;
	} else if (IS(word, 0xfefff800, 0xd61f0800)) { /* braa and its like */
		flow->kind = FLOW_INDIRECT;
		flow->refused = no_probe;
	} else if (IS(word, 0xfffffc1f, 0xd63f0000) ||
		   IS(word, 0xfefff800, 0xd63f0800)) { /* blr, blraa ... */
		flow->kind = FLOW_CALL_INDIRECT;
	} else {
		return false;
	}
	site->kind = flow->kind == FLOW_RETURN ? SITE_RETURN : SITE_INDIRECT;
	site->is_emulated = 1;
	return true;
}

/* svc, hvc, smc, brk, hlt, udf. True if it was one of them, or one that ends what we understand (*valid
 * false). */
static bool read_exception(uint32_t word, struct flow *flow, bool *valid)
{
	*valid = true;
	if (IS(word, 0xffe0001f, 0xd4000001) || IS(word, 0xffe0001f, 0xd4000002)) {
		flow->enters_kernel = true;
	} else if (IS(word, 0xffe0001f, 0xd4200000) || IS(word, 0xffe0001f, 0xd4400000) ||
		   (word && IS(word, 0xffff0000, 0))) {
		flow->kind = FLOW_STOP;
	} else if (word == 0) { /* udf #0: what linkers fill gaps with */
		flow->kind = FLOW_STOP;
		flow->is_padding = true;
		/* eret and others that leave for elsewhere */
	} else if (IS(word, 0xfe000000, 0xd6000000)) {
		*valid = false;
	} else {
		return false;
	}
	return true;
}

static void derive(struct flow *flow, uint32_t word)
{
	flow->to = word & 0x1f;
	flow->from = word >> 5 & 0x1f;
	flow->written |= 1u << flow->to;
}

/*
 * The forms that can write the stack pointer, and copies of it: add, sub, and, in their 64-bit
 * forms.
 */
static bool read_arithmetic(uint32_t word, struct flow *flow)
{
	bool has_stack_pointer = (word & 0x1f) == ARM64_SP || (word >> 5 & 0x1f) == ARM64_SP;

	if (IS(word, 0xbf800000, 0x91000000)) /* add, sub (immediate); mov to and from sp */
		derive(flow, word);
	else if (IS(word, 0xbfe00000, 0x8b200000) && has_stack_pointer) /* (extended register) */
		derive(flow, word);
	/* sub (register): alloca */
	else if (IS(word, 0xdf200000, 0xcb000000) && (word & 0x1f) != ARM64_SP)
		derive(flow, word);
	/* and (immediate) */
	else if (IS(word, 0xff800000, 0x92000000) && (word >> 5 & 0x1f) != ARM64_SP)
		derive(flow, word);
	else if (IS(word, 0xffa0f800, 0x04205000)) /* addvl, addpl */
		*flow = (struct flow){.kind = flow->kind,
				      .site = flow->site,
				      .to = word & 0x1f,
				      .from = word >> 16 & 0x1f,
				      .written = 1u << (word & 0x1f)};
	else if ((word & 0x1f) == ARM64_SP &&
		 (IS(word, 0xff800000, 0xb2000000) || IS(word, 0xff800000, 0xd2000000) ||
		  IS(word, 0x3f800000, 0x11000000) || IS(word, 0xff8003e0, 0x920003e0)))
		flow->written = 1u << ARM64_SP; /* from a constant, or only half of it */
	else
		return false;
	return true;
}

/* Literal loads and adr. */
static bool read_literal(uint32_t word, struct flow *flow)
{
	static const uint8_t sizes[] = {4, 8, 4, 0}, vector_sizes[] = {4, 8, 16, 0};
	bool is_vector = word >> 26 & 1;

	if (IS(word, 0x9f000000, 0x10000000)) {
		flow->points = flow->site.address + distance(word, 5, 19) + (word >> 29 & 3);
		flow->written = 1u << (word & 0x1f);
		return true;
	}
	if (!IS(word, 0x3b000000, 0x18000000))
		return false;
	flow->read = flow->site.address + distance(word, 5, 19);
	flow->read_size = (is_vector ? vector_sizes : sizes)[word >> 30];
	if (!is_vector)
		flow->written = 1u << (word & 0x1f);
	return true;
}

/*
 * str, stp and their like, and all that load or store vectors: no general register but the base
 * changes.
 */
static bool writes_memory_only(uint32_t word)
{
	bool is_single = IS(word, 0x38000000, 0x38000000);
	bool is_atomic = is_single && IS(word, 0x00200c00, 0x00200000);

	if (!IS(word, 0x0a000000, 0x08000000))
		return false;
	if (word & 0x04000000)
		return true;
	return !is_atomic && !(word & (is_single ? 0x00c00000 : 0x00400000));
}

/*
 * Any other instruction of this set writes at most what its lowest five bits and Capstone name. 31
 * is xzr.
 */
static void read_written(struct decoder *decoder, uint32_t word, bool is_known, struct flow *flow)
{
	const cs_arm64 *details = &decoder->insn->detail->arm64;
	uint8_t base = word >> 5 & 0x1f;

	if (writes_memory_only(word))
		return;
	flow->written |= 1u << (word & 0x1f);
	for (uint8_t i = 0; is_known && i < details->op_count; i++) {
		unsigned int reg = details->operands[i].reg;

		if (details->operands[i].type != ARM64_OP_REG ||
		    !(details->operands[i].access & CS_AC_WRITE))
			continue;
		if (reg >= ARM64_REG_X0 && reg <= ARM64_REG_X28)
			flow->written |= 1u << (reg - ARM64_REG_X0);
		else if (reg >= ARM64_REG_W0 && reg <= ARM64_REG_W30)
			flow->written |= 1u << (reg - ARM64_REG_W0);
		else if (reg == ARM64_REG_X29 || reg == ARM64_REG_X30)
			flow->written |= 1u << (reg == ARM64_REG_X29 ? 29 : 30);
	}
	flow->written &= ~(1u << ARM64_SP);
	/* Loads (ldr, ldp) from the function's own frame. */
	if (IS(word, 0x0a000000, 0x08000000) && (base == ARM64_SP || base == ARM64_FP))
		flow->is_restore = true;
}

bool flow_arm64_read(struct decoder *decoder, const uint8_t *bytes, size_t length,
		     struct flow *flow)
{
	uint64_t address = flow->site.address;
	const uint8_t *next = bytes;
	bool valid, is_known;
	size_t left = WORD;
	uint32_t word;

	if (length < WORD || address % WORD)
		return false;
	word = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (uint32_t)bytes[3] << 24;
	flow->site.length = WORD;
	if (read_direct(word, flow) || read_through_register(word, flow))
		return true;
	flow->site.base = SITE_REGISTER_NONE;
	if (read_exception(word, flow, &valid))
		return valid;
	flow->is_padding = word == 0xd503201f; /* nop */
	if (read_arithmetic(word, flow) || read_literal(word, flow))
		return true;
	is_known = cs_disasm_iter(decoder->handle, &next, &left, &address, decoder->insn);
	read_written(decoder, word, is_known, flow);
	/*
	 * Capstone 4 knows nothing newer than Armv8.2. All words are of one size, and only those of
	 * this group (branches, system) go elsewhere; the last is not given out (reserved).
	 */
	return is_known || !(IS(word, 0x1c000000, 0x14000000) || IS(word, 0x1e000000, 0));
}
