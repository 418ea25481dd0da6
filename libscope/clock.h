/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clocks. Purpose: reading the clock of a segment, by writers and by the reader, and choosing it once per
 * process. A raw counter is chosen only where it is sound; else records carry ns of CLOCK_MONOTONIC. The
 * architecture is picked here and nowhere else. Everything but the choosing is inline and async-signal-safe.
 */
#ifndef SCOPE_CLOCK_H
#define SCOPE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "platform.h"
#include "segment.h"

#ifndef SCOPE_PLATFORM_WINDOWS
#include <time.h>
#endif

/*
 * CLOCK_RAW_KIND: what the raw counter is, or CLOCK_MONOTONIC's id where there is none; clock_raw reads it,
 * unfenced: a fence costs more than all else in a scope.
 */
#if defined(__x86_64__) || defined(__i386__)
#define CLOCK_RAW_KIND SCOPE_CLOCK_TSC
static inline uint64_t clock_raw(void)
{
	return __builtin_ia32_rdtsc();
}
#elif defined(__aarch64__)
#define CLOCK_RAW_KIND SCOPE_CLOCK_CNTVCT
static inline uint64_t clock_raw(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}
#else
#define CLOCK_RAW_KIND SCOPE_CLOCK_MONOTONIC
static inline uint64_t clock_raw(void)
{
	return 0;
}
#endif

static inline uint64_t clock_monotonic_ns(void)
{
#ifdef SCOPE_PLATFORM_WINDOWS
	return scope_platform_monotonic_ns();
#else
	struct timespec now = {0, 0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

static inline uint64_t clock_ticks(uint32_t clock)
{
	return __builtin_expect(clock == CLOCK_RAW_KIND && CLOCK_RAW_KIND != SCOPE_CLOCK_MONOTONIC, 1)
		       ? clock_raw()
		       : clock_monotonic_ns();
}

/* A clock and CLOCK_MONOTONIC, read at once. */
struct clock_moment {
	uint64_t ticks;
	uint64_t ns;
};

/* The narrowest of a few readings: one in whose middle the thread was preempted is of no moment at all. */
static inline struct clock_moment clock_moment(uint32_t clock)
{
	struct clock_moment moment = {0, 0};
	uint64_t narrowest = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t before = clock_monotonic_ns();
		uint64_t ticks = clock_ticks(clock);
		uint64_t width = clock_monotonic_ns() - before;

		if (width < narrowest) {
			narrowest = width;
			moment.ticks = ticks;
			moment.ns = before + width / 2;
		}
	}
	return moment;
}

/* Whether the raw counter of this machine may be used: clock_tsc.c and clock_cntvct.c. */
bool scope_clock_tsc_sound(void);
bool scope_clock_cntvct_sound(void);

/* The clock (enum scope_clock) that the records of this process shall carry. Takes some 20 us where it has to
 * look. */
uint32_t scope_clock_choose(bool system_clock);

/* `ns` in ticks of `clock`, to about a percent. Takes some 20 us for a raw counter. */
uint64_t scope_clock_ticks_of_ns(uint32_t clock, uint64_t ns);

#endif
