// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/sched/types.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "source/pace.h"

enum { SLOTS = 8192, LONGEST_NS = 4000000 };

/* After `events` in each millisecond. */
static uint64_t pause_at(uint64_t events, uint64_t slots)
{
	struct pace pace = {.pause_ns = PACE_USUAL_NS, .drained_ns = 0};

	return pace_next(&pace, 1000000, events, slots, LONGEST_NS);
}

Test(pace, a_slow_writer_is_asked_each_millisecond)
{
	cr_assert_eq(pause_at(1, SLOTS), PACE_USUAL_NS);
	cr_assert_eq(pause_at(1000, SLOTS), PACE_USUAL_NS);
	cr_assert_eq(pause_at(SLOTS / 4, SLOTS), PACE_USUAL_NS);
}

Test(pace, a_fast_writer_is_asked_before_a_quarter_of_a_ring_is_full)
{
	for (uint64_t events = SLOTS / 4; events <= SLOTS * 2; events += 100) {
		uint64_t pause = pause_at(events, SLOTS);

		cr_assert_leq(pause * events / 1000000, SLOTS / 4, "%lu events a ms, pause %lu ns",
			      (unsigned long)events, (unsigned long)pause);
		cr_assert_geq(pause, PACE_SHORTEST_NS);
	}
}

Test(pace, it_never_polls_busily)
{
	cr_assert_eq(pause_at(1000000, SLOTS), PACE_SHORTEST_NS);
	cr_assert_eq(pause_at(UINT64_MAX, SLOTS), PACE_SHORTEST_NS);
	cr_assert_eq(pause_at(1000000, 8), PACE_SHORTEST_NS);
	struct pace pace = {.pause_ns = PACE_USUAL_NS, .drained_ns = 5};
	cr_assert_eq(pace_next(&pace, 5, 1, SLOTS, LONGEST_NS), PACE_SHORTEST_NS,
		     "no time has passed");
}

Test(pace, events_without_a_ring_of_ours_keep_to_a_millisecond)
{
	cr_assert_eq(pause_at(1000000, 0), PACE_USUAL_NS);
}

Test(pace, a_stall_alone_shortens_nothing)
{
	struct pace pace = {.pause_ns = PACE_USUAL_NS, .drained_ns = 0};

	/* 8 ms at 1 M events/s */
	cr_assert_eq(pace_next(&pace, 8000000, 8000, SLOTS, LONGEST_NS), PACE_USUAL_NS);
}

Test(pace, idle_pauses_grow_to_half_the_time_of_a_full_ring)
{
	static const struct {
		uint64_t slots, longest, last;
	} cases[] = {
		{SLOTS, LONGEST_NS, LONGEST_NS},   {131072, LONGEST_NS, LONGEST_NS},
		{1024, LONGEST_NS, 512000}, /* 1024 events at 1 M a second are 1.024 ms */
		{8, LONGEST_NS, PACE_SHORTEST_NS}, {0, 16000000, 16000000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pace pace = {.pause_ns = PACE_USUAL_NS, .drained_ns = 0};
		uint64_t now = 0, pause = 0, before = 0;

		for (int k = 0; k < 10; k++) {
			before = pause;
			pause = pace_next(&pace, now += 1000000, 0, cases[i].slots,
					  cases[i].longest);
			cr_assert_geq(pause, before < cases[i].last ? before : cases[i].last);
		}
		cr_assert_eq(pause, cases[i].last, "%lu slots: %lu", (unsigned long)cases[i].slots,
			     (unsigned long)pause);
		cr_assert_eq(pace_next(&pace, now + 1000000, 1, cases[i].slots, cases[i].longest),
			     PACE_USUAL_NS);
	}
}

/*
 * What a child of the loader finds: the command that it launches must run as it would without us.
 */
static int child_is_ordinary(void)
{
	struct sched_attr attributes = {0};

	errno = 0;
	if (getpriority(PRIO_PROCESS, 0) != 0 || errno)
		return 1;
	if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0)
		return 2;
	return attributes.sched_nice == 0 && attributes.sched_runtime != 100000 ? 0 : 3;
}

Test(pace, children_do_not_inherit_our_place_in_the_schedule)
{
	struct pace pace;
	int status;
	pid_t child;

	if (getpriority(PRIO_PROCESS, 0) != 0)
		cr_skip("this test itself runs at another niceness");
	pace_begin(&pace, 0);
	cr_assert_eq(pace.pause_ns, PACE_USUAL_NS);
	child = fork();
	if (child == 0)
		_exit(child_is_ordinary());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0, "status %x", status);
}
