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

static void write_until_called(struct write_watch *watch)
{
	writing = true;
	write_watch_begin(watch);
	sem_wait(&called);
	sem_wait(&called);
	write_watch_end(watch);
	writing = false;
	while (!sem_trywait(&called))
		;
}

Test(write_watch, calls_during_long_writes, .timeout = 20)
{
	const struct timespec longer = {.tv_nsec = 150000000};
	struct write_watch *watch;

	sem_init(&called, 0, 0);
	watch = write_watch_create(stalled, &called);
	cr_assert(watch);
	nanosleep(&longer, NULL);
	write_until_called(watch);
	for (int i = 0; i < 100000; i++) {
		write_watch_begin(watch);
		write_watch_end(watch);
	}
	nanosleep(&longer, NULL);
	cr_assert(sem_trywait(&called), "nothing is written");
	write_until_called(watch);
	cr_assert_eq(strays, 0);
	write_watch_destroy(watch);
	write_watch_destroy(NULL);
	write_watch_begin(NULL);
	write_watch_end(NULL);
}
