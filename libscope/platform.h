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

#if defined(__linux__)
#define SCOPE_PLATFORM_LINUX 1
#else
#error "libscope has no platform file for this system; see platform_linux.c for what one must provide"
#endif

/* Shared memory of `size` bytes, all zero, that can be found from outside for as long as the process lives.
 */
int platform_create(uint64_t size);
void *platform_map(int descriptor, uint64_t size); /* NULL if it cannot */
void platform_unmap(void *address, uint64_t size);
/* With an address: only if `descriptor` still stands for what is mapped there; the program may have closed it
 * itself. */
void platform_close(int descriptor, const void *address);

/* Shows the segments mapped in this process until `accept` is true; then returns that one's address, else
 * NULL. */
typedef bool (*platform_accept)(const void *address, uint64_t size);
void *platform_find(platform_accept accept);

/* Sleeps for about this long. */
void platform_pause(uint64_t ns);

/* Makes the pages of a range present, so that no write faults; without it they come one by one. */
void platform_populate(void *address, uint64_t size);
/* A forked child finds zeroes there, however it was forked. 0 or -errno. */
int platform_wipe_on_fork(void *page, uint64_t size);

uint32_t platform_pid(void);
uint32_t platform_tid(void);
/* When the process / this thread started, in the system's own units; 0 if unknown. */
uint64_t platform_process_start(void);
uint64_t platform_thread_start(void);

bool platform_counter_allowed(void);
/* Whether the kernel keeps time by one of these (NULL ends the list). */
bool platform_clocksource_is(const char *const *names);

#endif
