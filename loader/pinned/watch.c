// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "pinned/processes.h"
#include "pinned/directory.h"
#include "pinned/maps.h"
#include "source/shm_source.h"
#include "program/process.h"

#define ROUND_NS 20000000ull
#define LOOK_NS \
	500000000ull /* how often a process without a segment is looked at, and children are freed \
		       */
#define HOOK_SHARE 50 /* asking whether it can be hooked again: one part in so many of the time */

struct watched {
	pid_t pid;
	int pidfd; /* -1: it had ended */
	bool listed;
	bool on;
	/* open while nobody drains; NULL: it has none, or a drainer has it */
	struct source *segment;
	uint64_t hook_ns; /* not before then again */
};

struct watch {
	struct pinned pinned;
	struct watched *processes;
	size_t count, capacity;
	struct pin_known *known;
	size_t known_count;
	uint64_t looked_ns;
};

/* ---- processes ---- */

static bool has_ended(const struct watched *process)
{
	return process->pidfd < 0 || pidfd_ended(process->pidfd);
}

/* Its capture is off, at once. */
static void close_segment(struct watched *process)
{
	if (process->segment)
		process->segment->ops->destroy(process->segment);
	process->segment = NULL;
}

static void forget(struct watched *process)
{
	close_segment(process);
	if (process->pidfd >= 0)
		close(process->pidfd);
}

static struct watched *find(struct watch *watch, pid_t pid)
{
	size_t i = 0;

	while (i < watch->count && watch->processes[i].pid != pid)
		i++;
	return i < watch->count ? &watch->processes[i] : NULL;
}

/* An id may have been given to another process since; that is ours if it is hooked. */
static int know(struct watch *watch, pid_t pid, bool on)
{
	struct watched *process = find(watch, pid);

	if (process) {
		process->listed = true;
		process->on = on;
		if (!has_ended(process) || (kill(pid, 0) && errno == ESRCH) ||
		    !pin_is_hooked(watch->pinned.dir, pid))
			return 0;
		forget(process);
	} else if (vec_grow(&watch->processes, &watch->capacity, watch->count)) {
		return -ENOMEM;
	} else {
		process = &watch->processes[watch->count++];
	}
	*process = (struct watched){.pid = pid,
				    .pidfd = (int)syscall(SYS_pidfd_open, pid, 0),
				    .listed = true,
				    .on = on};
	return 0;
}

/* Those that were taken out are no longer ours to have captured. */
static void forget_unlisted(struct watch *watch)
{
	size_t kept = 0;

	for (size_t i = 0; i < watch->count; i++) {
		if (watch->processes[i].listed)
			watch->processes[kept++] = watch->processes[i];
		else
			forget(&watch->processes[i]);
	}
	watch->count = kept;
}

static int list_processes(struct watch *watch)
{
	struct pinned_target *targets;
	size_t count;
	int err = pinned_targets_in_force(&watch->pinned, &targets, &count);

	for (size_t i = 0; i < watch->count; i++)
		watch->processes[i].listed = false;
	for (size_t i = 0; i < count && !err; i++)
		err = know(watch, targets[i].pid, targets[i].on);
	free(targets);
	if (!err)
		forget_unlisted(watch);
	return err;
}

/* ---- segments ---- */

/* A drainer renews by itself, and a segment has one reader. */
static void let_go(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++) {
		if (watch->processes[i].segment)
			shm_source_leave(watch->processes[i].segment);
		watch->processes[i].segment = NULL;
	}
}

static void renew(struct watch *watch, bool look)
{
	for (size_t i = 0; i < watch->count; i++) {
		struct watched *process = &watch->processes[i];

		if (process->segment &&
		    (!process->on || process->segment->ops->gone(process->segment)))
			close_segment(process);
		if (!process->segment && look && process->on && !has_ended(process))
			process->segment = shm_source_try(process->pid, NULL);
		if (process->segment)
			shm_source_renew(process->segment);
	}
}

/* ---- hooks ---- */

/* Not where another command is just changing something: it is looked at again soon. A program that runs none
 * of the files stays a process of the capture, by its manual scopes. */
static bool hook_again(const struct watch *watch, pid_t pid)
{
	int lock = pin_lock_changes(watch->pinned.dir), err;

	if (lock < 0)
		return false;
	err = pinned_add_again(&watch->pinned, pid, watch->known, watch->known_count);
	close(lock);
	return !err;
}

static const struct pin_known *find_known(const struct watch *watch, uint32_t link)
{
	size_t i = 0;

	while (i < watch->known_count && watch->known[i].link != link)
		i++;
	return i < watch->known_count ? &watch->known[i] : NULL;
}

/* Once a link's process is lost its path may mean another file. */
static void learn_files(struct watch *watch, const struct pin_links *links)
{
	struct pin_known *known = calloc(links->count + 1, sizeof(*known));
	char path[PATH_MAX];
	size_t count = 0;

	for (size_t i = 0; i < links->count && known; i++) {
		const struct pin_link *link = &links->items[i];
		const struct pin_known *before = find_known(watch, link->id);

		known[count].link = link->id;
		if (before)
			known[count++] = *before;
		else if (link->is_hook && link->pid &&
			 pin_link_file(link, NULL, 0, path, &known[count].file))
			count++;
	}
	free(watch->known);
	watch->known = known;
	watch->known_count = count;
}

/* After an exec by a thread that was not the first the links are to a thread that has ended. */
static void find_lost_hooks(struct watch *watch)
{
	struct pin_links links;
	int err = pin_links_read(watch->pinned.dir, &links);

	if (!err)
		learn_files(watch, &links);
	for (size_t i = 0; i < watch->count && !err; i++) {
		struct watched *process = &watch->processes[i];
		uint64_t begin = io_now_ns();

		if (has_ended(process) || begin < process->hook_ns)
			continue;
		if (!pinned_add_is_due(&links, process->pid, watch->known, watch->known_count) ||
		    !hook_again(watch, process->pid))
			process->hook_ns = io_now_ns() + (io_now_ns() - begin) * HOOK_SHARE;
	}
	pin_links_clear(&links);
}

/* ---- the loop ---- */

static int round_of(struct watch *watch)
{
	uint64_t now = io_now_ns();
	bool look = now - watch->looked_ns >= LOOK_NS;
	int err = 0;

	if (look)
		err = list_processes(watch);
	if (pin_is_drained(watch->pinned.dir))
		let_go(watch);
	else
		renew(watch, look);
	if (look) {
		watch->looked_ns = now;
		find_lost_hooks(watch);
		pinned_free_heirs(&watch->pinned);
	}
	return err;
}

/* Nobody takes the rest of a capture that was removed by hand. */
static void turn_off(struct watch *watch)
{
	for (size_t i = 0; i < watch->count; i++)
		close_segment(&watch->processes[i]);
}

static bool goes_on(const struct watch *watch)
{
	struct pairing_settings settings;

	return !pinned_settings(&watch->pinned, &settings) && settings.generation;
}

/*
 * Until the capture ends, or is removed by hand. Whoever takes the rest goes on where we leave off.
 */
static void run(struct watch *watch)
{
	bool stands = true;

	while (goes_on(watch) && (stands = pinned_stands(&watch->pinned)) && !round_of(watch))
		nanosleep(&(struct timespec){.tv_nsec = ROUND_NS}, NULL);
	if (stands)
		let_go(watch);
	else
		turn_off(watch);
	for (size_t i = 0; i < watch->count; i++)
		forget(&watch->processes[i]);
	free(watch->processes);
	free(watch->known);
}

/* ---- starting it ---- */

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
	if (write(CHANNEL, &err, sizeof(err)) == sizeof(err) && !err &&
	    read(CHANNEL, dir, 1) == 0) {
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

/* Where the kernel does not tell of links it could not hook again. */
static int check_links(const char *dir)
{
	struct pin_links links;
	int err = pin_links_read(dir, &links);

	if (!err)
		err = pinned_refuse_untold(&links, "--watch");
	pin_links_clear(&links);
	return err;
}

int pinned_watch_open(const struct watcher *watcher, const char *dir)
{
	char *absolute = realpath(dir, NULL); /* it leaves this directory */
	int err = absolute ? check_links(dir) : -errno, opened = -ESRCH;

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
