// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What control reaches from the entry by direct branches is code for certain. Elsewhere (landing
 * pads, what jump tables lead to) there may be more: so it is looked whether a jump to the probe
 * could begin at any byte there, and one that could is one too many.
 */
#include "code/reentry.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"
#include "code/insn.h"

enum mark {
	MARK_START = 1,	 /* an instruction begins here */
	MARK_INSIDE = 2, /* it belongs to one that begins before it */
	MARK_QUEUED = 4, /* a branch goes here */
};

struct walk {
	const struct function_code *code;
	struct decoder decoder;
	uint8_t **marks; /* as code->ranges */
	uint64_t *work;
	size_t work_count, work_capacity;
	struct exit_site *turns;
	size_t turn_count, turn_capacity;
};

/* The place of the range, or -1. */
static int range_of(const struct walk *walk, uint64_t address)
{
	for (size_t i = 0; i < walk->code->range_count; i++)
		if (address - walk->code->ranges[i].address < walk->code->ranges[i].size)
			return (int)i;
	return -1;
}

static bool read_at(struct walk *walk, int range, uint64_t address, struct flow *flow)
{
	const struct code_range *code = &walk->code->ranges[range];
	uint64_t at = address - code->address;

	return decoder_read(&walk->decoder, code->bytes + at, code->size - at, address, flow);
}

/* From the entry to the probe there is but one way. */
static bool is_turn(const struct walk *walk, const struct flow *flow)
{
	return (flow->kind == FLOW_JUMP || flow->kind == FLOW_BRANCH) &&
	       flow->target >= walk->code->ranges[0].address && flow->target <= walk->code->probe;
}

static int push(struct walk *walk, uint64_t address)
{
	int range = range_of(walk, address);
	uint8_t *mark;

	if (range < 0)
		return 0;
	mark = &walk->marks[range][address - walk->code->ranges[range].address];
	if (*mark & (MARK_QUEUED | MARK_START))
		return 0;
	*mark |= MARK_QUEUED;
	if (vec_grow(&walk->work, &walk->work_capacity, walk->work_count))
		return -ENOMEM;
	walk->work[walk->work_count++] = address;
	return 0;
}

/* A turn by the probed instruction itself would have to be seen by the entry's program. */
static int note_turn(struct walk *walk, const struct flow *flow)
{
	if (flow->refused || flow->site.address == walk->code->probe)
		return -ENOTSUP;
	if (vec_grow(&walk->turns, &walk->turn_capacity, walk->turn_count))
		return -ENOMEM;
	walk->turns[walk->turn_count++] = flow->site;
	return 0;
}

static int note(struct walk *walk, const struct flow *flow)
{
	int err = is_turn(walk, flow) ? note_turn(walk, flow) : 0;

	if (flow->kind == FLOW_INDIRECT) /* goes to the probe, perhaps */
		return -ENOTSUP;
	if (!err && (flow->kind == FLOW_JUMP || flow->kind == FLOW_BRANCH))
		err = push(walk, flow->target);
	return err;
}

static bool goes_on(const struct flow *flow)
{
	return flow->kind != FLOW_STOP && flow->kind != FLOW_JUMP && flow->kind != FLOW_RETURN;
}

/* Until control goes elsewhere, leaves the ranges, or was here before. */
static int walk_from(struct walk *walk, uint64_t address)
{
	struct flow flow;
	int range, err;

	do {
		uint64_t at;

		range = range_of(walk, address);
		if (range < 0)
			return 0;
		at = address - walk->code->ranges[range].address;
		if (walk->marks[range][at] & MARK_START)
			return 0;
		if (!read_at(walk, range, address, &flow))
			return -ENOTSUP;
		walk->marks[range][at] |= MARK_START;
		for (uint64_t i = 1;
		     i < flow.site.length && at + i < walk->code->ranges[range].size; i++)
			walk->marks[range][at + i] |= MARK_INSIDE;
		err = note(walk, &flow);
		address += flow.site.length;
	} while (!err && goes_on(&flow));
	return err;
}

/* Where nothing was reached no turn may begin; and none inside of another instruction. */
static int look_elsewhere(struct walk *walk, int range)
{
	const struct code_range *code = &walk->code->ranges[range];

	for (uint64_t at = 0; at < code->size; at++) {
		uint8_t mark = walk->marks[range][at];
		struct flow flow;

		if (mark & MARK_START && mark & MARK_INSIDE)
			return -ENOTSUP;
		if (!(mark & (MARK_START | MARK_INSIDE)) &&
		    read_at(walk, range, code->address + at, &flow) && is_turn(walk, &flow))
			return -ENOTSUP;
	}
	return 0;
}

static int find_turns(struct walk *walk)
{
	int err = push(walk, walk->code->ranges[0].address);

	while (!err && walk->work_count)
		err = walk_from(walk, walk->work[--walk->work_count]);
	for (size_t i = 0; !err && i < walk->code->range_count; i++)
		err = look_elsewhere(walk, (int)i);
	return err;
}

int turns_read(const struct function_code *code, struct exit_site **turns, size_t *count)
{
	struct walk walk = {.code = code, .marks = calloc(code->range_count, sizeof(*walk.marks))};
	int err = walk.marks ? decoder_open(code->machine, &walk.decoder) : -ENOMEM;

	for (size_t i = 0; !err && i < code->range_count; i++) {
		walk.marks[i] = calloc(1, code->ranges[i].size);
		err = walk.marks[i] ? 0 : -ENOMEM;
	}
	if (!err)
		err = find_turns(&walk);
	decoder_close(&walk.decoder);
	for (size_t i = 0; walk.marks && i < code->range_count; i++)
		free(walk.marks[i]);
	free(walk.marks);
	free(walk.work);
	*count = err ? 0 : walk.turn_count;
	*turns = err ? NULL : walk.turns;
	if (err)
		free(walk.turns);
	return err;
}
