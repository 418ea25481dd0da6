// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/strip.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "bpf/scope_event.h"

#define SECOND_NS   1000000000ull
#define SETTLE_NS   10000000ull /* in which most children run another program, or end */
#define REST_PER_GO 3 /* of its duration: the kernel holds up every fork of the machine for parts of a go */

struct strip {
	struct sites *sites;
	int heirs;
	pthread_mutex_t lock;
	pthread_cond_t change;
	pthread_t thread;
	bool started;
	bool stop;
	bool wanted;
	bool failed; /* and that was said */
	int *links;  /* to close */
	size_t link_count;
	size_t link_capacity;
	size_t count;
};

/* ---- one go ------------------------------------------------------------------------------------------- */

/* How many heirs there are just now; their tgids in `heirs`. */
static size_t list_heirs(const struct strip *strip, uint32_t *heirs)
{
	uint32_t *previous = NULL;
	size_t count = 0;

	while (count < MAX_HEIRS && !bpf_map_get_next_key(strip->heirs, previous, &heirs[count]))
		previous = &heirs[count++];
	return count;
}

/* What is forked by an heir that is not free yet stands in the map, too: it is found by the next look. */
static int free_heirs(struct strip *strip, const uint32_t *heirs, size_t count)
{
	int err = sites_strip(strip->sites);

	for (size_t i = 0; !err && i < count; i++)
		bpf_map_delete_elem(strip->heirs, &heirs[i]);
	return err;
}

static void say_failure(struct strip *strip, int err)
{
	if (strip->failed)
		return;
	strip->failed = true;
	log_warning(
		"a process that the traced one has forked keeps the breakpoints, which make it slow: the kernel does "
		"not take them away: %s",
		strerror(-err));
}

/* True if there was something to do, and there may be more. */
static bool go(struct strip *strip)
{
	uint32_t heirs[MAX_HEIRS];
	size_t count = list_heirs(strip, heirs);
	int err = count ? free_heirs(strip, heirs, count) : 0;

	if (err)
		say_failure(strip, err);
	pthread_mutex_lock(&strip->lock);
	strip->count += count && !err;
	pthread_mutex_unlock(&strip->lock);
	return count && !err;
}

/* ---- the thread --------------------------------------------------------------------------------------- */

/* With the lock held, which is free meanwhile: until the time has passed or the end has come. */
static void rest(struct strip *strip, uint64_t ns)
{
	uint64_t until = io_now_ns() + ns;
	struct timespec time = {.tv_sec = (time_t)(until / SECOND_NS), .tv_nsec = (long)(until % SECOND_NS)};

	while (!strip->stop && io_now_ns() < until)
		pthread_cond_timedwait(&strip->change, &strip->lock, &time);
}

/* With the lock held, which is free meanwhile. */
static void close_old_links(struct strip *strip)
{
	int *links = strip->links;
	size_t count = strip->link_count;

	strip->links = NULL;
	strip->link_count = strip->link_capacity = 0;
	pthread_mutex_unlock(&strip->lock);
	for (size_t i = 0; i < count; i++)
		close(links[i]);
	free(links);
	pthread_mutex_lock(&strip->lock);
}

/* With the lock held, which is free meanwhile. */
static void look_for_heirs(struct strip *strip)
{
	uint64_t begin;
	bool more;

	rest(strip, SETTLE_NS);
	if (strip->stop)
		return;
	strip->wanted = false;
	pthread_mutex_unlock(&strip->lock);
	begin = io_now_ns();
	more = go(strip);
	pthread_mutex_lock(&strip->lock);
	if (more) {
		strip->wanted = true;
		rest(strip, (io_now_ns() - begin) * REST_PER_GO);
	}
}

static void *work(void *context)
{
	struct strip *strip = context;

	pthread_mutex_lock(&strip->lock);
	while (!strip->stop || strip->link_count) {
		if (strip->link_count)
			close_old_links(strip);
		else if (strip->wanted)
			look_for_heirs(strip);
		else
			pthread_cond_wait(&strip->change, &strip->lock);
	}
	pthread_mutex_unlock(&strip->lock);
	return NULL;
}

/* With the lock held. Signals are for the thread that captures. */
static void wake(struct strip *strip)
{
	sigset_t all, before;

	if (!strip->started) {
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		strip->started = !pthread_create(&strip->thread, NULL, work, strip);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	pthread_cond_signal(&strip->change);
}

/* ---- from outside ------------------------------------------------------------------------------------- */

struct strip *strip_create(struct sites *sites, int heirs)
{
	struct strip *strip = calloc(1, sizeof(*strip));
	pthread_condattr_t monotonic;

	if (!strip)
		return NULL;
	strip->sites = sites;
	strip->heirs = heirs;
	pthread_mutex_init(&strip->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&strip->change, &monotonic);
	pthread_condattr_destroy(&monotonic);
	return strip;
}

void strip_wanted(struct strip *strip)
{
	pthread_mutex_lock(&strip->lock);
	if (!strip->wanted && !strip->failed && !strip->stop) {
		strip->wanted = true;
		wake(strip);
	}
	pthread_mutex_unlock(&strip->lock);
}

void strip_close_links(struct strip *strip, int *links, size_t count)
{
	int err;

	pthread_mutex_lock(&strip->lock);
	err = vec_reserve((void **)&strip->links, &strip->link_capacity, strip->link_count + count,
			  sizeof(*links));
	if (!err && count) {
		memcpy(strip->links + strip->link_count, links, count * sizeof(*links));
		strip->link_count += count;
		wake(strip);
	}
	pthread_mutex_unlock(&strip->lock);
	for (size_t i = 0; err && i < count; i++)
		close(links[i]);
	free(links);
}

size_t strip_count(struct strip *strip)
{
	size_t count;

	pthread_mutex_lock(&strip->lock);
	count = strip->count;
	pthread_mutex_unlock(&strip->lock);
	return count;
}

void strip_destroy(struct strip *strip)
{
	if (!strip)
		return;
	pthread_mutex_lock(&strip->lock);
	strip->stop = true;
	pthread_cond_signal(&strip->change);
	pthread_mutex_unlock(&strip->lock);
	if (strip->started)
		pthread_join(strip->thread, NULL);
	pthread_mutex_lock(&strip->lock);
	close_old_links(strip); /* if there was no thread */
	pthread_mutex_unlock(&strip->lock);
	pthread_cond_destroy(&strip->change);
	pthread_mutex_destroy(&strip->lock);
	free(strip);
}
