/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What libscope needs of an operating system. Purpose: one file per platform, picked here. All calls may run
 * in a signal handler and are no cancellation points; they may change errno. Descriptors and errors are ints:
 * >= 0 or -errno.
 */
#ifndef SCOPE_PLATFORM_H
#define SCOPE_PLATFORM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* -DSCOPE_PLATFORM_POSIX=1 takes the portable one on Linux too, which is how it is tested here. */
#if defined(SCOPE_PLATFORM_POSIX)
#elif defined(__linux__)
#define SCOPE_PLATFORM_LINUX 1
#elif defined(_WIN32)
#define SCOPE_PLATFORM_WINDOWS 1
#elif defined(__unix__) || defined(__APPLE__)
#define SCOPE_PLATFORM_POSIX 1
#else
#error "libscope has no platform file for this system; see platform_posix.c for what one must provide"
#endif

/* Shared memory of `size` bytes, all zero, that can be found from outside for as long as the process lives.
 */
int scope_platform_create(uint64_t size);
void *scope_platform_map(int descriptor, uint64_t size); /* NULL if it cannot */
void scope_platform_unmap(void *address, uint64_t size);
/* With an address: only if `descriptor` still stands for what is mapped there; the program may have closed it
 * itself. */
void scope_platform_close(int descriptor, const void *address);

/* Shows the segments mapped in this process until `accept` is true; then returns that one's address, else
 * NULL. */
typedef bool (*scope_platform_accept)(const void *address, uint64_t size);
void *scope_platform_find(scope_platform_accept accept);

/* Sleeps for about this long. */
void scope_platform_pause(uint64_t ns);

/* Makes the pages of a range present, so that no write faults; without it they come one by one. */
void scope_platform_populate(void *address, uint64_t size);
/* A forked child finds zeroes there, however it was forked. 0 or -errno. */
int scope_platform_wipe_on_fork(void *page, uint64_t size);
/* For systems that cannot: `child` runs in each child of fork(), if not of other ways to make one. */
void scope_platform_at_fork(void (*child)(void));

uint32_t scope_platform_pid(void);
/* Not 0, and of no two threads that live at the same time in one process. */
uint32_t scope_platform_tid(void);
/* When the process / this thread started, in the system's own units; 0 if unknown. */
uint64_t scope_platform_process_start(void);
uint64_t scope_platform_thread_start(void);

#ifdef SCOPE_PLATFORM_WINDOWS
/* ns of a clock that never steps back; elsewhere that is CLOCK_MONOTONIC, read inline by clock.h. */
uint64_t scope_platform_monotonic_ns(void);
#endif
/* A variable of the environment, or NULL; NULL too for a privileged program, whose caller it is not to obey.
 */
const char *scope_platform_environment(const char *name);

bool scope_platform_counter_allowed(void);
/* Whether the kernel keeps time by one of these (NULL ends the list). */
bool scope_platform_clocksource_is(const char *const *names);

#endif
