// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "command/command.h"
#include "command/options.h"
#include "pinned/status.h"
#include "pinned/directory.h"
#include "source/bpf_ring.h"
#include "program/process.h"

static const char help[] =
	"usage: scopetrace status --pin DIR [--json]\n"
	"How the pinned capture in DIR stands: what is attached where and since when, counts, losses, how full the\n"
	"kernel's ring is, and which calls are open at this moment.\n\n"
	"      --pin DIR      where\n"
	"      --json         as a JSON object\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (nothing is attached there), 2 usage.\n";

struct status_options {
	const char *dir;
	bool json;
};

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, offsetof(struct status_options, dir)},
	{"json", 0, no_argument, option_switch, offsetof(struct status_options, json)},
	OPTION_HELP,
};

static const struct option_table table = {"status", rows, sizeof(rows) / sizeof(*rows),
					  false,    NULL, NULL};

static int read_ring(struct pinned_status *status)
{
	struct bpf_ring ring;
	int err = bpf_ring_map(&ring, pinned_map(&status->pinned, "events"));

	if (err) {
		log_error("cannot map the ring of %s: %s", status->pinned.dir, strerror(-err));
		return err;
	}
	status->ring_bytes = ring.size;
	status->waiting_bytes = bpf_ring_produced(&ring) - ring.position;
	bpf_ring_unmap(&ring);
	return 0;
}

static int read_functions(struct pinned_status *status)
{
	uint32_t count = status->pinned.capture.functions;
	int err = 0;

	status->functions = calloc(count + 1, sizeof(*status->functions));
	status->counters = calloc(count + 1, sizeof(*status->counters));
	if (!status->functions || !status->counters)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && !err; i++) {
		err = pinned_function(&status->pinned, i, &status->functions[i]);
		if (!err)
			err = pinned_counters(&status->pinned, i, &status->counters[i]);
	}
	return err;
}

/* Its id may be another's by now, who has begun after the capture. */
static bool is_watched(const struct capture_setting *capture)
{
	const struct process watcher = {.pid = (pid_t)capture->watcher, .pidfd = -1};
	struct process_thread *threads;
	bool lives = false;
	size_t count;

	if (!capture->watcher || process_threads(&watcher, &threads, &count))
		return false;
	for (size_t i = 0; i < count; i++)
		lives |= threads[i].tid == watcher.pid && threads[i].start_ns <= capture->start_ns;
	free(threads);
	return lives;
}

static int read_status(struct pinned_status *status, const char *dir)
{
	int err = pinned_open(&status->pinned, dir);

	if (!err)
		err = pinned_settings(&status->pinned, &status->settings);
	if (!err)
		err = read_functions(status);
	if (!err)
		err = pinned_pending(&status->pinned, &status->pending);
	if (!err)
		err = pinned_targets(&status->pinned, &status->targets, &status->target_count);
	if (!err)
		err = pin_links_read(dir, &status->links);
	if (!err)
		err = read_ring(status);
	if (!err)
		err = pinned_open_calls(&status->pinned, &status->calls, &status->call_count);
	status->drained = !err && pin_is_drained(dir);
	status->watched = !err && is_watched(&status->pinned.capture);
	return err;
}

static void close_status(struct pinned_status *status)
{
	free(status->functions);
	free(status->counters);
	free(status->targets);
	free(status->calls);
	pin_links_clear(&status->links);
	pinned_close(&status->pinned);
}

static int print(const char *dir, bool json)
{
	struct pinned_status status = {0};
	int err = read_status(&status, dir);

	if (!err && json)
		pinned_status_json(&status);
	else if (!err)
		pinned_status_text(&status);
	close_status(&status);
	if (!err && (fflush(stdout) || ferror(stdout)) && errno != EPIPE) {
		log_error("cannot write the status: %s", strerror(errno));
		err = -EIO;
	}
	return err;
}

int command_status(int argc, char **argv)
{
	struct status_options options = {0};
	int err = options_read(&table, &options, argc, argv);

	if (err == OPTIONS_HELP) {
		fputs(help, stdout);
		return EXIT_DONE;
	}
	if (err)
		return EXIT_USAGE;
	if (!options.dir || optind < argc) {
		log_error("status wants --pin DIR; `scopetrace status --help` tells its options");
		return EXIT_USAGE;
	}
	return print(options.dir, options.json) ? EXIT_FAILED : EXIT_DONE;
}
