// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <unistd.h>

#include "base/log.h"
#include "probe/feature.h"
#include "source/bpf_source.h"

static int read_symbols(struct capture *c)
{
	const struct capture_options *o = c->options;
	struct symbol_options options = {.optimized = o->optimized};
	int err;

	if (o->command)
		return symbol_table_of_binary(o->command[0], &options, &c->symbols);
	c->lifecycle.stack = process_stack_start(c->process.pid);
	err = symbol_table_of_process(c->process.pid, &options, &c->symbols);
	if (err || process_stack_start(c->process.pid) == c->lifecycle.stack)
		return err;
	symbol_table_close(&c->symbols);
	log_error(
		"process %d has run another program while its functions were looked up; try again",
		c->process.pid);
	return -ESTALE;
}

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
	err = read_symbols(c);
	if (err == -ENOEXEC && o->command && access(o->command[0], X_OK) && errno == EACCES)
		err = -EACCES;
	if (err) {
		c->launch.exec_failed = err == -ENOENT || err == -EACCES;
		return err;
	}
	c->has_symbols = true;
	if (o->optimized && (c->symbols.may_fork || c->symbols.may_exec))
		log_warning(
			"--optimized: a child that this program, or one that it goes on with, forks may crash (%s)",
			c->symbols.fork_evidence);
	err = selector_choose(&c->symbols, o->include, o->include_count, o->exclude,
			      o->exclude_count, o->all, &c->functions, &c->function_count);
	if (err == -ENOENT)
		say_what_is_traced(o);
	if (!err)
		err = symbol_table_hold(&c->symbols, c->functions, c->function_count);
	if (err)
		return err;
	return capture_choose_returns(c);
}

static int attach(struct capture *c)
{
	struct capture_sites sites = {0};
	int err = capture_make_sites(c, &sites);

	if (!err)
		err = probe_session_attach(c->session, c->process.pid, sites.functions,
					   c->function_count);
	capture_free_sites(&sites);
	return err;
}

int capture_arm(struct capture *c)
{
	struct probe_options options = {.ring_bytes = c->options->ring_bytes,
					.minimum_ns = c->options->minimum_ns,
					.exit_count = capture_exit_count(c),
					.flags = capture_setting_flags(c)};
	struct bpf_source_maps maps;

	c->session = probe_session_open(&options, c->function_count);
	if (!c->session)
		return -errno;
	maps.events = probe_session_map(c->session, "events");
	maps.open_scopes = probe_session_map(c->session, "open_scopes");
	maps.near_scopes = probe_session_map(c->session, "near_scopes");
	maps.counters = probe_session_map(c->session, "counters");
	maps.pending_loss = probe_session_map(c->session, "pending_loss");
	c->hooked = bpf_source_create(&maps, c->function_count);
	if (!c->hooked)
		return -errno;
	capture_tell_lifecycle(c);
	return attach(c);
}
