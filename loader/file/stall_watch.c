// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/stall_watch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define SECOND_NS 1000000000
#define STALL_NS  100000000

struct stall_watch {
	void (*stalled)(void *context);
	void *context;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t begun;
	uint64_t writes;
	bool writing, idle, over;
};

/* True if it is the same write after that time. */
static bool takes_long(struct stall_watch *watch)
{
	uint64_t write = watch->writes;
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += STALL_NS;
	if (until.tv_nsec >= SECOND_NS) {
		until.tv_nsec -= SECOND_NS;
		until.tv_sec++;
	}
	while (!watch->over &&
	       pthread_cond_timedwait(&watch->begun, &watch->lock, &until) != ETIMEDOUT)
		;
	return !watch->over && watch->writing && watch->writes == write;
}

static void *work(void *context)
{
	struct stall_watch *watch = context;

	pthread_mutex_lock(&watch->lock);
	while (!watch->over) {
		watch->idle = !watch->writing;
		if (watch->idle)
			pthread_cond_wait(&watch->begun, &watch->lock);
		else if (takes_long(watch))
			watch->stalled(watch->context);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

void stall_watch_begin(struct stall_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->writing = true;
	watch->writes++;
	if (watch->idle)
		pthread_cond_signal(&watch->begun);
	pthread_mutex_unlock(&watch->lock);
}

void stall_watch_end(struct stall_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->writing = false;
	pthread_mutex_unlock(&watch->lock);
}

struct stall_watch *stall_watch_create(void (*stalled)(void *context), void *context)
{
	struct stall_watch *watch = calloc(1, sizeof(*watch));
	pthread_condattr_t attributes;
	sigset_t all, before;

	if (!watch)
		return NULL;
	watch->stalled = stalled;
	watch->context = context;
	pthread_mutex_init(&watch->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&watch->begun, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	errno = pthread_create(&watch->thread, NULL, work, watch);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!errno)
		return watch;
	free(watch);
	return NULL;
}

void stall_watch_destroy(struct stall_watch *watch)
{
	if (!watch)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->over = true;
	pthread_cond_signal(&watch->begun);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->begun);
	pthread_mutex_destroy(&watch->lock);
	free(watch);
}
