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
#include "record/recording.h"

/* A kernel with more possible cpus than this would need a larger answer. */
enum { MOST_CPUS = 1024 };

static int choose(struct capture *capture, struct capture_sites *sites)
{
	int err = process_open(capture->options->pid, &capture->process);

	if (err)
		return err;
	err = capture_choose(capture);
	return err ? err : capture_make_sites(capture, sites);
}

/* How many of the functions' calls the probes have counted. */
static unsigned long long count_entries(const struct capture *capture)
{
	int map = probe_session_map(capture->session, "counters"), cpus = libbpf_num_possible_cpus();
	static struct function_counters counters[MOST_CPUS];
	unsigned long long entries = 0;

	if (cpus < 1 || cpus > MOST_CPUS)
		return 0;
	for (unsigned int function = 0; function < capture->function_count; function++) {
		if (bpf_map_lookup_elem(map, &function, counters))
			continue;
		for (int cpu = 0; cpu < cpus; cpu++)
			entries += counters[cpu].entries;
	}
	return entries;
}

/* Hooks those functions whose turn it is: all of them, then each second one, then the others. */
static int hook(struct capture *capture, const struct capture_sites *sites, struct probe_function *turn,
		long cycle)
{
	for (size_t i = 0; i < capture->function_count; i++) {
		turn[i] = sites->functions[i];
		if (cycle % 3 && (cycle + (long)i) % 2)
			turn[i].binary = NULL;
	}
	if (cycle)
		return probe_session_switch(capture->session, capture->process.pid, turn,
					    capture->function_count);
	return probe_session_attach(capture->session, capture->process.pid, turn, capture->function_count);
}

static int run(struct capture *capture, const struct capture_sites *sites, long cycles)
{
	struct probe_function *turn = calloc(capture->function_count, sizeof(*turn));
	unsigned long long entries = 0;
	int err = turn ? 0 : -ENOMEM;

	for (long cycle = 0; cycle < cycles && !err; cycle++) {
		unsigned long long before = count_entries(capture);

		err = hook(capture, sites, turn, cycle);
		entries = count_entries(capture);
		if (!err && kill(capture->process.pid, 0))
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
	struct capture_options options = {.include = argv + 3, .ready_fd = -1};
	struct capture capture = {.options = &options, .signals = -1};
	struct capture_sites sites = {0};
	struct probe_options probes = {0};
	int err;

	if (argc < 4)
		return 2;
	options.pid = atoi(argv[1]);
	options.include_count = (size_t)argc - 3;
	err = choose(&capture, &sites);
	if (err)
		return 1;
	probes.exit_count = capture.returns.exit_count;
	capture.session = probe_session_open(&probes, capture.function_count);
	if (capture.session)
		err = run(&capture, &sites, atol(argv[2]));
	probe_session_close(capture.session);
	capture_free_sites(&sites);
	return_plan_clear(&capture.returns);
	free(capture.functions);
	symbol_table_close(&capture.symbols);
	process_close(&capture.process);
	return err || !capture.session;
}
