// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/returns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

const char *return_way_name(enum return_way way)
{
	static const char *const names[] = {"auto", "uretprobe", "instruction", "none"};

	return names[way];
}

const char *return_reason_text(enum return_reason reason)
{
	static const char *const texts[RETURN_REASONS] = {
		[RETURN_ASKED] = "as --returns asks",
		[RETURN_HARMLESS] = "nothing in the process throws, or switches stacks",
		[RETURN_CLOSED] = "nothing inside them can throw, or switch stacks",
		[RETURN_HAZARD] = "a uretprobe could kill the program",
		[RETURN_EXEC] = "the process may exec a program that throws",
		[RETURN_LOOP] = "a loop comes back to their entry",
	};

	return texts[reason];
}

/*
 * ---- one function
 * -------------------------------------------------------------------------------------
 */

/*
 * Go: what comes back to the entry is the other branch of the check for room, which does not pass
 * the probe.
 */
static bool is_behind_stack_check(const struct hazard *hazard, const struct function *function)
{
	return hazard->moves_stacks && function->probe_offset != function->file_offset;
}

static int refuse(struct return_plan *plan, struct return_choice *choice, const char *why)
{
	choice->way = RETURN_INSTRUCTION;
	choice->refused = why;
	plan->refused++;
	return 0;
}

static int choose_instruction(struct return_plan *plan, const struct function *function,
			      struct return_choice *choice, enum return_reason reason)
{
	int err = shapes_of(plan->shapes, function, &choice->shape);

	choice->way = RETURN_INSTRUCTION;
	choice->reason = reason;
	if (err == -ENOMEM)
		return err;
	if (err) {
		const char *why = choice->shape ? choice->shape->why : "its code cannot be read";

		choice->shape = NULL;
		return refuse(plan, choice, why);
	}
	choice->loops =
		choice->shape->is_looped_to && !is_behind_stack_check(plan->hazard, function);
	return 0;
}

/* In a process without hazards only a loop to the probe calls for instruction returns. */
static int choose_harmless(struct return_plan *plan, const struct function *function,
			   struct return_choice *choice)
{
	const struct function_shape *shape = NULL;
	int err = shapes_of(plan->shapes, function, &shape);

	if (err == -ENOMEM)
		return err;
	if (!err && shape->is_looped_to)
		return choose_instruction(plan, function, choice, RETURN_LOOP);
	choice->shape = err ? NULL : shape;
	choice->way = RETURN_URETPROBE;
	choice->reason = RETURN_HARMLESS;
	return 0;
}

/* An entry alone does not tell a call from a turn of a loop that comes back to the probe. */
static int choose_none(struct return_plan *plan, const struct function *function,
		       struct return_choice *choice)
{
	const struct function_shape *shape = NULL;
	int err = shapes_of(plan->shapes, function, &shape);

	if (err == -ENOMEM)
		return err;
	if (!err && shape->is_looped_to && !is_behind_stack_check(plan->hazard, function))
		return refuse(
			plan, choice,
			"a loop comes back to its entry, and entries alone are no calls then");
	choice->way = RETURN_NONE;
	choice->reason = RETURN_ASKED;
	return 0;
}

static int choose(struct return_plan *plan, const struct hazard *hazard,
		  const struct function *function, struct return_choice *choice,
		  enum return_way way)
{
	if (function->refused)
		return refuse(plan, choice, function->refused);
	if (way != RETURN_NONE && shapes_is_amid_frame(plan->shapes, function))
		return refuse(plan, choice, "it is a label in the midst of another function");
	if (way == RETURN_INSTRUCTION)
		return choose_instruction(plan, function, choice, RETURN_ASKED);
	if (way == RETURN_NONE)
		return choose_none(plan, function, choice);
	if (way != RETURN_AUTO) {
		choice->way = way;
		choice->reason = RETURN_ASKED;
		return 0;
	}
	if (!hazard->found && (!hazard->execs || function->module->is_main))
		return choose_harmless(plan, function, choice);
	if (!hazard->asynchronous && shapes_is_closed(plan->shapes, function)) {
		int err = choose_harmless(plan, function, choice);

		if (choice->way == RETURN_URETPROBE)
			choice->reason = RETURN_CLOSED;
		return err;
	}
	return choose_instruction(plan, function, choice,
				  hazard->found ? RETURN_HAZARD : RETURN_EXEC);
}

/*
 * ---- all of them
 * --------------------------------------------------------------------------------------
 */

struct placed {
	const struct function *function;
	size_t index;
};

static int by_address(const void *left, const void *right)
{
	const struct function *a = ((const struct placed *)left)->function;
	const struct function *b = ((const struct placed *)right)->function;

	if (a->module != b->module)
		return a->module < b->module ? -1 : 1;
	return (a->address > b->address) - (a->address < b->address);
}

/* Marks those whose entry lies in the code of one before them. */
static int mark_inside(struct return_plan *plan, const struct function *const *functions)
{
	struct placed *placed = calloc(plan->count ? plan->count : 1, sizeof(*placed));
	uint64_t end = 0;

	if (!placed)
		return -ENOMEM;
	for (size_t i = 0; i < plan->count; i++)
		placed[i] = (struct placed){functions[i], i};
	qsort(placed, plan->count, sizeof(*placed), by_address);
	for (size_t i = 0; i < plan->count; i++) {
		const struct function *function = placed[i].function;

		if (i && function->module == placed[i - 1].function->module)
			plan->choices[placed[i].index].inside = function->address < end;
		else
			end = 0;
		if (function->address + function->size > end)
			end = function->address + function->size;
	}
	free(placed);
	return 0;
}

/* Of those with uretprobes too: what is mapped later may change their way. */
static int count_exits(struct return_plan *plan, const struct function *const *functions)
{
	for (size_t i = 0; i < plan->count; i++) {
		const struct function_shape *shape = NULL;
		int err = shapes_of(plan->shapes, functions[i], &shape);

		if (err == -ENOMEM)
			return err;
		plan->exit_count += err ? 0 : shape->exit_count;
	}
	return 0;
}

static int choose_all(struct return_plan *plan, const struct function *const *functions,
		      enum return_way way)
{
	int err = 0;

	for (size_t i = 0; i < plan->count && !err; i++)
		err = choose(plan, plan->hazard, functions[i], &plan->choices[i], way);
	return err;
}

int return_plan_make(struct return_plan *plan, const struct symbol_table *table,
		     const struct hazard *hazard, const struct function *const *functions,
		     size_t count, enum return_way way)
{
	int err;

	*plan = (struct return_plan){.count = count, .hazard = hazard};
	plan->choices = calloc(count ? count : 1, sizeof(*plan->choices));
	plan->shapes = shapes_open(table);
	if (!plan->choices || !plan->shapes)
		return -ENOMEM;
	err = choose_all(plan, functions, way);
	if (!err && way != RETURN_URETPROBE && way != RETURN_NONE)
		err = count_exits(plan, functions);
	return err ? err : mark_inside(plan, functions);
}

int return_plan_again(const struct return_plan *former, const struct function *const *functions,
		      enum return_way way, struct return_plan *plan)
{
	int err;

	*plan = *former;
	plan->refused = 0;
	plan->choices = calloc(plan->count ? plan->count : 1, sizeof(*plan->choices));
	if (!plan->choices)
		return -ENOMEM;
	err = choose_all(plan, functions, way);
	return err ? err : mark_inside(plan, functions);
}

void return_plan_clear(struct return_plan *plan)
{
	if (plan->shapes)
		shapes_close(plan->shapes);
	free(plan->choices);
	*plan = (struct return_plan){0};
}
