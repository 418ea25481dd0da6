/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * System calls without the C library. Purpose: its functions are cancellation points, which a scope must not be; and its
 * syscall() could as well make a process, so that a recorder that sees it imported must take the dearer probe sites.
 * Async-signal-safe; errno stays as it is.
 */
#ifndef SCOPE_SYSTEM_CALL_H
#define SCOPE_SYSTEM_CALL_H

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The result, or -errno. */
static inline long system_call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__) && !defined(__ILP32__)
	register long r10 __asm__("r10") = d;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
	return x0;
#else
	int saved = errno;
	long result = syscall(number, a, b, c, d);

	if (result < 0)
		result = -errno;
	errno = saved;
	return result;
#endif
}

#endif
