// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "command/command.h"
#include "command/options.h"
#include "command/pinned_drain.h"
#include "probe/pin.h"
#include "probe/pinned.h"
#include "source/bpf_ring.h"

#define DRAINER_NS 30000000000ull /* for a drainer to take what is left */

static const char help[] =
	"usage: scopetrace detach --pin DIR [-o FILE]\n"
	"Ends the pinned capture in DIR: closes the probes, and removes everything that is pinned there. A drainer\n"
	"that is running takes what is left, writes the account and ends. Takes what it finds, also after an attach\n"
	"that died half way, or when the traced process has ended.\n\n"
	"      --pin DIR      where\n"
	"  -o, --output FILE  without a drainer: what is left, and the account, go into this file\n"
	"  -h, --help\n\n"
	"Exit status: 0 done, 1 failed (something could not be removed), 2 usage.\n";

struct detach_options {
	const char *dir;
	const char *output;
	int argc;
	char *const *argv;
};

static const struct option_row rows[] = {
	{"pin", 0, required_argument, option_text, offsetof(struct detach_options, dir)},
	{"output", 'o', required_argument, option_text, offsetof(struct detach_options, output)},
	OPTION_HELP,
};

static const struct option_table table = {"detach", rows, sizeof(rows) / sizeof(*rows), false, NULL, NULL};

/* 0, OPTIONS_HELP or -errno, said. */
static int parse(struct detach_options *options, int argc, char **argv)
{
	int err;

	*options = (struct detach_options){.argc = argc, .argv = argv};
	err = options_read(&table, options, argc, argv);
	if (err || (options->dir && optind == argc))
		return err;
	log_error("detach wants --pin DIR, and nothing else but -o FILE");
	return -EINVAL;
}

/* From this moment on no hit counts; whoever drains sees it, and takes the rest. */
static int silence(struct pinned *pinned)
{
	struct pairing_settings settings;
	int err = pinned_settings(pinned, &settings);

	settings.generation = 0;
	return err ? err : pinned_put_settings(pinned, &settings);
}

/* The lock that drainers hold, once nobody does; -ETIMEDOUT. */
static int wait_for_drainer(const char *dir)
{
	uint64_t deadline = io_now_ns() + DRAINER_NS;
	bool said = false;
	int lock;

	while ((lock = pin_lock_drain(dir)) == -EBUSY && io_now_ns() < deadline) {
		if (!said)
			log_info("waiting for the drainer to take the rest");
		said = true;
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	if (lock == -EBUSY)
		log_warning("the drainer of %s does not come to its end: what it has not taken is lost", dir);
	return lock;
}

static void say_left(const struct pinned *pinned)
{
	struct bpf_ring ring;

	if (bpf_ring_map(&ring, pinned_map(pinned, "events")))
		return;
	if (bpf_ring_produced(&ring) > ring.position)
		log_warning("%llu bytes of records that nobody has drained are gone with the ring; next time "
			    "`scopetrace detach -o FILE` takes them",
			    (unsigned long long)(bpf_ring_produced(&ring) - ring.position));
	bpf_ring_unmap(&ring);
}

/* A capture that stands: ended in order, so that its records and accounts are whole. */
static int end_capture(struct pinned *pinned, const struct detach_options *options)
{
	int err = silence(pinned), lock;

	if (err)
		return err;
	err = pin_remove_links(options->dir, NULL, NULL);
	lock = err ? -1 : wait_for_drainer(options->dir);
	if (lock >= 0 && options->output)
		err = pinned_drain_rest(pinned, options->output, options->argc, options->argv);
	else if (lock >= 0)
		say_left(pinned);
	if (lock >= 0)
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
	if (lock >= 0)
		close(lock);
	return err;
}

static int detach(const struct detach_options *options)
{
	struct pinned pinned;
	int lock, err;

	if (access(options->dir, F_OK)) {
		log_error("nothing is pinned in %s: %s", options->dir, strerror(errno));
		return -errno;
	}
	lock = pin_lock_changes(options->dir);
	if (lock == -EBUSY || lock == -ESTALE)
		return lock;
	err = pinned_open_any(&pinned, options->dir) ? end_part(options->dir) : end_capture(&pinned, options);
	pinned_close(&pinned);
	if (!err)
		err = pin_remove(options->dir);
	if (lock >= 0)
		close(lock);
	if (!err)
		log_info("%s is removed", options->dir);
	return err;
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
