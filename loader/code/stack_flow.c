// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/stack_flow.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"
#include "code/insn.h"
#include "code/stack_step.h"

enum { MOST_VALUES = 64, SLOT = 64 };

/* A jump inside the code, by the places of its two ends in `steps`. */
struct edge {
	size_t to;
	size_t from;
};

/*
 * A register, or a slot of the frame (reg is SLOT: [base + displacement]), that must hold an own
 * value.
 */
struct value {
	uint8_t reg;
	uint8_t base;
	int64_t displacement;
	uint8_t *seen; /* a bit for each step before which it is asked for */
};

struct question {
	size_t value;
	size_t before; /* this step */
};

struct stack_flow {
	struct stack_code code;
	csh handle;
	bool is_x86;
	uint8_t sp;
	struct step *steps;
	size_t count;
	size_t capacity;
	struct edge *edges; /* by `to` */
	size_t edge_count;
	size_t edge_capacity;
	size_t *leaps; /* jumps to places that they do not name */
	size_t leap_count;
	size_t leap_capacity;
	uint32_t kept; /* registers that are only set from the stack pointer, or restored */
	/* address of the first byte that could not be decoded; UINT64_MAX: none */
	uint64_t undecoded;
	bool is_own;	/* a way back to the stack pointer was found */
	bool asks_slot; /* on some way the value comes from memory */
	bool is_stored; /* into which something was seen to be put */
	struct value values[MOST_VALUES];
	size_t value_count;
	struct question *questions;
	size_t question_count;
	size_t question_capacity;
};

/* ---- reading ---- */

/* The registers that a step gives a value which may be anything but an address of this frame. */
static uint32_t strange_results(const struct stack_flow *flow, const struct step *step)
{
	switch (step->kind) {
	case STEP_COPY:
		if (step->from == flow->sp || step->from == step->to)
			return step->writes & ~step_bit(step->to);
		return step->writes;
	case STEP_LOAD:
		return step->from == flow->sp ? 0 : step->writes;
	case STEP_POP:
	case STEP_LEAVE:
	case STEP_UNSTACK:
		return 0;
	default:
		return step->writes;
	}
}

static int add_step(struct stack_flow *flow, const cs_insn *insn)
{
	const struct stack_code *code = &flow->code;
	struct step *step;

	if (vec_grow(&flow->steps, &flow->capacity, flow->count))
		return -ENOMEM;
	step = &flow->steps[flow->count++];
	step_read(flow->handle, insn, flow->is_x86, step);
	flow->kept &= ~strange_results(flow, step);
	if (step->kind == STEP_CALL && step->displacement && code->is_endless &&
	    code->is_endless((uint64_t)step->displacement, code->context))
		step->kind = STEP_END;
	return 0;
}

/* An instruction that is not known, but for its length; 0, or -ENOENT: not even that. */
static int add_unknown(struct stack_flow *flow, const uint8_t *bytes, size_t left, uint64_t address,
		       size_t *size)
{
	uint32_t written = 0;

	*size = flow->is_x86 ? flow_x86_unknown(bytes, left, &written) : 0;
	if (!*size)
		return -ENOENT;
	if (vec_grow(&flow->steps, &flow->capacity, flow->count))
		return -ENOMEM;
	flow->steps[flow->count++] = (struct step){.address = address,
						   .writes = written,
						   .kind = STEP_OTHER,
						   .to = STEP_NO_REGISTER,
						   .from = STEP_NO_REGISTER};
	flow->kept &= ~written;
	return 0;
}

static int read_steps(struct stack_flow *flow)
{
	const uint8_t *bytes = flow->code.bytes;
	uint64_t address = flow->code.address;
	size_t left = flow->code.size;
	cs_insn *insn = cs_malloc(flow->handle);
	int err = insn ? 0 : -ENOMEM;

	while (!err && left) {
		size_t skipped;

		if (cs_disasm_iter(flow->handle, &bytes, &left, &address, insn)) {
			err = add_step(flow, insn);
			continue;
		}
		err = add_unknown(flow, bytes, left, address, &skipped);
		if (err == -ENOENT) {
			/*
			 * Data among the code: go on behind it, and remember that the way here is
			 * not sure.
			 */
			if (flow->undecoded == UINT64_MAX)
				flow->undecoded = address;
			skipped = flow->is_x86 || left < 4 ? 1 : 4;
			err = 0;
		}
		bytes += skipped;
		address += skipped;
		left -= skipped;
	}
	if (insn)
		cs_free(insn, 1);
	return err;
}

static int by_address(const void *key, const void *item)
{
	uint64_t address = *(const uint64_t *)key;
	const struct step *step = item;

	return address < step->address ? -1 : address > step->address;
}

static const struct step *step_at(const struct stack_flow *flow, uint64_t address)
{
	if (!flow->count)
		return NULL;
	return bsearch(&address, flow->steps, flow->count, sizeof(*flow->steps), by_address);
}

static int by_end(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	return x->to < y->to ? -1 : x->to > y->to;
}

static int read_edges(struct stack_flow *flow)
{
	for (size_t i = 0; i < flow->count; i++) {
		const struct step *step = &flow->steps[i], *target;

		if (step->kind == STEP_LEAP) {
			if (vec_grow(&flow->leaps, &flow->leap_capacity, flow->leap_count))
				return -ENOMEM;
			flow->leaps[flow->leap_count++] = i;
		}
		if (step->kind != STEP_JUMP && step->kind != STEP_BRANCH)
			continue;
		target = step_at(flow, (uint64_t)step->displacement);
		if (!target)
			continue;
		if (vec_grow(&flow->edges, &flow->edge_capacity, flow->edge_count))
			return -ENOMEM;
		flow->edges[flow->edge_count++] = (struct edge){(size_t)(target - flow->steps), i};
	}
	if (flow->edge_count)
		qsort(flow->edges, flow->edge_count, sizeof(*flow->edges), by_end);
	return 0;
}

static int read_code(struct stack_flow *flow)
{
	int err;

	if (!flow->is_x86 && flow->code.machine != EM_AARCH64)
		return -ENOTSUP;
	if (cs_open(flow->is_x86 ? CS_ARCH_X86 : CS_ARCH_ARM64,
		    flow->is_x86 ? CS_MODE_64 : CS_MODE_ARM, &flow->handle))
		return -ENOMEM;
	cs_option(flow->handle, CS_OPT_DETAIL, CS_OPT_ON);
	err = read_steps(flow);
	return err ? err : read_edges(flow);
}

struct stack_flow *stack_flow_open(const struct stack_code *code)
{
	struct stack_flow *flow = calloc(1, sizeof(*flow));
	int err;

	if (!flow)
		return NULL;
	flow->code = *code;
	flow->is_x86 = code->machine == EM_X86_64;
	flow->sp = flow->is_x86 ? STEP_X86_64_SP : STEP_AARCH64_SP;
	flow->undecoded = UINT64_MAX;
	flow->kept = UINT32_MAX;
	err = read_code(flow);
	if (!err)
		return flow;
	stack_flow_close(flow);
	errno = -err;
	return NULL;
}

static void forget(struct stack_flow *flow)
{
	for (size_t i = 0; i < flow->value_count; i++)
		free(flow->values[i].seen);
	flow->value_count = 0;
	flow->question_count = 0;
}

void stack_flow_close(struct stack_flow *flow)
{
	if (!flow)
		return;
	if (flow->handle)
		cs_close(&flow->handle);
	forget(flow);
	free(flow->steps);
	free(flow->edges);
	free(flow->leaps);
	free(flow->questions);
	free(flow);
}

/* ---- judging ---- */
/*
 * Backwards from the load, along all ways that lead to it: on each the value must come from the
 * stack pointer of this very frame. A way on which it comes from somewhere else, or on which the
 * beginning of the function is reached first, makes it foreign. Ways that come round again, or from
 * where nothing in the code goes (the function's .cold part does, or nobody), decide nothing; one
 * at least must decide. All functions here return 0 to go on, 1 for foreign, or -ENOMEM.
 */

static bool goes_on(const struct step *step)
{
	return step->kind != STEP_JUMP && step->kind != STEP_LEAP && step->kind != STEP_END;
}

static int own(struct stack_flow *flow)
{
	flow->is_own = true;
	return 0;
}

/* Takes value `index` up before this step, unless that was done already. */
static int ask(struct stack_flow *flow, size_t index, size_t before)
{
	struct value *value = &flow->values[index];
	uint8_t bit = (uint8_t)(1u << (before & 7));

	if (value->seen[before / 8] & bit)
		return 0;
	value->seen[before / 8] |= bit;
	if (vec_grow(&flow->questions, &flow->question_capacity, flow->question_count))
		return -ENOMEM;
	flow->questions[flow->question_count++] = (struct question){index, before};
	return 0;
}

static int ask_for(struct stack_flow *flow, struct value wanted, size_t before)
{
	for (size_t i = 0; i < flow->value_count; i++) {
		const struct value *value = &flow->values[i];

		if (value->reg == wanted.reg && value->base == wanted.base &&
		    value->displacement == wanted.displacement)
			return ask(flow, i, before);
	}
	if (flow->value_count == MOST_VALUES)
		return 1;
	wanted.seen = calloc(1, flow->count / 8 + 1);
	if (!wanted.seen)
		return -ENOMEM;
	flow->values[flow->value_count++] = wanted;
	return ask(flow, flow->value_count - 1, before);
}

static int ask_for_slot(struct stack_flow *flow, uint8_t base, int64_t displacement, size_t before)
{
	flow->asks_slot = true;
	return ask_for(flow, (struct value){SLOT, base, displacement, NULL}, before);
}

static int ask_for_register(struct stack_flow *flow, uint8_t reg, size_t before)
{
	if (reg == flow->sp)
		return own(flow);
	if (reg >= 32)
		return 1;
	/* The tables say that it points to this frame, and nothing here belies them. */
	if ((flow->kept & step_bit(reg)) && flow->code.frame_register &&
	    flow->code.frame_register(flow->steps[before].address, flow->code.context) == reg)
		return own(flow);
	return ask_for(flow, (struct value){.reg = reg}, before);
}

/* The value that step `at` gives to the register. */
static int ask_for_result(struct stack_flow *flow, uint8_t reg, size_t at)
{
	const struct step *step = &flow->steps[at];
	bool is_own;
	int result;

	if (step->kind == STEP_LEAVE)
		return reg == flow->sp ? ask_for_register(flow, STEP_X86_64_FP, at)
				       : ask_for_slot(flow, STEP_X86_64_FP, 0, at);
	if (step->to != reg)
		return 1;
	switch (step->kind) {
	case STEP_COPY:
	case STEP_DERIVE:
		return ask_for_register(flow, step->from, at);
	case STEP_SUM:
		return step->from == flow->sp ? own(flow) : ask_for_register(flow, reg, at);
	case STEP_ADJUST:
		return ask_for_register(flow, reg, at);
	case STEP_LOAD:
		is_own = flow->is_own;
		result = ask_for_register(flow, step->from, at);
		/* That the slot is of this frame says nothing of what is in it. */
		flow->is_own = is_own;
		if (result)
			return result;
		return ask_for_slot(flow, step->from, step->displacement, at);
	case STEP_POP:
		return ask_for_slot(flow, flow->sp, 0, at);
	default:
		return 1;
	}
}

/*
 * The slot [base + displacement], where the frame begins at step `at`: base becomes the stack
 * pointer. It may be one into which what follows at once pushes something. If not, nobody loads
 * what is not stored yet, so that this is a way that is never gone (behind a call that does not
 * return).
 */
static int ask_for_pushed(struct stack_flow *flow, int64_t displacement, size_t at)
{
	int64_t offset = -flow->steps[at].displacement;

	while (++at < flow->count) {
		const struct step *step = &flow->steps[at];

		if (step->kind == STEP_PUSH) {
			offset -= 8;
			if (offset != displacement)
				continue;
			flow->is_stored = true;
			return ask_for_register(flow, step->to, at);
		}
		if (step->writes & step_bit(flow->sp) || !goes_on(step) ||
		    step->kind == STEP_BRANCH)
			break;
	}
	return 0;
}

/* What the slot was before step `at`, if it is asked for behind it. */
static int pass_slot(struct stack_flow *flow, size_t index, size_t at)
{
	const struct step *step = &flow->steps[at];
	uint8_t base = flow->values[index].base;
	int64_t displacement = flow->values[index].displacement;

	if (step->kind == STEP_STORE && step->from == base && step->displacement == displacement) {
		flow->is_stored = true;
		return ask_for_register(flow, step->to, at);
	}
	if (!(step->writes & step_bit(base)) || step->kind == STEP_CALL)
		return ask(flow, index, at);
	if (step->kind == STEP_PUSH && base == flow->sp && displacement)
		return ask_for_slot(flow, base, displacement - 8, at);
	if (step->kind == STEP_PUSH && base == flow->sp) {
		flow->is_stored = true;
		return ask_for_register(flow, step->to, at);
	}
	if (step->kind == STEP_POP && base == flow->sp && step->to != base)
		return ask_for_slot(flow, base, displacement + 8, at);
	if (step->kind == STEP_LEAVE && base == flow->sp)
		return ask_for_slot(flow, STEP_X86_64_FP, displacement + 8, at);
	if (step->kind != STEP_COPY || step->to != base)
		return 1; /* somewhere else */
	/* Above the frame are the arguments. */
	if (flow->is_x86 && base != flow->sp && displacement < 0 && step->from == flow->sp)
		return ask_for_pushed(flow, displacement, at);
	return ask_for_slot(flow, step->from, displacement + step->displacement, at);
}

/* What value `index` was before step `at`, if it is asked for behind it. */
static int pass(struct stack_flow *flow, size_t index, size_t at)
{
	uint8_t reg = flow->values[index].reg;

	if (reg == SLOT)
		return pass_slot(flow, index, at);
	return flow->steps[at].writes & step_bit(reg) ? ask_for_result(flow, reg, at)
						      : ask(flow, index, at);
}

/* The first edge to this step. */
static size_t first_edge(const struct stack_flow *flow, size_t to)
{
	size_t low;

	SEARCH_FIRST(low, flow->edge_count, flow->edges[low].to < to);
	return low;
}

/* What fills the space behind a jump: nobody comes through it. */
static bool is_padding(const struct stack_flow *flow, size_t at)
{
	for (;; at--) {
		size_t edge = first_edge(flow, at);

		if (flow->steps[at].kind != STEP_NOP ||
		    (edge < flow->edge_count && flow->edges[edge].to == at))
			return false;
		if (!at || !goes_on(&flow->steps[at - 1]))
			return true;
	}
}

/* Where nothing else leads to, one of the jumps that do not say where they go may. */
static int pass_leaps(struct stack_flow *flow, size_t index)
{
	int result = 0;

	for (size_t i = 0; i < flow->leap_count && !result; i++)
		result = pass(flow, index, flow->leaps[i]);
	return result;
}

/*
 * The beginning of the function. An argument may be another stack; what the callers keep in
 * registers that calls preserve is not for this function, so that the way to here is one that is
 * never gone.
 */
static int answer_at_entry(const struct stack_flow *flow, const struct value *value)
{
	uint32_t preserved =
		flow->is_x86 ? UINT32_C(0xf008) : UINT32_C(0x1ff80000); /* rbx, r12-r15; x19-x28 */

	return value->reg != SLOT && (step_bit(value->reg) & preserved) ? 0 : 1;
}

static int answer(struct stack_flow *flow, struct question question)
{
	size_t before = question.before, ways = 0;
	int result = 0;

	if (!before)
		return answer_at_entry(flow, &flow->values[question.value]);
	if (goes_on(&flow->steps[before - 1]) && !is_padding(flow, before - 1)) {
		result = pass(flow, question.value, before - 1);
		ways++;
	}
	for (size_t i = first_edge(flow, before);
	     i < flow->edge_count && flow->edges[i].to == before && !result; i++) {
		result = pass(flow, question.value, flow->edges[i].from);
		ways++;
	}
	return !result && !ways ? pass_leaps(flow, question.value) : result;
}

enum stack_load stack_flow_judge(struct stack_flow *flow, uint64_t address)
{
	const struct step *step = step_at(flow, address);
	int result;

	if (!step || !(step->writes & step_bit(flow->sp)) || step->kind == STEP_CALL ||
	    step->kind == STEP_PUSH || (step->kind == STEP_POP && step->to != flow->sp))
		return STACK_LOAD_NONE;
	flow->is_own = flow->asks_slot = flow->is_stored = false;
	result = ask_for_result(flow, flow->sp, (size_t)(step - flow->steps));
	while (!result && flow->question_count)
		result = answer(flow, flow->questions[--flow->question_count]);
	forget(flow);
	return result || !flow->is_own || (flow->asks_slot && !flow->is_stored) ? STACK_LOAD_FOREIGN
										: STACK_LOAD_OWN;
}

bool stack_flow_is_sure(const struct stack_flow *flow, uint64_t address)
{
	return address <= flow->undecoded;
}
