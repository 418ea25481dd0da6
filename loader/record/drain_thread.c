// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/drain_thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"

#define SECOND_NS 1000000000ull

/* True if it is to stop. */
static bool pause_for(const struct drainer *drainer, uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS),
				.tv_nsec = (long)(ns % SECOND_NS)};
	struct pollfd waited = {.fd = drainer->stop, .events = POLLIN};

	return ppoll(&waited, 1, &time, NULL) > 0;
}

static void notify(int fd)
{
	const uint64_t one = 1;

	io_write_all(fd, &one, sizeof(one));
}

static void *work(void *context)
{
	struct drainer *drainer = context;
	uint64_t pause_ns = 0;
	struct pace pace;
	int err;

	pace_begin(&pace, io_now_ns());
	do
		err = drainer->turn(drainer->context, &pace, &pause_ns);
	while (!err && !pause_for(drainer, pause_ns));
	atomic_store(&drainer->err, err);
	if (err)
		notify(drainer->over);
	return NULL;
}

static void close_fds(struct drainer *drainer)
{
	if (drainer->stop >= 0)
		close(drainer->stop);
	if (drainer->over >= 0)
		close(drainer->over);
	drainer->stop = drainer->over = -1;
}

int drainer_start(struct drainer *drainer, drainer_turn turn, void *context)
{
	sigset_t all, before;
	int err;

	*drainer = (struct drainer){.turn = turn, .context = context};
	drainer->stop = eventfd(0, EFD_CLOEXEC);
	drainer->over = eventfd(0, EFD_CLOEXEC);
	err = drainer->stop < 0 || drainer->over < 0 ? errno : 0;
	if (!err) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		err = pthread_create(&drainer->thread, NULL, work, drainer);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	drainer->started = !err;
	if (err) {
		log_error("cannot start a thread that drains: %s", strerror(err));
		close_fds(drainer);
	}
	return -err;
}

bool drainer_failed(const struct drainer *drainer)
{
	return atomic_load(&drainer->err) != 0;
}

int drainer_fd(const struct drainer *drainer)
{
	return drainer->started ? drainer->over : -1;
}

int drainer_stop(struct drainer *drainer)
{
	if (drainer->started) {
		notify(drainer->stop);
		pthread_join(drainer->thread, NULL);
		drainer->started = false;
		close_fds(drainer);
	}
	return drainer->err;
}
