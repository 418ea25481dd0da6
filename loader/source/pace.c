// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/pace.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000ull
/* Half of the time that one slot takes to fill at 1 M events/s. */
#define IDLE_NS_PER_SLOT 500ull

void pace_begin(struct pace *pace, uint64_t now_ns)
{
	struct sched_attr attributes = {.size = sizeof(attributes),
					.sched_policy = SCHED_OTHER,
					.sched_flags = SCHED_FLAG_RESET_ON_FORK};

	pace->pause_ns = PACE_USUAL_NS;
	pace->drained_ns = now_ns;
	if (sched_getscheduler(0) != SCHED_OTHER)
		return;
	/* The niceness is the user's choice. */
	attributes.sched_nice = getpriority(PRIO_PROCESS, 0);
	attributes.sched_runtime = SLICE_NS;
	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t pause_while_idle(uint64_t last, uint64_t slots, uint64_t longest_ns)
{
	uint64_t pause = least(last * 2, longest_ns);

	return slots ? least(pause, slots * IDLE_NS_PER_SLOT) : pause;
}

/* The time in which a quarter of a ring fills, as if all that was drained were of one ring. */
static uint64_t pause_under_load(uint64_t elapsed_ns, uint64_t drained, uint64_t slots)
{
	uint64_t pause = (uint64_t)((double)elapsed_ns * (double)(slots / 4) / (double)drained);

	return slots ? least(pause, PACE_USUAL_NS) : PACE_USUAL_NS;
}

uint64_t pace_hurry(struct pace *pace)
{
	return pace->pause_ns = PACE_SHORTEST_NS;
}

uint64_t pace_next(struct pace *pace, uint64_t now_ns, uint64_t drained, uint64_t slots,
		   uint64_t longest_ns)
{
	uint64_t elapsed = now_ns - pace->drained_ns;

	pace->drained_ns = now_ns;
	pace->pause_ns = drained ? pause_under_load(elapsed, drained, slots)
				 : pause_while_idle(pace->pause_ns, slots, longest_ns);
	if (pace->pause_ns < PACE_SHORTEST_NS)
		pace->pause_ns = PACE_SHORTEST_NS;
	return pace->pause_ns;
}
