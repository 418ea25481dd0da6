// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "command/command.h"
#include "command/options.h"
#include "pinned/drain.h"
#include "pinned/directory.h"
#include "pinned/maps.h"
#include "source/bpf_ring.h"

#define DRAINER_NS 30000000000ull /* for a drainer to take what is left */
#define LOOK_NS	   100000000ull

static const char help[] =
	"usage: scopetrace detach --pin DIR [-o FILE]\n"
	"Ends the pinned capture in DIR: closes the probes, and removes everything that is pinned there. A drainer\n"
	"that is running takes what is left, writes the account and ends. Takes what it finds, also after an attach\n"
	"that died half way, or when the traced process has ended.\n\n"
	"      --pin DIR      where\n"
	"  -o, --output FILE  what is left, and the account, go into this file, if no drainer takes them\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (something could not be removed; a drainer that hangs kept FILE from being\n"
	"written), 2 usage.\n";

struct detach_options {
	const char *dir;
	const char *output;
	int argc;
	char *const *argv;
};

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, offsetof(struct detach_options, dir)},
	{"output", 'o', required_argument, option_output, offsetof(struct detach_options, output)},
	OPTION_HELP,
};

static const struct option_table table = {"detach", rows, sizeof(rows) / sizeof(*rows),
					  false,    NULL, NULL};

/* 0, OPTIONS_HELP or -errno, logged. */
static int parse(struct detach_options *options, int argc, char **argv)
{
	int err;

	*options = (struct detach_options){.argc = argc, .argv = argv};
	err = options_read(&table, options, argc, argv);
	if (err)
		return err;
	if (!options->dir || optind < argc) {
		log_error("detach wants --pin DIR, and nothing else but -o FILE");
		return -EINVAL;
	}
	return options->output ? option_refuse_terminal(options->output) : 0;
}

/* From this moment on no hit counts; whoever drains sees it, and takes the rest. */
static int silence(struct pinned *pinned)
{
	struct pairing_settings settings;
	int err = pinned_settings(pinned, &settings);

	settings.generation = 0;
	return err ? err : pinned_put_settings(pinned, &settings);
}

/* The lock that drainers hold, once nobody does; -EBUSY after a while. */
static int wait_for_drainer(const char *dir)
{
	uint64_t begin = io_now_ns();
	bool said = false;
	int lock;

	while ((lock = pin_lock_drain(dir)) == -EBUSY && io_now_ns() - begin < DRAINER_NS) {
		/* Others only look for a moment whether there is one. */
		if (!said && io_now_ns() - begin > LOOK_NS) {
			log_info("waiting for the drainer to take the rest");
			said = true;
		}
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	return lock;
}

/* It has the ring open, and so is not in want of anything that we remove. */
static int leave_to_drainer(const struct detach_options *options)
{
	log_warning(
		"the drainer of %s has not come to its end within %llu s: what is left, and the account, it can "
		"still take when it goes on",
		options->dir, DRAINER_NS / 1000000000ull);
	if (!options->output)
		return 0;
	log_error("%s is not written, as the rest is the drainer's", options->output);
	return -EINPROGRESS;
}

/* With the drainers' lock held: there is none any more, but there may have been one. */
static int take_rest(const struct pinned *pinned, const struct detach_options *options)
{
	struct bpf_ring ring;
	int err = bpf_ring_map(&ring, pinned_map(pinned, "events"));
	bool accounted = !err && bpf_ring_is_accounted(&ring);

	if (!err && !accounted && !options->output && bpf_ring_produced(&ring) > ring.position)
		log_warning(
			"%llu bytes of records that nobody has drained are gone with the ring; next time "
			"`scopetrace detach -o FILE` takes them",
			(unsigned long long)(bpf_ring_produced(&ring) - ring.position));
	if (!err)
		bpf_ring_unmap(&ring);
	if (!options->output)
		return 0;
	if (!accounted)
		return pinned_drain_rest(pinned, options->output, options->argc, options->argv);
	log_info(
		"the drainer has taken the rest and written the account: nothing is left for %s, which is not "
		"written",
		options->output);
	return 0;
}

/* A capture that stands: ended in order, so that its records and accounts are whole. */
static int end_capture(struct pinned *pinned, const struct detach_options *options)
{
	int err = silence(pinned), lock;

	if (err)
		return err;
	err = pin_remove_links(options->dir, NULL, NULL);
	if (err)
		return err;
	lock = wait_for_drainer(options->dir);
	if (lock < 0)
		return lock == -EBUSY ? leave_to_drainer(options) : 0;
	err = take_rest(pinned, options);
	close(lock);
	return err;
}

/* One of which a part was removed by hand: who drains or watches it may have the rest open. */
static int end_part(const char *dir)
{
	int err, lock;

	if (pinned_silence(dir))
		return 0;
	err = pin_remove_links(dir, NULL, NULL);
	lock = err ? -1 : wait_for_drainer(dir);
	if (lock == -EBUSY)
		log_warning("the drainer of %s has not come to its end", dir);
	if (lock >= 0)
		close(lock);
	return err;
}

static int detach(struct detach_options *options)
{
	char whole[PATH_MAX];
	struct pinned pinned;
	int lock, err, removed;

	if (!realpath(options->dir, whole)) {
		log_error("nothing is pinned in %s: %s", options->dir, strerror(errno));
		return -errno;
	}
	options->dir = whole; /* "." cannot be removed by that name */
	if (!pin_is_ours(options->dir))
		return -EINVAL;
	lock = pin_wait_changes(options->dir);
	if (lock == -EBUSY || lock == -ESTALE)
		return lock;
	err = pinned_open_any(&pinned, options->dir) ? end_part(options->dir)
						     : end_capture(&pinned, options);
	pinned_close(&pinned);
	/* A file that was not to be had does not keep what was traced in place. */
	removed = err && err != -EINPROGRESS ? err : pin_remove(options->dir);
	if (lock >= 0)
		close(lock);
	if (!removed && access(options->dir, F_OK))
		log_info("%s is removed", options->dir);
	return err ? err : removed;
}

int command_detach(int argc, char **argv)
{
	struct detach_options options;
	int err = parse(&options, argc, argv);

	if (err == OPTIONS_HELP) {
		fputs(help, stdout);
		return EXIT_DONE;
	}
	if (err)
		return EXIT_USAGE;
	return detach(&options) ? EXIT_FAILED : EXIT_DONE;
}
