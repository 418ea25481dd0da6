/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The watcher of a pinned capture. Purpose: the manual scopes of its processes are captured while
 * nobody drains, and what they fork is freed of breakpoints. A process of its own; it ends with the
 * capture.
 */
#ifndef SCOPETRACE_PINNED_WATCH_H
#define SCOPETRACE_PINNED_WATCH_H

#include <sys/types.h>

struct watcher {
	pid_t pid;
	int channel; /* to it; -1: there is none */
};

/*
 * Forks the watcher, which waits: before anything is done, as that is when we are small, and
 * nothing is to be undone yet. 0 or -errno, logged.
 */
int pinned_watch_start(struct watcher *watcher);

/*
 * Has it open the capture in DIR, which is described already and does not run yet. 0 or -errno,
 * logged.
 */
int pinned_watch_open(const struct watcher *watcher, const char *dir);

/* Lets go of it. It watches as long as the capture runs: if it does not by now, it ends. */
void pinned_watch_leave(struct watcher *watcher);

#endif
