// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "plan/sites.h"
#include "plan/text_check.h"
#include "probe/feature.h"
#include "source/bpf_source.h"

/* Who starts a program by another, a shell perhaps, may mean functions of that one. */
static void say_what_is_traced(const struct capture_options *o)
{
	if (o->command && o->command[1])
		log_info(
			"functions are looked for in %s and its libraries, as that process alone is traced: to trace "
			"a program that it starts, give that as the command, or its process id (-p)",
			o->command[0]);
}

int capture_choose(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err = feature_require_hooking();

	if (err)
		return err;
	err = plan_make(&c->plan, &o->plan, c->process.pid, o->command ? o->command[0] : NULL);
	c->lifecycle.stack = c->plan.stack;
	if (c->plan.has_symbols) {
		if (err == -ENOENT)
			say_what_is_traced(o);
		return err;
	}
	if (err == -ENOEXEC && o->command && access(o->command[0], X_OK) && errno == EACCES)
		err = -EACCES;
	c->launch.exec_failed = err == -ENOENT || err == -EACCES;
	return err;
}

bool capture_lost_lease(const struct capture *c)
{
	const struct module *module = leases_lost(&c->leases);

	if (module)
		log_error(
			"%s is being written to, or was: probes in a changed file kill programs, so they are taken away and "
			"the capture ends here",
			module->path);
	return module;
}

static int attach(struct capture *c)
{
	struct plan_sites sites = {0};
	int err = plan_sites_make(&c->plan, &sites);

	if (!err)
		err = probe_session_attach(c->session, c->process.pid, sites.functions,
					   c->plan.count);
	plan_sites_clear(&sites);
	return err;
}

static bool is_refused(const void *session, uint32_t function)
{
	return probe_session_refused(session, function);
}

int capture_verify(struct capture *c)
{
	return text_verify(&c->plan, c->process.pid, is_refused, c->session);
}

int capture_arm(struct capture *c)
{
	struct probe_options options = {.ring_bytes = c->options->ring_bytes,
					.minimum_ns = c->options->minimum_ns,
					.exit_count = plan_most_exits(&c->plan),
					.flags = plan_setting_flags(&c->plan)};
	struct bpf_source_maps maps;
	int err;

	err = leases_take(&c->leases, c->plan.functions, c->plan.count);
	if (err)
		return err;
	c->session = probe_session_open(&options, c->plan.count);
	if (!c->session)
		return -errno;
	maps.events = probe_session_map(c->session, "events");
	maps.open_scopes = probe_session_map(c->session, "open_scopes");
	maps.near_scopes = probe_session_map(c->session, "near_scopes");
	maps.counters = probe_session_map(c->session, "counters");
	maps.pending_loss = probe_session_map(c->session, "pending_loss");
	c->hooked = bpf_source_create(&maps, c->plan.count);
	if (!c->hooked)
		return -errno;
	capture_tell_lifecycle(c);
	err = attach(c);
	/* A command has not begun yet: its code is looked at while it runs. */
	return err || c->options->command ? err : capture_verify(c);
}
