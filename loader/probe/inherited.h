/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Breakpoints where nobody watches are taken away. Purpose: a child that a traced process forks
 * inherits the breakpoints and would pay for every call; and links that are no longer wanted are
 * closed. Either waits for grace periods of the kernel, so a thread of its own does it. Owner: a
 * probe session.
 *
 * One go frees all processes at once, however many were forked: that is why nothing is queued, and
 * none can be forgotten. A child that soon runs another program, as most do, has lost them by
 * itself; so the first look is a moment after the fork. What fails is tried again, a few times by
 * itself and then at each fork.
 */
#ifndef SCOPETRACE_PROBE_INHERITED_H
#define SCOPETRACE_PROBE_INHERITED_H

#include <stddef.h>

#include "probe/site.h"

struct strip;

/* `heirs`: fd of that map. NULL with errno. Its thread starts when there is something to do. */
struct strip *strip_create(struct sites *sites, int heirs);

/* A traced process has forked. Returns at once. */
void strip_wanted(struct strip *strip);

/* The same if there are heirs. */
void strip_look(struct strip *strip);

/* Closes these soon, `links` being freed then. Returns at once. */
void strip_close_links(struct strip *strip, int *links, size_t count);

/* How often breakpoints were taken away. */
size_t strip_count(struct strip *strip);

/* Ends the thread, which may take as long as one link takes to close; takes NULL. All links given to it are
 * closed then. */
void strip_destroy(struct strip *strip);

#endif
