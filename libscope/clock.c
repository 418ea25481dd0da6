// SPDX-License-Identifier: BSD-2-Clause
#include "clock.h"
#include "platform.h"

enum { CHECK_NS = 20000 };

struct rate {
	uint64_t ticks;
	uint64_t ns;
};

/* Watches the raw counter for CHECK_NS. False if it ever steps back. */
static bool measure(struct rate *rate)
{
	struct clock_moment start = clock_moment(CLOCK_RAW_KIND), end;
	uint64_t last = start.ticks;

	do {
		uint64_t now = clock_raw();

		if (now < last)
			return false;
		last = now;
	} while (clock_monotonic_ns() - start.ns < CHECK_NS);
	end = clock_moment(CLOCK_RAW_KIND);
	rate->ticks = end.ticks - start.ticks;
	rate->ns = end.ns - start.ns;
	return end.ticks >= last;
}

/* It runs forward, at no less than 1 MHz and no more than 10 GHz. */
static bool self_check(void)
{
	struct rate rate;

	return measure(&rate) && rate.ticks * 1000 >= rate.ns && rate.ticks <= rate.ns * 10;
}

static bool raw_sound(void)
{
	switch (CLOCK_RAW_KIND) {
	case SCOPE_CLOCK_TSC:
		return scope_clock_tsc_sound();
	case SCOPE_CLOCK_CNTVCT:
		return scope_clock_cntvct_sound();
	default:
		return false;
	}
}

uint32_t scope_clock_choose(bool system_clock)
{
	return !system_clock && raw_sound() && self_check() ? CLOCK_RAW_KIND : SCOPE_CLOCK_MONOTONIC;
}

uint64_t scope_clock_ticks_of_ns(uint32_t clock, uint64_t ns)
{
	struct rate rate;

	if (clock == SCOPE_CLOCK_MONOTONIC || !measure(&rate))
		return ns;
	return (uint64_t)((double)ns * (double)rate.ticks / (double)rate.ns);
}
