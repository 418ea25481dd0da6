// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"

#define MOST_NAMED 5

static_assert((int)RETURN_URETPROBE == (int)RETURNS_URETPROBE &&
		      (int)RETURN_INSTRUCTION == (int)RETURNS_INSTRUCTION &&
		      (int)RETURN_NONE == (int)RETURNS_NONE,
	      "one list of return modes");
static_assert((int)EXIT_RETURN == (int)SITE_RETURN && (int)EXIT_JUMP == (int)SITE_JUMP &&
		      (int)EXIT_CONDITIONAL == (int)SITE_CONDITIONAL &&
		      (int)EXIT_INDIRECT == (int)SITE_INDIRECT,
	      "one list of exits");
static_assert((int)CONDITION_FLAGS == (int)SITE_FLAGS && (int)CONDITION_ZERO == (int)SITE_ZERO &&
		      (int)CONDITION_NOT_ZERO == (int)SITE_NOT_ZERO &&
		      (int)CONDITION_BIT_CLEAR == (int)SITE_BIT_CLEAR &&
		      (int)CONDITION_BIT_SET == (int)SITE_BIT_SET &&
		      REGISTER_IP == SITE_REGISTER_IP && REGISTER_NONE == SITE_REGISTER_NONE,
	      "one list of conditions");

static_assert((int)SHAPE_RANGES_TOLD == SITE_RANGES, "all of them have room");

/*
 * ---- choosing
 * -----------------------------------------------------------------------------------------
 */

static int check_hazard(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err = hazard_check(&c->symbols.modules, &c->hazard);

	if (err || !c->hazard.found || o->returns != RETURN_URETPROBE)
		return err;
	if (o->force) {
		log_warning("--force: hooking with uretprobes although it may kill the program: %s",
			    c->hazard.evidence);
		return 0;
	}
	log_error(
		"not hooking this program with --returns=uretprobe, as that could kill it: %s. Leave --returns "
		"out for the safe way; --force insists (see HAZARDS in scopetrace-record(1))",
		c->hazard.evidence);
	return -EPERM;
}

void capture_say_refused(const struct capture *c, const struct return_plan *before)
{
	size_t refused = 0;

	for (size_t i = 0; i < c->function_count; i++) {
		if (!c->returns.choices[i].refused || (before && before->choices[i].refused))
			continue;
		if (refused++ >= MOST_NAMED)
			continue;
		if (c->functions[i]->refused)
			log_warning(
				"no probe may sit at the entry of %s, which is %s; it is left out",
				c->functions[i]->demangled, c->functions[i]->refused);
		else
			log_warning("where %s returns cannot be told: %s; it is left out",
				    c->functions[i]->demangled, c->returns.choices[i].refused);
	}
	if (refused > MOST_NAMED)
		log_warning("and %zu more are left out for such reasons", refused - MOST_NAMED);
}

static bool no_entry_is_free(const struct capture *c)
{
	for (size_t i = 0; i < c->function_count; i++) {
		if (!c->functions[i]->refused)
			return false;
	}
	return true;
}

int capture_choose_returns(struct capture *c)
{
	int err = check_hazard(c);

	if (!err)
		err = return_plan_make(&c->returns, &c->symbols, &c->hazard, c->functions,
				       c->function_count, c->options->returns);
	if (err)
		return err;
	capture_say_refused(c, NULL);
	if (c->returns.refused < c->function_count)
		return 0;
	if (c->options->returns == RETURN_NONE || no_entry_is_free(c))
		log_error(
			"none of the functions can be hooked; choose others (`scopetrace functions` "
			"shows which can)");
	else
		log_error(
			"none of the functions can be hooked safely in this program; --returns=none "
			"records their entries alone");
	return -ENOTSUP;
}

uint32_t capture_setting_flags(const struct capture *c)
{
	if (c->hazard.moves_stacks)
		return SETTING_MIGRATE | SETTING_GOROUTINES;
	return c->options->migrate ? SETTING_MIGRATE : 0;
}

/*
 * ---- what the probes are told
 * -------------------------------------------------------------------------
 */

/* Of a function with more ranges no exit asks for them. */
static void describe_inside(struct exit_setting *setting, const struct function_shape *shape,
			    uint64_t from)
{
	for (size_t i = 0; i < shape->range_count && i < SITE_RANGES; i++) {
		int64_t begin = (int64_t)(shape->ranges[i].address - from);

		setting->inside[i] = (struct site_range){
			.begin = begin, .end = begin + (int64_t)shape->ranges[i].size};
	}
}

static struct probe_exit describe_exit(struct shapes *shapes, const struct function *function,
				       const struct function_shape *shape,
				       const struct exit_site *site)
{
	struct probe_exit exit = {
		.target_name = site->kind == EXIT_JUMP || site->kind == EXIT_CONDITIONAL
				       ? shapes_import(shapes, function->module, site->target)
				       : NULL,
		.offset = function->file_offset + (site->address - function->address),
		.setting = {.target = (int64_t)(site->target - site->address),
			    .displacement = site->displacement,
			    .kind = site->kind,
			    .condition = site->condition,
			    .code = site->code,
			    .width = site->width,
			    .is_memory = site->is_memory,
			    .base = site->base,
			    .index = site->index,
			    .scale = site->scale,
			    .length = site->length},
	};

	describe_inside(&exit.setting, shape, site->address);
	return exit;
}

/*
 * The jumps of its loop, if all are known. Not where its code is another's too: one place has one
 * meaning.
 */
static size_t turns_of(const struct capture *c, size_t index, uint32_t overlap,
		       const struct exit_site **turns)
{
	const struct return_choice *choice = &c->returns.choices[index];

	*turns = NULL;
	return choice->shape && choice->loops && !overlap
		       ? shapes_turns(c->returns.shapes, c->functions[index], turns)
		       : 0;
}

static size_t describe_exits(const struct capture *c, size_t index, uint32_t overlap,
			     struct probe_exit *exits)
{
	const struct function_shape *shape = c->returns.choices[index].shape;
	const struct function *function = c->functions[index];
	const struct exit_site *turns;
	size_t turn_count = turns_of(c, index, overlap, &turns), count = 0;

	for (size_t i = 0; shape && i < shape->exit_count; i++)
		exits[count++] =
			describe_exit(c->returns.shapes, function, shape, &shape->exits[i]);
	for (size_t i = 0; i < turn_count; i++) {
		exits[count] = describe_exit(c->returns.shapes, function, shape, &turns[i]);
		exits[count++].setting.kind = SITE_TURN;
	}
	return count;
}

static void describe_function(const struct capture *c, size_t index, uint32_t overlap,
			      struct probe_function *probe, struct probe_exit *exits)
{
	const struct return_choice *choice = &c->returns.choices[index];
	const struct function *function = c->functions[index];
	const struct exit_site *turns;

	*probe = (struct probe_function){
		.binary = choice->refused ? NULL : function->module->probe_path,
		.offset = function->probe_offset,
		.display = function->demangled,
		.name = function->name,
		.module = function->module->path,
		.address = function->address,
		.distance = (uint32_t)(function->probe_offset - function->file_offset),
		.flags = (choice->loops ? FUNCTION_LOOPS : 0) |
			 (choice->inside ? FUNCTION_INSIDE : 0),
		.overlap = overlap,
		.returns = (enum return_mode)choice->way,
		.exits = exits,
		.exit_count = describe_exits(c, index, overlap, exits),
	};
	if (turns_of(c, index, overlap, &turns))
		probe->flags |= FUNCTION_TURNS;
}

/* The functions of the table lie by module, and then by address. */
static int by_place(const void *left, const void *right, void *context)
{
	const struct function *const *functions = context;
	const struct function *a = functions[*(const uint32_t *)left];
	const struct function *b = functions[*(const uint32_t *)right];

	return (a > b) - (a < b);
}

/*
 * Numbers those whose code overlaps, as return_plan_make tells which lie inside another one. NULL:
 * no memory.
 */
static uint32_t *number_overlaps(const struct capture *c)
{
	uint32_t *order = calloc(c->function_count + 1, sizeof(*order));
	uint32_t *numbers = calloc(c->function_count + 1, sizeof(*numbers));

	if (!order || !numbers) {
		free(order);
		free(numbers);
		return NULL;
	}
	for (size_t i = 0; i < c->function_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, c->function_count, sizeof(*order), by_place, c->functions);
	for (size_t i = 1; i < c->function_count; i++) {
		if (!c->returns.choices[order[i]].inside)
			continue;
		if (!numbers[order[i - 1]])
			numbers[order[i - 1]] = order[i - 1] + 1;
		numbers[order[i]] = numbers[order[i - 1]];
	}
	free(order);
	return numbers;
}

size_t capture_exit_count(const struct capture *c)
{
	size_t count = c->returns.exit_count;
	const struct exit_site *turns;

	for (size_t i = 0; i < c->function_count && c->returns.exit_count; i++)
		count += shapes_turns(c->returns.shapes, c->functions[i], &turns);
	return count;
}

int capture_make_sites(const struct capture *c, struct capture_sites *sites)
{
	uint32_t *overlaps = number_overlaps(c);
	size_t used = 0;

	sites->functions = calloc(c->function_count, sizeof(*sites->functions));
	sites->exits = calloc(capture_exit_count(c) + 1, sizeof(*sites->exits));
	if (!sites->functions || !sites->exits || !overlaps) {
		free(overlaps);
		return -ENOMEM;
	}
	for (size_t i = 0; i < c->function_count; i++) {
		describe_function(c, i, overlaps[i], &sites->functions[i], sites->exits + used);
		used += sites->functions[i].exit_count;
	}
	free(overlaps);
	return 0;
}

void capture_free_sites(struct capture_sites *sites)
{
	free(sites->functions);
	free(sites->exits);
	*sites = (struct capture_sites){0};
}
