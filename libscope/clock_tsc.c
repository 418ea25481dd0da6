// SPDX-License-Identifier: BSD-2-Clause
#include "clock.h"
#include "platform.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* CPUID 8000_0007h, EDX bit 8: the counter runs at one rate in every power state. */
static bool invariant(void)
{
	unsigned eax, ebx, ecx, edx;

	return __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && (edx & (1u << 8));
}

/*
 * The kernel's own verdict: it keeps time in user space by the counter only while it holds the counters of
 * all processors to be equal. kvm-clock and the Hyper-V page are scaled counters, and stand even where the
 * guest calls its TSC unstable.
 */
bool scope_clock_tsc_sound(void)
{
	static const char *const sources[] = {"tsc", "kvm-clock", "hyperv_clocksource_tsc_page", NULL};

	return invariant() && scope_platform_counter_allowed() && scope_platform_clocksource_is(sources);
}

#else
bool scope_clock_tsc_sound(void)
{
	return false;
}
#endif
