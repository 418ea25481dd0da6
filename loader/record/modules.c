// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "plan/say_returns.h"

static bool is_known(const struct module_list *known, const struct module *module)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->items[i].device == module->device &&
		    known->items[i].inode == module->inode)
			return true;
	return false;
}

/* What the files add that were mapped since the last look. True if there are any. */
static bool add_new_modules(struct capture *c, struct module_list *now)
{
	const struct module_list *before = c->watched.items ? &c->watched : &c->symbols.modules;
	bool added = false;

	for (size_t i = 0; i < now->count; i++) {
		if (is_known(before, &now->items[i]))
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
		/* A file that cannot be read is said, and counts as a hazard. */
		if (hazard_add(&c->hazard, &now->items[i]))
			c->hazard.found = c->hazard.asynchronous = true;
	}
	if (now->makes_code && !c->hazard.unseen) {
		hazard_add_unseen(&c->hazard, now);
		added = true;
	}
	return added;
}

static bool is_alike(const struct return_plan *a, const struct return_plan *b)
{
	for (size_t i = 0; i < a->count; i++) {
		const struct return_choice *one = &a->choices[i], *other = &b->choices[i];

		if (one->way != other->way || one->loops != other->loops ||
		    !one->refused != !other->refused)
			return false;
	}
	return true;
}

/* By the present plan. Return addresses that the kernel has put on stacks by now stay there until those calls
 * return. */
static int hook_anew(struct capture *c, const struct return_plan *before)
{
	struct capture_sites sites = {0};
	int err;

	capture_say_refused(c, before);
	if (c->returns.refused == c->returns.count) {
		log_error(
			"the process has mapped code that makes uretprobes dangerous (%s), and none of the "
			"functions can be hooked otherwise",
			c->hazard.evidence);
		return -ENOTSUP;
	}
	err = capture_make_sites(c, &sites);
	if (!err) {
		pthread_mutex_lock(&c->lifecycle.hooking);
		err = probe_session_switch(c->session, c->process.pid, sites.functions,
					   c->function_count);
		pthread_mutex_unlock(&c->lifecycle.hooking);
	}
	capture_free_sites(&sites);
	if (err)
		return err;
	log_warning(
		"the process has mapped code that makes uretprobes dangerous: returns are now seen otherwise. Calls "
		"that were running then are in danger until they return");
	say_returns(&c->returns, &c->hazard, false);
	return 0;
}

static int switch_returns(struct capture *c)
{
	struct return_plan before = c->returns;
	int err = return_plan_again(&before, c->functions, c->options->returns, &c->returns);

	if (!err && is_alike(&before, &c->returns))
		log_info(
			"the process has mapped code that makes uretprobes dangerous: returns are seen in safe "
			"ways already");
	else if (!err)
		err = hook_anew(c, &before);
	free(err ? c->returns.choices : before.choices);
	if (err)
		c->returns = before;
	return err;
}

int capture_watch_modules(struct capture *c)
{
	bool was_found = c->hazard.found, was_asynchronous = c->hazard.asynchronous;
	struct module_list now = {0};
	int err;

	if (!c->session || c->options->returns != RETURN_AUTO)
		return 0;
	/* A process that has ended meanwhile is the loop's business. */
	if (module_list_read(c->process.pid, &now))
		return 0;
	if (!add_new_modules(c, &now)) {
		module_list_close(&now);
		return 0;
	}
	module_list_close(&c->watched);
	c->watched = now;
	if ((was_found == c->hazard.found && was_asynchronous == c->hazard.asynchronous) ||
	    process_ended(&c->process))
		return 0;
	err = switch_returns(c);
	return err == -ESRCH ? 0 : err;
}
