/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which threads have begun. Purpose: several copies of libscope in a process write to one segment, and a
 * thread must have one thread start record, not one from each copy: a second one would end the scopes it has
 * open. Lock-free, and async-signal-safe: every call ends after a bounded number of steps.
 */
#ifndef SCOPE_THREADS_H
#define SCOPE_THREADS_H

#include <stdbool.h>

#include "segment.h"

/*
 * Enters the calling thread, on behalf of the copy of the library that `copy` is an address in. True if
 * another copy did so in this life of the thread. The caller does this once per thread: an entry by the same
 * copy is of a dead thread.
 */
bool scope_threads_enter(struct scope_header *header, uint32_t tid, const void *copy);

#endif
