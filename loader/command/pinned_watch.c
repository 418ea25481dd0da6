// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/pinned_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "probe/pin.h"
#include "probe/pinned.h"
#include "source/shm_source.h"

#define ROUND_NS 20000000ull
#define LOOK_NS                                                                                    \
	500000000ull /* how often a process without a segment is looked at, and children are freed \
		      */

struct watched {
	pid_t pid;
	struct source *segment; /* open while nobody drains; NULL: it has none, or a drainer has it */
};

struct watch {
	struct pinned pinned;
	struct watched *processes;
	size_t count, capacity;
	uint64_t looked_ns;
};

/* ---- segments ----------------------------------------------------------------------------------------- */

static int know(struct watch *watch, pid_t pid)
{
	size_t i = 0;

	while (i < watch->count && watch->processes[i].pid != pid)
		i++;
	if (i < watch->count)
		return 0;
	if (vec_grow(&watch->processes, &watch->capacity, watch->count))
		return -ENOMEM;
	watch->processes[watch->count++] = (struct watched){.pid = pid};
	return 0;
}

static int list_processes(struct watch *watch)
{
	struct pinned_target *targets;
	size_t count;
	int err = pinned_targets(&watch->pinned, &targets, &count);

	for (size_t i = 0; i < count && !err; i++)
		err = know(watch, targets[i].pid);
	free(targets);
	return err;
}

/* A drainer renews by itself, and a segment has one reader. */
static void let_go(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->processes[i].segment)
			shm_source_leave(watch->processes[i].segment);
		watch->processes[i].segment = NULL;
	}
	watch->looked_ns = 0;
}

static void renew(struct watch *watch, bool look)
{
	for (size_t i = 0; i < watch->count; i++) {
		struct watched *process = &watch->processes[i];

		if (process->segment && process->segment->ops->gone(process->segment)) {
			process->segment->ops->destroy(process->segment);
			process->segment = NULL;
		}
		if (!process->segment && look)
			process->segment = shm_source_open(process->pid, NULL);
		if (process->segment)
			shm_source_renew(process->segment);
	}
}

/* ---- the loop ----------------------------------------------------------------------------------------- */

static int round_of(struct watch *watch)
{
	uint64_t now = io_now_ns();
	bool look = now - watch->looked_ns >= LOOK_NS;
	int err = 0;

	if (pin_is_drained(watch->pinned.dir)) {
		let_go(watch);
	} else {
		if (look)
			err = list_processes(watch);
		renew(watch, look);
	}
	if (look) {
		watch->looked_ns = now;
		pinned_free_heirs(&watch->pinned);
	}
	return err;
}

/* Nobody takes the rest of a capture that was removed by hand. */
static void turn_off(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->processes[i].segment)
			watch->processes[i].segment->ops->destroy(watch->processes[i].segment);
		watch->processes[i].segment = NULL;
	}
}

static bool goes_on(const struct watch *watch)
{
	struct pairing_settings settings;

	return !pinned_settings(&watch->pinned, &settings) && settings.generation;
}

/* Until the capture ends, or is removed by hand. Whoever takes the rest goes on where we leave off. */
static void run(struct watch *watch)
{
	bool stands = true;

	while (goes_on(watch) && (stands = pinned_stands(&watch->pinned)) && !round_of(watch))
		nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
	if (stands)
		let_go(watch);
	else
		turn_off(watch);
	free(watch->processes);
}

/* ---- starting it -------------------------------------------------------------------------------------- */

enum { CHANNEL = STDERR_FILENO + 1 };

/* Nothing of who started it is kept: no terminal, no pipe, no lock. */
static void let_go_of_parent(int channel)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = 0; fd <= STDERR_FILENO && nothing >= 0; fd++)
		dup2(nothing, fd);
	if (channel != CHANNEL)
		dup2(channel, CHANNEL);
	close_range(CHANNEL + 1, ~0u, 0);
}

/* Told with the directory, which is then opened; and once more by the end of the channel. */
static void watch_until_end(void)
{
	struct watch watch = {0};
	char dir[PATH_MAX] = "";
	int err;

	if (read(CHANNEL, dir, sizeof(dir) - 1) <= 0)
		return;
	err = pinned_open(&watch.pinned, dir);
	if (write(CHANNEL, &err, sizeof(err)) == sizeof(err) && !err && read(CHANNEL, dir, 1) == 0) {
		close(CHANNEL);
		if (!chdir("/"))
			run(&watch);
	}
	pinned_close(&watch.pinned);
}

static int refuse(int err, const char *why)
{
	log_error("cannot start the watcher: %s", why ? why : strerror(-err));
	return err;
}

int pinned_watch_start(struct watcher *watcher)
{
	int ends[2];

	*watcher = (struct watcher){.channel = -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return refuse(-errno, NULL);
	watcher->pid = fork();
	if (watcher->pid == 0) {
		let_go_of_parent(ends[1]);
		watch_until_end();
		_exit(0);
	}
	close(ends[1]);
	if (watcher->pid < 0) {
		int err = -errno;

		close(ends[0]);
		return refuse(err, NULL);
	}
	watcher->channel = ends[0];
	return 0;
}

int pinned_watch_open(const struct watcher *watcher, const char *dir)
{
	char *absolute = realpath(dir, NULL); /* it leaves this directory */
	int err = absolute ? 0 : -errno, opened = -ESRCH;

	if (!err && send(watcher->channel, absolute, strlen(absolute), MSG_NOSIGNAL) < 0)
		err = refuse(-errno, NULL);
	else if (!err && recv(watcher->channel, &opened, sizeof(opened), 0) != sizeof(opened))
		err = refuse(-ESRCH, "it has ended");
	else if (!err && opened)
		err = refuse(opened, NULL);
	free(absolute);
	return err;
}

void pinned_watch_leave(struct watcher *watcher)
{
	if (watcher->channel >= 0)
		close(watcher->channel);
	watcher->channel = -1;
}
