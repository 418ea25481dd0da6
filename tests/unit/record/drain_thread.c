// SPDX-License-Identifier: GPL-2.0-or-later
/* The thread that drains: turns, until it is stopped or one fails. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "record/drain_thread.h"

static atomic_uint turns;
static atomic_bool unmasked;
static uint64_t pause_after; /* ns */
static unsigned fails_at;

static int turn(void *context, struct pace *pace, uint64_t *pause_ns)
{
	sigset_t mask;

	cr_assert_eq(context, &turns);
	cr_assert_gt(pace->pause_ns, 0);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (!sigismember(&mask, SIGINT) || !sigismember(&mask, SIGTERM) ||
	    !sigismember(&mask, SIGCHLD))
		atomic_store(&unmasked, true);
	*pause_ns = pause_after;
	return atomic_fetch_add(&turns, 1) + 1 == fails_at ? -EBADMSG : 0;
}

static bool is_readable(int fd, int wait_ms)
{
	struct pollfd waited = {.fd = fd, .events = POLLIN};

	return poll(&waited, 1, wait_ms) == 1;
}

Test(drainer, turns_until_it_is_stopped, .timeout = 60)
{
	struct drainer drainer = {0};

	pause_after = 1000;
	cr_assert_eq(drainer_start(&drainer, turn, &turns), 0);
	while (atomic_load(&turns) < 100)
		;
	cr_assert_not(drainer_failed(&drainer));
	cr_assert_not(is_readable(drainer_fd(&drainer), 0));
	cr_assert_eq(drainer_stop(&drainer), 0);
	unsigned last = atomic_load(&turns);

	cr_assert_eq(drainer_stop(&drainer), 0);
	cr_assert_eq(atomic_load(&turns), last);
	cr_assert_not(atomic_load(&unmasked), "signals are the owner's");
	cr_assert_eq(drainer_fd(&drainer), -1);
}

/* However long it pauses. */
Test(drainer, stopped_in_a_pause, .timeout = 60)
{
	struct drainer drainer = {0};

	pause_after = 3600 * 1000000000ull;
	cr_assert_eq(drainer_start(&drainer, turn, &turns), 0);
	cr_assert_eq(drainer_stop(&drainer), 0);
	cr_assert_eq(atomic_load(&turns), 1);
}

Test(drainer, a_turn_that_fails, .timeout = 60)
{
	struct drainer drainer = {0};

	fails_at = 3;
	cr_assert_eq(drainer_start(&drainer, turn, &turns), 0);
	cr_assert(is_readable(drainer_fd(&drainer), -1));
	cr_assert(drainer_failed(&drainer));
	cr_assert_eq(drainer_stop(&drainer), -EBADMSG);
	cr_assert_eq(drainer_stop(&drainer), -EBADMSG);
	cr_assert_eq(atomic_load(&turns), 3);
}

Test(drainer, never_started)
{
	struct drainer drainer = {0};

	cr_assert_not(drainer_failed(&drainer));
	cr_assert_eq(drainer_fd(&drainer), -1);
	cr_assert_eq(drainer_stop(&drainer), 0);
}
