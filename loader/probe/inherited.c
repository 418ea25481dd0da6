// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/inherited.h"

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

#define SECOND_NS 1000000000ull
#define SETTLE_NS 10000000ull /* in which most children run another program, or end */
/* of its duration: the kernel holds up every fork of the machine for parts of a go */
#define REST_PER_GO 3

/* A go that fails, for want of memory perhaps, is tried again by itself, after a pause that doubles; when all
 * tries have failed it is tried once at each further fork or look, after the longest of the pauses. */
#define MOST_TRIES 6
#define PAUSE_NS   100000000ull

struct strip {
	struct sites *sites;
	int heirs;
	pthread_mutex_t lock;
	pthread_cond_t change;
	pthread_t thread;
	bool started;
	bool stop;
	bool wanted;
	uint64_t look_ns;  /* not before this */
	uint32_t failures; /* in a row */
	bool failure_said;
	int *links; /* to close */
	size_t link_count;
	size_t link_capacity;
	size_t count;
};

/* ---- one go ---- */

/* How many heirs there are just now; their tgids in `heirs`. */
static size_t list_heirs(const struct strip *strip, uint32_t *heirs)
{
	uint32_t *previous = NULL;
	size_t count = 0;

	while (count < MAX_HEIRS && !bpf_map_get_next_key(strip->heirs, previous, &heirs[count]))
		previous = &heirs[count++];
	return count;
}

/*
 * What is forked by an heir that is not free yet stands in the map, too: it is found by the next
 * look.
 */
static int free_heirs(struct strip *strip, const uint32_t *heirs, size_t count)
{
	int err = sites_strip(strip->sites);

	for (size_t i = 0; !err && i < count; i++)
		bpf_map_delete_elem(strip->heirs, &heirs[i]);
	return err;
}

static void say_failure(struct strip *strip, int err)
{
	if (strip->failure_said)
		return;
	strip->failure_said = true;
	log_warning(
		"a process that the traced one has forked keeps the breakpoints, which make it slow: the kernel does "
		"not take them away: %s; this is tried again",
		strerror(-err));
}

/* How many heirs there were, or -errno. */
static ssize_t go(struct strip *strip)
{
	uint32_t heirs[MAX_HEIRS];
	size_t count = list_heirs(strip, heirs);
	int err = count ? free_heirs(strip, heirs, count) : 0;

	if (err)
		say_failure(strip, err);
	return err ? err : (ssize_t)count;
}

/* ---- the thread ---- */

/*
 * With the lock held, which is free meanwhile: until the time has come, or something has changed.
 */
static void rest_until(struct strip *strip, uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS),
				.tv_nsec = (long)(ns % SECOND_NS)};

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

/* With the lock held: when to look again, after a go from `begin` to `end`. */
static void plan_next_look(struct strip *strip, ssize_t result, uint64_t begin, uint64_t end)
{
	if (result < 0) {
		strip->failures += strip->failures < MOST_TRIES;
		strip->wanted |= strip->failures < MOST_TRIES;
		strip->look_ns = end + (PAUSE_NS << (strip->failures - 1));
		return;
	}
	strip->failures = 0;
	strip->count += result > 0;
	strip->wanted |= result > 0; /* there may be more */
	strip->look_ns = end + (end - begin) * REST_PER_GO + SETTLE_NS;
}

/* With the lock held, which is free meanwhile. */
static void look_for_heirs(struct strip *strip)
{
	uint64_t begin = io_now_ns();
	ssize_t result;

	strip->wanted = false;
	pthread_mutex_unlock(&strip->lock);
	result = go(strip);
	pthread_mutex_lock(&strip->lock);
	plan_next_look(strip, result, begin, io_now_ns());
}

static void *work(void *context)
{
	struct strip *strip = context;

	pthread_mutex_lock(&strip->lock);
	while (!strip->stop || strip->link_count) {
		if (strip->link_count)
			close_old_links(strip);
		else if (!strip->wanted)
			pthread_cond_wait(&strip->change, &strip->lock);
		else if (io_now_ns() < strip->look_ns)
			rest_until(strip, strip->look_ns);
		else
			look_for_heirs(strip);
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

/* ---- from outside ---- */

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
	uint64_t settled_ns = io_now_ns() + SETTLE_NS;

	pthread_mutex_lock(&strip->lock);
	if (!strip->wanted && !strip->stop) {
		strip->wanted = true;
		if (strip->look_ns < settled_ns)
			strip->look_ns = settled_ns;
		wake(strip);
	}
	pthread_mutex_unlock(&strip->lock);
}

void strip_look(struct strip *strip)
{
	uint32_t heir;

	if (!bpf_map_get_next_key(strip->heirs, NULL, &heir))
		strip_wanted(strip);
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
