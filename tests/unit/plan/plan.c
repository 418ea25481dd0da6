// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plan/sites.h"
#include "support/program.h"

static struct plan_options options_of(char *const *patterns, size_t count)
{
	return (struct plan_options){.include = patterns, .include_count = count};
}

static size_t index_of(const struct plan *plan, const char *name)
{
	size_t i = 0;

	while (i < plan->count && strcmp(plan->functions[i]->name, name) != 0)
		i++;
	cr_assert_lt(i, plan->count, "%s is not in the plan", name);
	return i;
}

Test(plan, goes_from_patterns_to_sites)
{
	char *patterns[] = {"hot", "fail", "work"};
	const struct plan_options options = options_of(patterns, 3);
	struct plan_sites sites = {0};
	struct plan plan;
	size_t exits = 0;

	cr_assert_eq(plan_make(&plan, &options, 0, target_path("clones")), 0);
	cr_assert_eq(plan.count, 3);
	cr_assert_eq(plan_sites_make(&plan, &sites), 0);
	for (size_t i = 0; i < plan.count; i++) {
		cr_assert_str_eq(sites.functions[i].name, plan.functions[i]->name);
		cr_assert_eq(sites.functions[i].offset, plan.functions[i]->probe_offset);
		cr_assert_eq(sites.functions[i].returns, RETURNS_URETPROBE);
		exits += sites.functions[i].exit_count;
	}
	cr_assert(exits && exits <= plan_most_exits(&plan));
	plan_sites_clear(&sites);
	plan_release(&plan);
	plan_release(&plan);
}

#if defined(__x86_64__)
Test(plan, numbers_the_functions_whose_code_overlaps)
{
	char *patterns[] = {"inner", "outer", "stranger"};
	const struct plan_options options = options_of(patterns, 3);
	struct plan plan;
	const struct return_choice *inner, *outer, *stranger;

	cr_assert_eq(plan_make(&plan, &options, 0, target_path("runinto")), 0);
	inner = &plan.returns.choices[index_of(&plan, "inner")];
	outer = &plan.returns.choices[index_of(&plan, "outer")];
	stranger = &plan.returns.choices[index_of(&plan, "stranger")];
	cr_assert(inner->inside && !outer->inside && !stranger->inside);
	cr_assert(inner->overlap && inner->overlap == outer->overlap && !stranger->overlap);
	plan_release(&plan);
}
#endif

#if defined(__x86_64__)
/* Also where uretprobes are asked for: room is made for its exits then. */
Test(plan, sees_returns_that_pop_arguments_by_instruction)
{
	char *patterns[] = {"pop_sum", "main"};
	struct plan_options options = options_of(patterns, 2);

	for (int mode = RETURNS_AUTO; mode <= RETURNS_INSTRUCTION; mode++) {
		struct plan plan;

		options.returns = (enum return_mode)mode;
		cr_assert_eq(plan_make(&plan, &options, 0, target_path("pops")), 0);
		cr_assert_eq(plan.returns.choices[index_of(&plan, "pop_sum")].mode,
			     RETURNS_INSTRUCTION);
		cr_assert_eq(plan.returns.choices[index_of(&plan, "main")].mode,
			     mode == RETURNS_INSTRUCTION ? RETURNS_INSTRUCTION : RETURNS_URETPROBE);
		cr_assert_geq(plan_most_exits(&plan), 1);
		plan_release(&plan);
	}
}
#endif

/* As `set` does, by whose numbers some functions are in other processes alone. */
Test(plan, leaves_out_functions_that_are_not_in_the_process)
{
	const struct plan_options options = {.is_look = true};
	const struct function *hot;
	struct plan plan;

	cr_assert_eq(plan_read_symbols(&plan, &options, 0, target_path("clones")), 0);
	hot = find_function(&plan.symbols, "clones", "hot");
	plan.functions = calloc(3, sizeof(*plan.functions));
	cr_assert(hot && plan.functions);
	plan.functions[1] = hot;
	plan.count = 3;
	cr_assert_eq(plan_decide(&plan), 0);
	cr_assert_eq(plan.returns.choices[0].mode, RETURNS_AUTO);
	cr_assert_eq(plan.returns.choices[1].mode, RETURNS_URETPROBE);
	cr_assert_eq(plan.returns.choices[2].mode, RETURNS_AUTO);
	plan_release(&plan);
}

/* A file that was mapped since and cannot be read is such a hazard. */
Test(plan, is_remade_when_the_process_turns_dangerous)
{
	char *patterns[] = {"hot", "fail"};
	const struct plan_options options = options_of(patterns, 2);
	struct returns former;
	struct plan plan;

	cr_assert_eq(plan_make(&plan, &options, 0, target_path("clones")), 0);
	cr_assert_eq(plan_remake(&plan, &former), 0);
	plan.hazard.found = plan.hazard.asynchronous = true;
	cr_assert_eq(plan_remake(&plan, &former), 1);
	cr_assert_eq(plan.returns.choices[0].mode, RETURNS_INSTRUCTION);
	plan_settle(&plan, &former, false);
	cr_assert_eq(plan.returns.choices[0].mode, RETURNS_URETPROBE);
	cr_assert_eq(plan_remake(&plan, &former), 1);
	plan_settle(&plan, &former, true);
	cr_assert_eq(plan.returns.choices[0].mode, RETURNS_INSTRUCTION);
	cr_assert_eq(plan_remake(&plan, &former), 0);
	plan_release(&plan);
}

Test(plan, refuses_uretprobes_that_could_kill_unless_forced)
{
	char *patterns[] = {"main"};
	struct plan_options options = options_of(patterns, 1);
	struct plan plan;

	options.returns = RETURNS_URETPROBE;
	keep_messages();
	cr_assert_eq(plan_make(&plan, &options, 0, target_path("cxxthrow")), -EPERM);
	cr_assert(strstr(messages(), "--force insists"));
	plan_release(&plan);
	options.force = true;
	cr_assert_eq(plan_make(&plan, &options, 0, target_path("cxxthrow")), 0);
	cr_assert(strstr(messages(), "--force: hooking with uretprobes although"));
	plan_release(&plan);
	cr_assert_eq(plan_make(&plan, &options, 0, "/nonexistent"), -ENOENT);
	cr_assert_not(plan.has_symbols);
	plan_release(&plan);
}
