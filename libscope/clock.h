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
#include <time.h>

#include "segment.h"

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
	struct timespec now = {0, 0};

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ticks(uint32_t clock)
{
	return __builtin_expect(clock == CLOCK_RAW_KIND && CLOCK_RAW_KIND != SCOPE_CLOCK_MONOTONIC, 1)
		       ? clock_raw()
		       : clock_monotonic_ns();
}

/* Whether the raw counter of this machine may be used: clock_tsc.c and clock_cntvct.c. */
bool clock_tsc_sound(void);
bool clock_cntvct_sound(void);

/* The clock (enum scope_clock) that the records of this process shall carry. Takes some 20 us where it has to
 * look. */
uint32_t clock_choose(bool system_clock);

/* `ns` in ticks of `clock`, to about a percent. Takes some 20 us for a raw counter. */
uint64_t clock_ticks_of_ns(uint32_t clock, uint64_t ns);

#endif
