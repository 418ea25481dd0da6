/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Watches over writes that may wait for a disk, or for a server. Purpose: what else is to be done
 * meanwhile is done. Owner: the thread that writes. It costs that thread two locks a write, and no
 * wake-ups while nothing is written.
 */
#ifndef SCOPETRACE_FILE_STALL_WATCH_H
#define SCOPETRACE_FILE_STALL_WATCH_H

struct stall_watch;

/*
 * Calls `stalled` ten times a second during a write that takes longer than a tenth of a second: in
 * a thread of its own, which takes no signals unless it asks for them, and never but during a
 * write. NULL with errno.
 */
struct stall_watch *stall_watch_create(void (*stalled)(void *context), void *context);
void stall_watch_destroy(struct stall_watch *watch); /* takes NULL */

/* Around a write; the end waits for that of a call of `stalled`. Both take NULL. */
void stall_watch_begin(struct stall_watch *watch);
void stall_watch_end(struct stall_watch *watch);

#endif
