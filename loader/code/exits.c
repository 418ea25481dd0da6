// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How a function is read. Control flow is followed from the entry through all direct branches: what
 * is reached so is code for certain. What is left lies behind jump tables, in landing pads of
 * exceptions and behind calls that do not return, where tables of data may lie too; it is swept in
 * a straight line if it decodes to its end and something in the function may reach it. A probe on a
 * byte of data would corrupt it, so a stretch that does not decode refuses the function, unless
 * nothing can lead there.
 */
#include "code/exits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "code/insn.h"

enum {
	MOST_PARTS = 16,
	MOST_BYTES = 16 << 20, /* of one range: no compiler's function is longer */
};

/* What is known of a byte. */
enum mark {
	MARK_START = 1,	 /* an instruction begins here */
	MARK_INSIDE = 2, /* it belongs to one that begins before it */
	MARK_TARGET = 4, /* a branch goes here */
	MARK_DATA = 8,	 /* the function reads it, or nothing leads here */
	MARK_CODE = MARK_START | MARK_INSIDE,
};

struct part {
	struct code_range range;
	uint8_t *marks;
};

/* An instruction that may leave the function; judged when all of it has been read. */
struct candidate {
	struct exit_site site;
	const char *refused;
	bool is_notrack;
	bool is_indexed; /* it goes where a table in memory tells */
	bool is_asked;	 /* find_part knows of its target nothing */
};

struct walk {
	const struct function_code *code;
	struct function_shape *shape;
	struct decoder decoder;
	struct part parts[MOST_PARTS];
	size_t part_count;
	uint64_t *work; /* where branches go that were not followed yet */
	size_t work_count, work_capacity;
	struct candidate *candidates;
	size_t candidate_count, candidate_capacity;
	size_t callee_capacity;
	bool has_gap;	 /* code was found that no direct branch leads to */
	bool has_table;	 /* an indirect jump may stay inside */
	bool is_inexact; /* the unwind tables do not follow the frame to its end */
	/* Registers by their bits: see note_registers. */
	uint32_t derived, copies, others, sources;
	/* those that hold an element of a table, or the sum of one and something */
	uint32_t indexed;
	bool loads_stack_pointer;
};

static int refuse(struct walk *walk, uint64_t address, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* "... at +0x1a", in the body; at the file's address elsewhere. -ENOTSUP. */
static int refuse(struct walk *walk, uint64_t address, const char *format, ...)
{
	const struct code_range *body = &walk->code->ranges[0];
	char what[112];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	if (address - body->address <= body->size)
		snprintf(walk->shape->why, sizeof(walk->shape->why), "%s at +0x%" PRIx64, what,
			 address - body->address);
	else
		snprintf(walk->shape->why, sizeof(walk->shape->why), "%s at 0x%" PRIx64, what,
			 address);
	return -ENOTSUP;
}

/* ---- parts and marks ---- */

static struct part *part_of(struct walk *walk, uint64_t address)
{
	for (size_t i = 0; i < walk->part_count; i++) {
		if (address - walk->parts[i].range.address < walk->parts[i].range.size)
			return &walk->parts[i];
	}
	return NULL;
}

/*
 * Takes off *range what a part holds already, since a byte belongs to one part: gcc may lay a cold part
 * inside the size of its function, and tables may overlap. False: it lies around a part.
 */
static bool cut_range(const struct walk *walk, struct code_range *range)
{
	for (size_t i = 0; i < walk->part_count && range->size; i++) {
		const struct code_range *other = &walk->parts[i].range;
		uint64_t end = range->address + range->size,
			 other_end = other->address + other->size;

		if (range->address >= other_end || end <= other->address)
			continue;
		if (range->address < other->address && end > other_end)
			return false;
		if (range->address < other->address) {
			range->size = other->address - range->address;
		} else {
			uint64_t cut = other_end < end ? other_end - range->address : range->size;

			range->bytes += cut;
			range->address += cut;
			range->size -= cut;
		}
	}
	return true;
}

static int add_part(struct walk *walk, const struct code_range *whole)
{
	struct part *part = &walk->parts[walk->part_count];
	struct code_range cut = *whole, *range = &cut;

	if (!range->size || range->size > MOST_BYTES || range->size > UINT64_MAX - range->address)
		return refuse(walk, range->address, "a part of %" PRIu64 " bytes", range->size);
	if (!cut_range(walk, range))
		return refuse(walk, range->address, "a part that lies around another one");
	if (!range->size)
		return 0;
	if (walk->part_count == MOST_PARTS)
		return refuse(walk, range->address, "more than %d parts, one of them", MOST_PARTS);
	part->range = *range;
	part->marks = calloc(1, range->size);
	if (!part->marks)
		return -ENOMEM;
	walk->part_count++;
	return 0;
}

static void mark(const struct part *part, uint64_t address, uint64_t length, uint8_t marks)
{
	for (uint64_t at = address - part->range.address, i = 0;
	     i < length && at + i < part->range.size; i++)
		part->marks[at + i] |= marks;
}

static int push_work(struct walk *walk, uint64_t address)
{
	struct part *part = part_of(walk, address);

	if (part->marks[address - part->range.address] & MARK_TARGET)
		return 0;
	if (vec_grow(&walk->work, &walk->work_capacity, walk->work_count))
		return -ENOMEM;
	mark(part, address, 1, MARK_TARGET);
	walk->work[walk->work_count++] = address;
	return 0;
}

/* ---- what an instruction tells ---- */

/*
 * Where the stack pointer comes from. A register is `derived` while, in a straight line, it holds
 * the stack pointer plus or minus something. `copies` and `others` ask of the whole function
 * instead: a frame pointer is set from the stack pointer and else only restored from the function's
 * own frame, so that it is good wherever it is used. Anything else that becomes the stack pointer
 * may be another stack.
 */
static void note_registers(struct walk *walk, const struct flow *flow)
{
	uint8_t sp = walk->decoder.stack_pointer;
	bool is_derived =
		flow->to != SITE_REGISTER_NONE &&
		(flow->from == sp || (flow->from < 32 && (walk->derived >> flow->from & 1)));
	uint32_t written = flow->written & ~(1u << sp);

	if (flow->to == sp && !is_derived)
		walk->sources |= 1u << flow->from;
	else if (flow->to != sp && (flow->written >> sp & 1))
		walk->loads_stack_pointer = true;
	if (flow->kind == FLOW_CALL || flow->kind == FLOW_CALL_INDIRECT)
		written |= walk->decoder.lost_in_calls;
	walk->derived &= ~written;
	if (flow->to != SITE_REGISTER_NONE && flow->to != sp) {
		written &= ~(1u << flow->to);
		if (is_derived)
			walk->derived |= 1u << flow->to;
		if (flow->from == sp)
			walk->copies |= 1u << flow->to;
		else if (flow->to != flow->from)
			walk->others |= 1u << flow->to;
	}
	if (!flow->is_restore)
		walk->others |= written;
}

/* As compilers jump by a table: load an element, add its base, jump. */
static void note_elements(struct walk *walk, const struct flow *flow)
{
	bool is_sum = flow->to != SITE_REGISTER_NONE && flow->to == flow->from;
	uint32_t written = flow->written;

	if (flow->kind == FLOW_CALL || flow->kind == FLOW_CALL_INDIRECT)
		written |= walk->decoder.lost_in_calls;
	if (is_sum)
		written &= ~(1u << flow->to);
	walk->indexed &= ~written;
	if (flow->is_indexed)
		walk->indexed |= written;
	if (is_sum && flow->added < 32 && (walk->indexed >> flow->added & 1))
		walk->indexed |= 1u << flow->to;
}

static bool loads_stack_pointer(const struct walk *walk)
{
	return walk->loads_stack_pointer || (walk->sources & ~(walk->copies & ~walk->others));
}

static int add_callee(struct walk *walk, uint64_t target)
{
	struct function_shape *shape = walk->shape;

	if (vec_grow(&shape->callees, &walk->callee_capacity, shape->callee_count))
		return -ENOMEM;
	shape->callees[shape->callee_count++] = target;
	return 0;
}

/* A call of its own entry is recursion; one of what follows reads the instruction pointer. */
static int note_call(struct walk *walk, const struct flow *flow)
{
	uint64_t next = flow->site.address + flow->site.length;

	if (flow->target == next)
		return 0;
	if (part_of(walk, flow->target) && flow->target != walk->code->ranges[0].address)
		return refuse(walk, flow->site.address, "a call into its own middle");
	return add_callee(walk, flow->target);
}

static int add_candidate(struct walk *walk, const struct flow *flow)
{
	const struct exit_site *site = &flow->site;

	if (vec_grow(&walk->candidates, &walk->candidate_capacity, walk->candidate_count))
		return -ENOMEM;
	walk->candidates[walk->candidate_count++] = (struct candidate){
		.site = flow->site,
		.refused = flow->refused,
		.is_notrack = flow->is_notrack,
		.is_indexed = site->is_memory
				      ? site->index != SITE_REGISTER_NONE
				      : site->base < 32 && (walk->indexed >> site->base & 1),
	};
	return 0;
}

static int note_jump(struct walk *walk, const struct flow *flow)
{
	const struct function_code *code = walk->code;

	if (!part_of(walk, flow->target))
		return add_candidate(walk, flow);
	/* From the entry to the probe there is but one way. */
	if (flow->target >= code->ranges[0].address && flow->target <= code->probe)
		walk->shape->is_looped_to = true;
	return push_work(walk, flow->target);
}

static int note(struct walk *walk, const struct flow *flow)
{
	struct part *part;

	note_registers(walk, flow);
	note_elements(walk, flow);
	walk->shape->enters_kernel |= flow->enters_kernel;
	part = flow->read_size ? part_of(walk, flow->read) : NULL;
	if (part)
		mark(part, flow->read, flow->read_size, MARK_DATA);
	switch (flow->kind) {
	case FLOW_CALL:
		return note_call(walk, flow);
	case FLOW_CALL_INDIRECT:
		walk->shape->calls_indirectly = true;
		return 0;
	case FLOW_JUMP:
	case FLOW_BRANCH:
		return note_jump(walk, flow);
	case FLOW_INDIRECT:
		walk->has_table = true;
		return add_candidate(walk, flow);
	case FLOW_RETURN:
		return add_candidate(walk, flow);
	default:
		return 0;
	}
}

/* ---- the walk ---- */

static bool read_at(struct walk *walk, const struct part *part, uint64_t address, struct flow *flow)
{
	uint64_t at = address - part->range.address;

	return decoder_read(&walk->decoder, part->range.bytes + at, part->range.size - at, address,
			    flow);
}

static bool may_stop_here(const struct flow *flow)
{
	return flow->kind == FLOW_CALL || flow->kind == FLOW_CALL_INDIRECT || flow->enters_kernel;
}

/*
 * Reads on from `address` until control goes elsewhere or where it has been. A stretch may end with
 * its range only behind something that need not come back; padding does not count.
 */
static int walk_from(struct walk *walk, uint64_t address, bool may_end)
{
	struct part *part = part_of(walk, address);

	walk->derived = 0;
	walk->indexed = 0;
	for (;;) {
		uint64_t at = address - part->range.address;
		struct flow flow;
		int err;

		if (at >= part->range.size) {
			if (may_end)
				return 0;
			part = part_of(walk, address);
			if (!part)
				return refuse(walk, address, "it runs on into what follows");
			continue;
		}
		if (part->marks[at] & MARK_START)
			return 0;
		if (!read_at(walk, part, address, &flow))
			return refuse(walk, address, "bytes that cannot be decoded");
		if (part->marks[at] & MARK_TARGET)
			walk->derived = walk->indexed = 0;
		mark(part, address, 1, MARK_START);
		mark(part, address + 1, flow.site.length - 1u, MARK_INSIDE);
		err = note(walk, &flow);
		if (err)
			return err;
		if (flow.kind == FLOW_STOP || flow.kind == FLOW_JUMP ||
		    flow.kind == FLOW_INDIRECT || flow.kind == FLOW_RETURN)
			return 0;
		if (!flow.is_padding)
			may_end = may_stop_here(&flow);
		address += flow.site.length;
	}
}

static int follow_work(struct walk *walk)
{
	int err = 0;

	while (walk->work_count && !err)
		err = walk_from(walk, walk->work[--walk->work_count], false);
	return err;
}

/* ---- parts that are told of only when asked ---- */

static bool is_entry_frame(const struct walk *walk, uint64_t address, bool *known)
{
	*known = false;
	return walk->code->is_entry_frame &&
	       walk->code->is_entry_frame(address, known, walk->code->context);
}

static bool is_direct(const struct candidate *candidate)
{
	return candidate->site.kind == SITE_JUMP || candidate->site.kind == SITE_CONDITIONAL;
}

static int ask_for_part(struct walk *walk, struct candidate *candidate)
{
	struct code_range range;
	bool known, is_entry;
	int err;

	candidate->is_asked = true;
	if (!part_of(walk, candidate->site.target)) {
		is_entry = is_entry_frame(walk, candidate->site.address, &known) || !known;
		if (!walk->code->find_part ||
		    !walk->code->find_part(&candidate->site, is_entry, &range,
					   walk->code->context) ||
		    candidate->site.target - range.address >= range.size)
			return 0;
		err = add_part(walk, &range);
		if (err)
			return err;
	}
	return push_work(walk, candidate->site.target);
}

static int follow_all(struct walk *walk)
{
	int err = follow_work(walk);

	for (size_t i = 0; i < walk->candidate_count && !err; i++) {
		if (!is_direct(&walk->candidates[i]) || walk->candidates[i].is_asked)
			continue;
		err = ask_for_part(walk, &walk->candidates[i]);
		if (!err)
			err = follow_work(walk);
	}
	return err;
}

/* ---- what no direct branch leads to ---- */

static uint64_t gap_end(const struct part *part, uint64_t at)
{
	while (at < part->range.size && !(part->marks[at] & (MARK_CODE | MARK_DATA)))
		at++;
	return at;
}

static bool is_filled(const uint8_t *bytes, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++) {
		if (bytes[i] != 0 && bytes[i] != 0xcc && bytes[i] != 0x90)
			return false;
	}
	return true;
}

/*
 * True if the bytes [at, end) are instructions, up to padding. *has_code tells whether there is
 * more than padding, *bad where they are not.
 */
static bool decodes(struct walk *walk, const struct part *part, uint64_t at, uint64_t end,
		    bool *has_code, uint64_t *bad)
{
	*has_code = false;
	while (at < end && !is_filled(part->range.bytes + at, end - at)) {
		struct flow flow;

		*bad = at;
		if (!read_at(walk, part, part->range.address + at, &flow) ||
		    flow.site.length > end - at)
			return false;
		*has_code |= !flow.is_padding;
		at += flow.site.length;
	}
	return true;
}

/* Without any of these nothing but the direct branches leads anywhere: no table, no landing pad. */
static bool may_be_reached(const struct walk *walk)
{
	return walk->has_table || walk->shape->callee_count || walk->shape->calls_indirectly;
}

/* One gap, which begins at `at`: swept from there on, or set aside. */
static int fill_gap(struct walk *walk, size_t index, uint64_t at)
{
	struct part *part = &walk->parts[index];
	uint64_t end = gap_end(part, at), bad = at;
	bool has_code;
	int err = 0;

	if (!decodes(walk, part, at, end, &has_code, &bad)) {
		if (may_be_reached(walk))
			return refuse(walk, part->range.address + bad,
				      "bytes that cannot be decoded");
		has_code = false;
	}
	if (!has_code || !may_be_reached(walk)) {
		mark(part, part->range.address + at, end - at, MARK_DATA);
		return 0;
	}
	walk->has_gap = true;
	while (at < end && !err) {
		if (part->marks[at] & (MARK_CODE | MARK_DATA)) {
			at++;
			continue;
		}
		if (is_filled(part->range.bytes + at, end - at)) {
			mark(part, part->range.address + at, end - at, MARK_DATA);
			return 0;
		}
		err = walk_from(walk, part->range.address + at, true);
		if (!err)
			err = follow_all(walk);
	}
	return err;
}

/* A part that a gap leads to is looked through as well: they are added at the end. */
static int fill_gaps(struct walk *walk)
{
	for (size_t i = 0; i < walk->part_count; i++) {
		for (uint64_t at = 0; at < walk->parts[i].range.size; at++) {
			int err;

			if (walk->parts[i].marks[at] & (MARK_CODE | MARK_DATA))
				continue;
			err = fill_gap(walk, i, at);
			if (err)
				return err;
		}
	}
	return 0;
}

/* ---- which of them leave ---- */

/*
 * Tables that some compilers write (-fno-asynchronous-unwind-tables, clang for arm64) tell of the
 * frame up to its end only, and show a return as if it were inside: then they cannot tell where a
 * jump leaves either.
 */
static void judge_tables(struct walk *walk)
{
	for (size_t i = 0; i < walk->candidate_count; i++) {
		bool known;

		if (walk->candidates[i].site.kind == SITE_RETURN &&
		    !is_entry_frame(walk, walk->candidates[i].site.address, &known) && known)
			walk->is_inexact = true;
	}
}

static bool has_return(const struct walk *walk)
{
	for (size_t i = 0; i < walk->candidate_count; i++) {
		if (walk->candidates[i].site.kind == SITE_RETURN)
			return true;
	}
	return false;
}

/* A direct jump out of all ranges. Nothing to do for one that the tables show to be a tail call. */
static int judge_direct(struct walk *walk, const struct candidate *candidate)
{
	bool known, is_entry = is_entry_frame(walk, candidate->site.address, &known);

	if (!known || is_entry || walk->is_inexact)
		return 0;
	/* No return tells whether the tables are exact. A target like a function's start, or a stub's, is
	 * none of ours. */
	if (!has_return(walk) && (is_entry_frame(walk, candidate->site.target, &known) || !known))
		return 0;
	return refuse(walk, candidate->site.address,
		      "a jump to a part that is not known (0x%" PRIx64 ")", candidate->site.target);
}

/* *leaves tells whether it needs a site. */
static int judge_indirect(struct walk *walk, const struct candidate *candidate, bool *leaves)
{
	bool known, is_entry = is_entry_frame(walk, candidate->site.address, &known);

	*leaves = !(known && !is_entry && !walk->is_inexact);
	if (!*leaves || !candidate->is_notrack)
		return 0;
	/*
	 * Compilers write notrack for their jump tables only; functions are jumped to without (an
	 * attribute, nocf_check, aside). But then a table is seen, or code that nothing else leads
	 * to.
	 */
	*leaves = false;
	if (candidate->is_indexed || walk->has_gap)
		return 0;
	return refuse(walk, candidate->site.address, "notrack jump that may leave");
}

/* A breakpoint is the first byte of an instruction: it must not be a later one of another. */
static bool is_overlapped(struct walk *walk, uint64_t address)
{
	const struct part *part = part_of(walk, address);

	return part->marks[address - part->range.address] & (MARK_INSIDE | MARK_DATA);
}

static int judge(struct walk *walk, const struct candidate *candidate)
{
	struct function_shape *shape = walk->shape;
	const struct exit_site *site = &candidate->site;
	bool leaves = true;
	int err = 0;

	if (is_direct(candidate) && part_of(walk, site->target))
		return 0;
	if (site->kind == SITE_INDIRECT)
		err = judge_indirect(walk, candidate, &leaves);
	else if (site->kind != SITE_RETURN)
		err = judge_direct(walk, candidate);
	if (err || !leaves)
		return err;
	if (candidate->refused)
		return refuse(walk, site->address, "%s", candidate->refused);
	if (is_overlapped(walk, site->address))
		return refuse(walk, site->address,
			      "an exit inside of another instruction or of data");
	shape->exits[shape->exit_count++] = *site;
	return is_direct(candidate) ? add_callee(walk, site->target) : 0;
}

/*
 * Where such a jump goes is told at the hit, by the ranges of the function: they must all be told
 * of.
 */
static int judge_parts(struct walk *walk)
{
	const struct function_shape *shape = walk->shape;

	for (size_t i = 0; i < shape->exit_count && walk->part_count > SITE_RANGES; i++) {
		if (shape->exits[i].kind == SITE_INDIRECT)
			return refuse(walk, shape->exits[i].address,
				      "an indirect jump among its %zu parts", walk->part_count);
	}
	return 0;
}

static int judge_all(struct walk *walk)
{
	size_t count = walk->candidate_count;
	int err = 0;

	walk->shape->exits = malloc((count ? count : 1) * sizeof(*walk->shape->exits));
	if (!walk->shape->exits)
		return -ENOMEM;
	judge_tables(walk);
	for (size_t i = 0; i < count && !err; i++)
		err = judge(walk, &walk->candidates[i]);
	return err ? err : judge_parts(walk);
}

/* ---- the result ---- */

static int by_address(const void *a, const void *b)
{
	const struct exit_site *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int finish(struct walk *walk)
{
	struct function_shape *shape = walk->shape;
	size_t kept = 0;

	if (shape->exit_count)
		qsort(shape->exits, shape->exit_count, sizeof(*shape->exits), by_address);
	if (shape->callee_count)
		qsort(shape->callees, shape->callee_count, sizeof(*shape->callees), by_value);
	for (size_t i = 0; i < shape->callee_count; i++) {
		if (!kept || shape->callees[kept - 1] != shape->callees[i])
			shape->callees[kept++] = shape->callees[i];
	}
	shape->callee_count = kept;
	shape->ranges = malloc(walk->part_count * sizeof(*shape->ranges));
	if (!shape->ranges)
		return -ENOMEM;
	for (size_t i = 0; i < walk->part_count; i++)
		shape->ranges[shape->range_count++] = (struct shape_range){
			walk->parts[i].range.address, walk->parts[i].range.size};
	shape->loads_stack_pointer = loads_stack_pointer(walk);
	shape->decoded = true;
	return 0;
}

static int read_function(struct walk *walk)
{
	const struct function_code *code = walk->code;
	int err = 0;

	for (size_t i = 0; i < code->range_count && !err; i++)
		err = add_part(walk, &code->ranges[i]);
	if (!err)
		err = push_work(walk, code->ranges[0].address);
	if (!err)
		err = follow_all(walk);
	if (!err)
		err = fill_gaps(walk);
	if (!err)
		err = judge_all(walk);
	return err ? err : finish(walk);
}

int function_shape_read(const struct function_code *code, struct function_shape *shape)
{
	struct walk *walk = calloc(1, sizeof(*walk));
	int err;

	*shape = (struct function_shape){0};
	if (!walk)
		return -ENOMEM;
	walk->code = code;
	walk->shape = shape;
	err = decoder_open(code->machine, &walk->decoder);
	if (err == -ENOTSUP)
		snprintf(shape->why, sizeof(shape->why),
			 "code for a machine that is not understood");
	else if (!err && !code->range_count)
		err = -EINVAL;
	if (!err)
		err = read_function(walk);
	decoder_close(&walk->decoder);
	for (size_t i = 0; i < walk->part_count; i++)
		free(walk->parts[i].marks);
	free(walk->work);
	free(walk->candidates);
	free(walk);
	return err;
}

void function_shape_clear(struct function_shape *shape)
{
	free(shape->exits);
	free(shape->callees);
	free(shape->ranges);
	*shape = (struct function_shape){0};
}
