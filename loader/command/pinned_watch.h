/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The watcher of a pinned capture. Purpose: the manual scopes of its processes are captured while nobody
 * drains, and what they fork is freed of breakpoints. A process of its own; it ends with the capture.
 */
#ifndef SCOPETRACE_COMMAND_PINNED_WATCH_H
#define SCOPETRACE_COMMAND_PINNED_WATCH_H

/* Leaves the watcher behind. 0 or -errno, said. */
int pinned_watch(const char *dir);

#endif
