// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "bpf/scope_event.h"
#include "plan/text_check.h"
#include "program/process.h"
#include "program/selector.h"

#define MOST_NAMED 5

/* ---- making ---- */

static int read_process(struct plan *plan, pid_t pid)
{
	int err;

	plan->stack = process_stack_start(pid);
	err = symbol_table_of_process(pid, plan->options->optimized, &plan->symbols);
	if (err || process_stack_start(pid) == plan->stack)
		return err;
	symbol_table_close(&plan->symbols);
	log_error(
		"process %d has run another program while its functions were looked up; try again",
		pid);
	return -ESTALE;
}

int plan_read_symbols(struct plan *plan, const struct plan_options *options, pid_t pid,
		      const char *path)
{
	int err;

	*plan = (struct plan){.options = options, .pid = pid};
	err = pid ? read_process(plan, pid)
		  : symbol_table_of_binary(path, options->optimized, &plan->symbols);
	plan->has_symbols = !err;
	return err;
}

static int check_hazard(struct plan *plan)
{
	int err = hazard_check(&plan->symbols.modules, &plan->hazard);

	if (err || !plan->hazard.found || plan->options->returns != RETURNS_URETPROBE)
		return err;
	if (plan->options->force) {
		log_warning("--force: hooking with uretprobes although it may kill the program: %s",
			    plan->hazard.evidence);
		return 0;
	}
	log_error(
		"not hooking this program with --returns=uretprobe, as that could kill it: %s. Leave --returns "
		"out for the safe way; --force insists (see HAZARDS in scopetrace-record(1))",
		plan->hazard.evidence);
	return -EPERM;
}

static bool no_entry_is_free(const struct plan *plan)
{
	for (size_t i = 0; i < plan->count; i++) {
		if (!plan->functions[i]->refused)
			return false;
	}
	return true;
}

static int refuse_all(const struct plan *plan)
{
	if (plan->options->returns == RETURNS_NONE || no_entry_is_free(plan))
		log_error(
			"none of the functions can be hooked; choose others (`scopetrace functions` "
			"shows which can)");
	else
		log_error(
			"none of the functions can be hooked safely in this program; --returns=none "
			"records their entries alone");
	return -ENOTSUP;
}

/* What is other code in memory than in the file is known when the exits are: then once more. */
static int choose_returns(struct plan *plan)
{
	bool changed = false;
	int err;

	for (int round = 0; round < 2; round++) {
		returns_clear(&plan->returns);
		err = returns_make(&plan->returns, &plan->symbols, &plan->hazard, plan->functions,
				   plan->count, plan->options->returns);
		if (!err && !round)
			err = plan->pid ? text_refuse_changed(plan, plan->pid, &changed)
					: text_refuse_relocated(plan, &changed);
		if (err || !changed)
			break;
	}
	return err;
}

int plan_decide(struct plan *plan)
{
	int err = check_hazard(plan);

	if (!err)
		err = choose_returns(plan);
	if (err || plan->options->is_look)
		return err;
	plan_log_refused(plan, NULL);
	return plan->returns.refused < plan->count ? 0 : refuse_all(plan);
}

int plan_make(struct plan *plan, const struct plan_options *options, pid_t pid, const char *path)
{
	int err = plan_read_symbols(plan, options, pid, path);

	if (err)
		return err;
	if (!options->is_look && options->optimized &&
	    (plan->symbols.may_fork || plan->symbols.may_exec))
		log_warning(
			"--optimized: a child that this program, or one that it goes on with, forks may crash (%s)",
			plan->symbols.fork_evidence);
	err = selector_choose(&plan->symbols, options->include, options->include_count,
			      options->exclude, options->exclude_count, options->all,
			      &plan->functions, &plan->count);
	/* What is only listed need not stay. */
	if (!err && !options->is_look)
		err = symbol_table_keep_open(&plan->symbols, plan->functions, plan->count);
	return err ? err : plan_decide(plan);
}

void plan_release(struct plan *plan)
{
	returns_clear(&plan->returns);
	free(plan->functions);
	free(plan->unreached);
	module_list_close(&plan->known);
	if (plan->has_symbols)
		symbol_table_close(&plan->symbols);
	*plan = (struct plan){0};
}

/* ---- anew, for a process that has changed ---- */

/* Adds what the files hold that were mapped since the last look. True if there are any. */
static bool add_new_modules(struct plan *plan, struct module_list *now)
{
	const struct module_list *before =
		plan->known.items ? &plan->known : &plan->symbols.modules;
	bool added = false;

	for (size_t i = 0; i < now->count; i++) {
		if (module_list_find(before, now->items[i].device, now->items[i].inode))
			continue;
		added = true;
		/*
		 * What is gone again, with the process perhaps, does no harm; if it comes back it
		 * is new.
		 */
		if (access(now->items[i].probe_path, R_OK) && (errno == ENOENT || errno == ESRCH)) {
			now->items[i].device = now->items[i].inode = 0;
			continue;
		}
		/* A file that cannot be read is logged, and counts as a hazard. */
		if (hazard_add(&plan->hazard, &now->items[i]))
			plan->hazard.found = plan->hazard.asynchronous = true;
	}
	if (now->makes_code && !plan->hazard.kinds[HAZARD_UNSEEN]) {
		hazard_add_unseen(&plan->hazard, now);
		added = true;
	}
	return added;
}

bool plan_look_again(struct plan *plan, pid_t pid)
{
	bool was_found = plan->hazard.found, was_asynchronous = plan->hazard.asynchronous;
	struct module_list now = {0};

	/* Other modes than this one are not chosen by the hazard. */
	if (plan->options->returns != RETURNS_AUTO || module_list_read(pid, &now))
		return false;
	if (!add_new_modules(plan, &now)) {
		module_list_close(&now);
		return false;
	}
	module_list_close(&plan->known);
	plan->known = now;
	return was_found != plan->hazard.found || was_asynchronous != plan->hazard.asynchronous;
}

int plan_remake(struct plan *plan, struct returns *former)
{
	int err;

	*former = plan->returns;
	err = returns_remake(former, &plan->returns);
	if (!err && !returns_are_alike(former, &plan->returns))
		return 1;
	plan_settle(plan, former, !err);
	return err;
}

void plan_settle(struct plan *plan, struct returns *former, bool keep)
{
	free(keep ? former->choices : plan->returns.choices);
	if (!keep)
		plan->returns = *former;
}

/* ---- what is logged, and the flags of the programs ---- */

void plan_log_refused(const struct plan *plan, const struct returns *former)
{
	const struct return_choice *choices = plan->returns.choices;
	size_t refused = 0;

	for (size_t i = 0; i < plan->count; i++) {
		if (!choices[i].refused || (former && former->choices[i].refused))
			continue;
		if (refused++ >= MOST_NAMED)
			continue;
		if (plan->functions[i]->refused)
			log_warning(
				"no probe may sit at the entry of %s, which is %s; it is left out",
				plan->functions[i]->demangled, plan->functions[i]->refused);
		else
			log_warning("where %s returns cannot be told: %s; it is left out",
				    plan->functions[i]->demangled, choices[i].refused);
	}
	if (refused > MOST_NAMED)
		log_warning("and %zu more are left out for such reasons", refused - MOST_NAMED);
}

void plan_log_returns(const struct plan *plan, bool all)
{
	returns_log(&plan->returns, all);
}

uint32_t plan_setting_flags(const struct plan *plan)
{
	if (plan->hazard.moves_stacks)
		return SETTING_MIGRATE | SETTING_GOROUTINES;
	return plan->options->migrate ? SETTING_MIGRATE : 0;
}
