/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read leases (fcntl F_SETLEASE) on the files of hooked functions. Purpose: nobody changes a file under
 * its probes. The kernel keeps a probe's instruction from the file as it was, and writes its bytes back:
 * in a changed file that kills programs. Who opens a leased file for writing waits in the kernel until
 * the lease is given up, at most /proc/sys/fs/lease-break-time seconds. Owner: who hooks; the list does
 * not change between leases_take and leases_release, so that any thread may ask.
 */
#ifndef SCOPETRACE_PROGRAM_LEASE_H
#define SCOPETRACE_PROGRAM_LEASE_H

#include <signal.h>
#include <stddef.h>

#include "program/symbol.h"

/*
 * What the kernel sends to this process when somebody wants to write: ignored unless it is blocked, and
 * so no danger to us.
 */
#define LEASE_SIGNAL SIGURG

struct lease;

struct lease_set {
	struct lease *items; /* one for each file */
	size_t count;
};

/*
 * Takes a lease on each file of these functions, which lie one module after another. Where none can be
 * had (some file systems, another user's file, a file that is open for writing just now, which is logged)
 * the file's size and times are compared instead. 0; -ESTALE, logged, if a file has changed since its
 * module was listed; -ENOMEM. leases_release in any case.
 */
int leases_take(struct lease_set *set, const struct function *const *functions, size_t count);

/*
 * A file that somebody waits to write to, or, where there is no lease, that has changed; NULL: none. The
 * module is the functions' own.
 */
const struct module *leases_lost(const struct lease_set *set);

/* No probe is left: lets the writers go on. Idempotent. */
void leases_release(struct lease_set *set);

#endif
