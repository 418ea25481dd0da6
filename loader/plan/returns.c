// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/returns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

const char *return_mode_name(enum return_mode mode)
{
	static const char *const names[] = {"auto", "uretprobe", "instruction", "none"};

	return names[mode];
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
		[RETURN_JUMPS] =
			"the program may longjmp out of them, after which returns are lost",
		[RETURN_RECURSES] = "they call themselves, and the kernel sees 64 returns at once",
		[RETURN_OWN] = "they look at their own return address, which a uretprobe replaces",
		[RETURN_POPS] =
			"they pop their arguments, and a uretprobe sees another stack pointer",
	};

	return texts[reason];
}

/* ---- one function ---- */

/*
 * Go: what comes back to the entry is the other branch of the check for room, which does not pass
 * the probe.
 */
static bool is_behind_stack_check(const struct hazard *hazard, const struct function *function)
{
	return hazard->moves_stacks && function->probe_offset != function->file_offset;
}

static int refuse_function(struct returns *returns, struct return_choice *choice, const char *why)
{
	choice->mode = RETURNS_INSTRUCTION;
	choice->refused = why;
	returns->refused++;
	return 0;
}

static int choose_instruction(struct returns *returns, const struct function *function,
			      struct return_choice *choice, enum return_reason reason)
{
	int err = shapes_of(returns->shapes, function, &choice->shape);

	choice->mode = RETURNS_INSTRUCTION;
	choice->reason = reason;
	if (err == -ENOMEM)
		return err;
	if (err) {
		const char *why = choice->shape ? choice->shape->why : "its code cannot be read";

		choice->shape = NULL;
		return refuse_function(returns, choice, why);
	}
	choice->loops =
		choice->shape->is_looped_to && !is_behind_stack_check(returns->hazard, function);
	return 0;
}

static bool calls_itself(const struct function_shape *shape, const struct function *function)
{
	for (size_t i = 0; i < shape->callee_count; i++) {
		if (shape->callees[i] == function->address)
			return true;
	}
	return false;
}

/* `ret $N`: at its uretprobe the stack pointer is not the one of its entry, by which calls are paired. */
static bool pops_arguments(const struct function_shape *shape)
{
	for (size_t i = 0; i < shape->exit_count; i++) {
		if (shape->exits[i].pop)
			return true;
	}
	return false;
}

/*
 * In a process without hazards a uretprobe breaks nothing: probes on the exits are chosen where it would
 * see less, or show, if the exits are known.
 */
static int choose_harmless(struct returns *returns, const struct function *function,
			   struct return_choice *choice)
{
	const struct function_shape *shape = NULL;
	int err = shapes_of(returns->shapes, function, &shape);

	if (err == -ENOMEM)
		return err;
	if (!err && shape->is_looped_to)
		return choose_instruction(returns, function, choice, RETURN_LOOP);
	if (shapes_looks_at_return(returns->shapes, function))
		return choose_instruction(returns, function, choice, RETURN_OWN);
	if (!err && pops_arguments(shape))
		return choose_instruction(returns, function, choice, RETURN_POPS);
	if (!err && calls_itself(shape, function))
		return choose_instruction(returns, function, choice, RETURN_RECURSES);
	if (!err && returns->hazard->jumps && !shapes_is_closed(returns->shapes, function))
		return choose_instruction(returns, function, choice, RETURN_JUMPS);
	choice->shape = err ? NULL : shape;
	choice->mode = RETURNS_URETPROBE;
	choice->reason = RETURN_HARMLESS;
	return 0;
}

/* --returns=uretprobe: what would go wrong is refused, or seen by instruction. */
static int choose_uretprobe(struct returns *returns, const struct function *function,
			    struct return_choice *choice)
{
	const struct function_shape *shape = NULL;
	int err = shapes_of(returns->shapes, function, &shape);

	if (err == -ENOMEM)
		return err;
	if (shapes_looks_at_return(returns->shapes, function))
		return refuse_function(
			returns, choice,
			"it looks at its own return address, which a uretprobe replaces");
	if (!err && pops_arguments(shape))
		return choose_instruction(returns, function, choice, RETURN_POPS);
	choice->mode = RETURNS_URETPROBE;
	choice->reason = RETURN_ASKED;
	return 0;
}

/* An entry alone may be a call, or loop re-entry at the probe. */
static int choose_none(struct returns *returns, const struct function *function,
		       struct return_choice *choice)
{
	const struct function_shape *shape = NULL;
	int err = shapes_of(returns->shapes, function, &shape);

	if (err == -ENOMEM)
		return err;
	if (!err && shape->is_looped_to && !is_behind_stack_check(returns->hazard, function))
		return refuse_function(
			returns, choice,
			"a loop comes back to its entry, and entries alone are no calls then");
	choice->mode = RETURNS_NONE;
	choice->reason = RETURN_ASKED;
	return 0;
}

static int choose_function(struct returns *returns, const struct function *function,
			   struct return_choice *choice)
{
	const struct hazard *hazard = returns->hazard;
	enum return_mode mode = returns->mode;

	if (function->refused)
		return refuse_function(returns, choice, function->refused);
	if (mode != RETURNS_NONE && shapes_is_amid_frame(returns->shapes, function))
		return refuse_function(returns, choice,
				       "it is a label in the midst of another function");
	if (mode == RETURNS_INSTRUCTION)
		return choose_instruction(returns, function, choice, RETURN_ASKED);
	if (mode == RETURNS_NONE)
		return choose_none(returns, function, choice);
	if (mode == RETURNS_URETPROBE)
		return choose_uretprobe(returns, function, choice);
	if (!hazard->found && (!hazard->execs || function->module->is_main))
		return choose_harmless(returns, function, choice);
	if (!hazard->asynchronous && shapes_is_closed(returns->shapes, function)) {
		int err = choose_harmless(returns, function, choice);

		if (choice->mode == RETURNS_URETPROBE)
			choice->reason = RETURN_CLOSED;
		return err;
	}
	return choose_instruction(returns, function, choice,
				  hazard->found ? RETURN_HAZARD : RETURN_EXEC);
}

/* ---- all of them ---- */

/* The functions lie by module and address: marks those whose entry lies in one before them. */
static void mark_overlaps(struct returns *returns)
{
	const struct function *before = NULL;
	uint64_t end = 0;
	size_t last = 0;

	for (size_t i = 0; i < returns->count; i++) {
		const struct function *function = returns->functions[i];
		struct return_choice *choices = returns->choices;

		if (!function)
			continue;
		if (!before || before->module != function->module)
			end = 0;
		choices[i].inside = function->address < end;
		if (choices[i].inside) {
			if (!choices[last].overlap)
				choices[last].overlap = (uint32_t)last + 1;
			choices[i].overlap = choices[last].overlap;
		}
		if (function->address + function->size > end)
			end = function->address + function->size;
		before = function;
		last = i;
	}
}

/*
 * Of those with uretprobes too, unless uretprobes are asked for: what is mapped later may change their
 * mode.
 */
static int count_exits(struct returns *returns)
{
	for (size_t i = 0; i < returns->count; i++) {
		const struct function_shape *shape = NULL;
		bool counts =
			returns->functions[i] && (returns->mode != RETURNS_URETPROBE ||
						  returns->choices[i].mode == RETURNS_INSTRUCTION);
		int err = counts ? shapes_of(returns->shapes, returns->functions[i], &shape)
				 : -ENOENT;

		if (err == -ENOMEM)
			return err;
		returns->exit_count += err ? 0 : shape->exit_count;
	}
	return 0;
}

static int choose_all(struct returns *returns)
{
	int err = 0;

	returns->refused = 0;
	returns->choices = calloc(returns->count + 1, sizeof(*returns->choices));
	if (!returns->choices)
		return -ENOMEM;
	for (size_t i = 0; i < returns->count && !err; i++)
		if (returns->functions[i])
			err = choose_function(returns, returns->functions[i], &returns->choices[i]);
	mark_overlaps(returns);
	return err;
}

int returns_make(struct returns *returns, const struct symbol_table *table,
		 const struct hazard *hazard, const struct function *const *functions, size_t count,
		 enum return_mode mode)
{
	int err;

	*returns = (struct returns){
		.functions = functions, .count = count, .mode = mode, .hazard = hazard};
	returns->shapes = shapes_open(table);
	if (!returns->shapes)
		return -ENOMEM;
	err = choose_all(returns);
	if (!err && mode != RETURNS_NONE)
		err = count_exits(returns);
	return err;
}

int returns_remake(const struct returns *former, struct returns *returns)
{
	*returns = *former;
	return choose_all(returns);
}

bool returns_are_alike(const struct returns *a, const struct returns *b)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct return_choice *one = &a->choices[i], *other = &b->choices[i];

		if (one->mode != other->mode || one->loops != other->loops ||
		    !one->refused != !other->refused)
			return false;
	}
	return true;
}

void returns_clear(struct returns *returns)
{
	shapes_close(returns->shapes);
	free(returns->choices);
	*returns = (struct returns){0};
}

/* ---- what is logged ---- */

static size_t count_choices(const struct returns *returns, int mode, int reason)
{
	size_t count = 0;

	for (size_t i = 0; i < returns->count; i++) {
		const struct return_choice *choice = &returns->choices[i];

		count += !choice->refused && (int)choice->mode == mode &&
			 (int)choice->reason == reason;
	}
	return count;
}

static void log_choices(const struct returns *returns, int mode, int reason, size_t count)
{
	const char *evidence = reason == RETURN_HAZARD ? returns->hazard->evidence : "";

	if (mode == RETURNS_NONE)
		log_info("entries only: %zu of %zu functions, as --returns asks", count,
			 returns->count);
	else
		log_info("returns by %s: %zu of %zu functions (%s%s%s)",
			 return_mode_name((enum return_mode)mode), count, returns->count,
			 return_reason_text((enum return_reason)reason),
			 reason == RETURN_HAZARD ? ": " : "", evidence);
}

void returns_log(const struct returns *returns, bool all)
{
	for (int mode = RETURNS_URETPROBE; mode <= RETURNS_NONE; mode++) {
		for (int reason = RETURN_ASKED; reason < RETURN_REASONS; reason++) {
			size_t count = count_choices(returns, mode, reason);

			if (count && (reason != RETURN_HARMLESS || all))
				log_choices(returns, mode, reason, count);
		}
	}
	if (returns->refused && all)
		log_info(
			"left out: %zu of %zu functions that cannot be hooked, or whose returns cannot be told",
			returns->refused, returns->count);
}
