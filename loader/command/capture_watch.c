// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "command/say_returns.h"

static bool is_known(const struct module_list *known, const struct module *module)
{
	for (size_t i = 0; i < known->count; i++)
		if (known->items[i].device == module->device && known->items[i].inode == module->inode)
			return true;
	return false;
}

/* What the files add that were mapped since the last look. True if there are any. */
static bool add_new_modules(struct capture *c, const struct module_list *now)
{
	const struct module_list *before = c->watched.items ? &c->watched : &c->symbols.modules;
	bool added = false;

	for (size_t i = 0; i < now->count; i++) {
		/* What is gone again, with the process perhaps, does no harm. */
		if (is_known(before, &now->items[i]) || access(now->items[i].probe_path, R_OK))
			continue;
		added = true;
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

/* Return addresses that the kernel has put on stacks by now stay there until those calls return. */
static int switch_returns(struct capture *c)
{
	struct return_plan before = c->returns;
	struct capture_sites sites = {0};
	int err = return_plan_make(&c->returns, &c->symbols, &c->hazard, c->functions, c->function_count,
				   c->options->returns);

	if (!err)
		err = capture_make_sites(c, &sites);
	if (!err)
		err = probe_session_switch(c->session, c->process.pid, sites.functions, c->function_count);
	capture_free_sites(&sites);
	if (err) {
		return_plan_clear(&c->returns);
		c->returns = before;
		return err;
	}
	return_plan_clear(&before);
	log_warning(
		"the process has mapped code that makes uretprobes dangerous: returns are now seen otherwise. Calls "
		"that were running then are in danger until they return");
	say_returns(&c->returns, &c->hazard, false);
	return 0;
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
