// SPDX-License-Identifier: BSD-2-Clause
#include "clock.h"
#include "platform.h"

#if defined(__aarch64__)
/* The virtual counter is architectural; another clock source means that the kernel found a fault in it. */
bool scope_clock_cntvct_sound(void)
{
	static const char *const sources[] = {"arch_sys_counter", NULL};

	return scope_platform_clocksource_is(sources);
}

#else
bool scope_clock_cntvct_sound(void)
{
	return false;
}
#endif
