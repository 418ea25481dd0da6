// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes that take long are noticed, and only these. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "file/stall_watch.h"

static sem_t called;
static atomic_bool writing;
static atomic_uint strays;

static void stalled(void *context)
{
	cr_assert_eq(context, &called);
	strays += !writing;
	sem_post(&called);
}

static void write_until_called(struct stall_watch *watch)
{
	writing = true;
	stall_watch_begin(watch);
	sem_wait(&called);
	sem_wait(&called);
	stall_watch_end(watch);
	writing = false;
	while (!sem_trywait(&called))
		;
}

Test(stall_watch, calls_during_long_writes, .timeout = 20)
{
	const struct timespec longer = {.tv_nsec = 150000000};
	struct stall_watch *watch;

	sem_init(&called, 0, 0);
	watch = stall_watch_create(stalled, &called);
	cr_assert(watch);
	nanosleep(&longer, NULL);
	write_until_called(watch);
	for (int i = 0; i < 100000; i++) {
		stall_watch_begin(watch);
		stall_watch_end(watch);
	}
	nanosleep(&longer, NULL);
	cr_assert(sem_trywait(&called), "nothing is written");
	write_until_called(watch);
	cr_assert_eq(strays, 0);
	stall_watch_destroy(watch);
	stall_watch_destroy(NULL);
	stall_watch_begin(NULL);
	stall_watch_end(NULL);
}
