// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "probe/feature.h"
#include "source/bpf_source.h"
#include "target/hazard.h"

static int refuse_hazard(struct capture *c)
{
	struct hazard hazard;
	int err = hazard_check(&c->symbols.modules, &hazard);

	if (err)
		return err;
	if (!hazard.found)
		return 0;
	if (c->options->force) {
		log_warning("--force: hooking although it may kill the program: %s", hazard.evidence);
		return 0;
	}
	log_error("not hooking this program, as hooking could kill it: %s. Its manual scopes can be captured "
		  "without "
		  "-f; --force hooks it all the same (see HAZARDS in scopetrace-record(1))",
		  hazard.evidence);
	return -EPERM;
}

int capture_choose(struct capture *c)
{
	const struct capture_options *o = c->options;
	struct symbol_options options = {.optimized = o->optimized};
	int err = feature_require_hooking();

	if (err)
		return err;
	if (o->command)
		err = symbol_table_of_binary(o->command[0], &options, &c->symbols);
	else
		err = symbol_table_of_process(c->process.pid, &options, &c->symbols);
	if (err) {
		c->launch.exec_failed = err == -ENOENT || err == -EACCES;
		return err;
	}
	c->has_symbols = true;
	err = selector_choose(&c->symbols, o->include, o->include_count, o->exclude, o->exclude_count, o->all,
			      &c->functions, &c->function_count);
	if (err)
		return err;
	return refuse_hazard(c);
}

static int attach(struct capture *c)
{
	struct probe_function *sites = calloc(c->function_count, sizeof(*sites));
	int err;

	if (!sites)
		return -ENOMEM;
	for (size_t i = 0; i < c->function_count; i++) {
		sites[i].binary = c->functions[i]->module->probe_path;
		sites[i].offset = c->functions[i]->probe_offset;
		sites[i].display = c->functions[i]->demangled;
	}
	err = probe_session_attach(c->session, c->process.pid, sites, c->function_count);
	free(sites);
	return err;
}

int capture_arm(struct capture *c)
{
	struct probe_options options = {.ring_bytes = c->options->ring_bytes,
					.minimum_ns = c->options->minimum_ns};
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
	return attach(c);
}
