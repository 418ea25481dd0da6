// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/sites.h"

#include <errno.h>
#include <stdlib.h>

#include "code/exits.h"
#include "code/shape.h"

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
		.target_name = site->kind == SITE_JUMP || site->kind == SITE_CONDITIONAL
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
 * The jumps of loop re-entry, if all are known. Not where its code is another's too: one place has one
 * meaning.
 */
static size_t reentries_of(const struct plan *plan, size_t index,
			   const struct exit_site **reentries)
{
	const struct return_choice *choice = &plan->returns.choices[index];

	*reentries = NULL;
	return choice->shape && choice->loops && !choice->overlap
		       ? shapes_turns(plan->returns.shapes, plan->functions[index], reentries)
		       : 0;
}

static size_t describe_exits(const struct plan *plan, size_t index, struct probe_exit *exits)
{
	const struct function_shape *shape = plan->returns.choices[index].shape;
	const struct function *function = plan->functions[index];
	const struct exit_site *reentries;
	size_t reentry_count = reentries_of(plan, index, &reentries), count = 0;

	for (size_t i = 0; shape && i < shape->exit_count; i++)
		exits[count++] =
			describe_exit(plan->returns.shapes, function, shape, &shape->exits[i]);
	for (size_t i = 0; i < reentry_count; i++) {
		exits[count] = describe_exit(plan->returns.shapes, function, shape, &reentries[i]);
		exits[count++].setting.kind = SITE_TURN;
	}
	return count;
}

static void describe_function(const struct plan *plan, size_t index, struct probe_function *probe,
			      struct probe_exit *exits)
{
	const struct return_choice *choice = &plan->returns.choices[index];
	const struct function *function = plan->functions[index];
	const struct exit_site *reentries;

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
		.overlap = choice->overlap,
		.returns = choice->mode,
		.exits = exits,
		.exit_count = describe_exits(plan, index, exits),
	};
	if (reentries_of(plan, index, &reentries))
		probe->flags |= FUNCTION_TURNS;
}

size_t plan_most_exits(const struct plan *plan)
{
	size_t count = plan->returns.exit_count;
	const struct exit_site *reentries;

	for (size_t i = 0; i < plan->count && plan->returns.exit_count; i++)
		count += shapes_turns(plan->returns.shapes, plan->functions[i], &reentries);
	return count;
}

int plan_sites_make(const struct plan *plan, struct plan_sites *sites)
{
	size_t used = 0;

	sites->functions = calloc(plan->count, sizeof(*sites->functions));
	sites->exits = calloc(plan_most_exits(plan) + 1, sizeof(*sites->exits));
	if (!sites->functions || !sites->exits)
		return -ENOMEM;
	for (size_t i = 0; i < plan->count; i++) {
		describe_function(plan, i, &sites->functions[i], sites->exits + used);
		used += sites->functions[i].exit_count;
	}
	return 0;
}

void plan_sites_clear(struct plan_sites *sites)
{
	free(sites->functions);
	free(sites->exits);
	*sites = (struct plan_sites){0};
}
