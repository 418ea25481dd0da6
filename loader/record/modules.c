// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "plan/sites.h"

/* By the present plan. Return addresses that the kernel has put on stacks by now stay there until those calls
 * return. */
static int hook_anew(struct capture *c, const struct returns *former)
{
	struct plan_sites sites = {0};
	int err;

	plan_log_refused(&c->plan, former);
	if (c->plan.returns.refused == c->plan.count) {
		log_error(
			"the process has mapped code that makes uretprobes dangerous (%s), and none of the "
			"functions can be hooked otherwise",
			c->plan.hazard.evidence);
		return -ENOTSUP;
	}
	err = plan_sites_make(&c->plan, &sites);
	if (!err) {
		pthread_mutex_lock(&c->lifecycle.hooking);
		err = probe_session_switch(c->session, c->process.pid, sites.functions,
					   c->plan.count);
		pthread_mutex_unlock(&c->lifecycle.hooking);
	}
	plan_sites_clear(&sites);
	if (err)
		return err;
	log_warning(
		"the process has mapped code that makes uretprobes dangerous: returns are now seen otherwise. Calls "
		"that were running then are in danger until they return");
	plan_log_returns(&c->plan, false);
	return 0;
}

static int switch_returns(struct capture *c)
{
	struct returns former;
	int err = plan_remake(&c->plan, &former);

	if (!err)
		log_info(
			"the process has mapped code that makes uretprobes dangerous: returns are seen in safe "
			"ways already");
	if (err <= 0)
		return err;
	err = hook_anew(c, &former);
	plan_settle(&c->plan, &former, !err);
	return err;
}

int capture_watch_modules(struct capture *c)
{
	int err;

	/* The kernel tells of no writer where there is no lease: then we do, to the loop. */
	if (leases_lost(&c->leases))
		kill(getpid(), LEASE_SIGNAL);

	/* What has moved its code since is logged; the capture goes on with the rest. */
	if (c->session && !process_ended(&c->process) && capture_verify(c) == -ENOMEM)
		return -ENOMEM;

	/* A process that has ended meanwhile is the loop's business. */
	if (!c->session || !plan_look_again(&c->plan, c->process.pid) || process_ended(&c->process))
		return 0;
	err = switch_returns(c);
	return err == -ESRCH ? 0 : err;
}
