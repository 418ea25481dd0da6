// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Probes that come and go under a running process, by the loader's own code and with its programs loaded
 * once: in each cycle other of the functions are hooked, so that each one is hooked and let go by turns, and
 * all links are made anew and closed. Fails when the process ends, when a cycle fails, or when too few calls
 * were seen for the probes to have been there.
 *
 *	cycles PID CYCLES FUNCTION...
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bpf/scope_event.h"
#include "plan/sites.h"
#include "probe/attach.h"

/* A kernel with more possible cpus than this would need a larger answer. */
enum { MOST_CPUS = 1024 };

struct cycles {
	struct plan plan;
	struct plan_sites sites;
	struct probe_session *session;
	pid_t pid;
};

/* How many of the functions' calls the probes have counted. */
static unsigned long long count_entries(const struct cycles *c)
{
	int map = probe_session_map(c->session, "counters"), cpus = libbpf_num_possible_cpus();
	static struct function_counters counters[MOST_CPUS];
	unsigned long long entries = 0;

	if (cpus < 1 || cpus > MOST_CPUS)
		return 0;
	for (unsigned int function = 0; function < c->plan.count; function++) {
		if (bpf_map_lookup_elem(map, &function, counters))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			entries += counters[cpu].entries;
	}
	return entries;
}

/* Hooks those functions whose turn it is: all of them, then each second one, then the others. */
static int hook(struct cycles *c, struct probe_function *turn,
		long cycle)
{
	for (size_t i = 0; i < c->plan.count; i++) {
		turn[i] = c->sites.functions[i];
		if (cycle % 3 && (cycle + (long)i) % 2)
			turn[i].binary = NULL;
	}
	if (cycle)
		return probe_session_switch(c->session, c->pid, turn,
					    c->plan.count);
	return probe_session_attach(c->session, c->pid, turn, c->plan.count);
}

static int run(struct cycles *c, long cycles)
{
	struct probe_function *turn = calloc(c->plan.count, sizeof(*turn));
	unsigned long long entries = 0;
	int err = turn ? 0 : -ENOMEM;

	for (long cycle = 0; cycle < cycles && !err; cycle++) {
		unsigned long long before = count_entries(c);

		err = hook(c, turn, cycle);
		entries = count_entries(c);
		if (!err && kill(c->pid, 0))
			err = -errno;
		if (err)
			fprintf(stderr, "cycle %ld: %s; %llu calls before it, %llu after it\n", cycle,
				strerror(-err), before, entries);
	}
	free(turn);
	if (!err && entries < (unsigned long long)cycles) {
		fprintf(stderr, "only %llu calls in %ld cycles\n", entries, cycles);
		err = -ENODATA;
	}
	if (!err)
		printf("%ld cycles, %llu calls\n", cycles, entries);
	return err;
}

int main(int argc, char **argv)
{
	struct plan_options options = {.include = argv + 3, .include_count = (size_t)argc - 3};
	struct cycles c = {0};
	struct probe_options probes = {0};
	int err;

	if (argc < 4)
		return 2;
	c.pid = atoi(argv[1]);
	err = plan_make(&c.plan, &options, c.pid, NULL);
	if (!err)
		err = plan_sites_make(&c.plan, &c.sites);
	if (err)
		return 1;
	probes.exit_count = plan_most_exits(&c.plan);
	c.session = probe_session_open(&probes, c.plan.count);
	if (c.session)
		err = run(&c, atol(argv[2]));
	probe_session_close(c.session);
	plan_sites_clear(&c.sites);
	plan_release(&c.plan);
	return err || !c.session;
}
