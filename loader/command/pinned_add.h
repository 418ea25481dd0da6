/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes come to a pinned capture, and leave it. Purpose: the same functions are hooked in another process
 * that runs the same files, by links of its own. The caller holds the lock for changes.
 */
#ifndef SCOPETRACE_COMMAND_PINNED_ADD_H
#define SCOPETRACE_COMMAND_PINNED_ADD_H

#include <sys/types.h>

#include "probe/pinned.h"

/* 0, or with the failure said, and nothing changed: -ESRCH, -EEXIST, -ENOENT it runs none of the files,
 * -EPERM the hooks as they are could kill it. */
int pinned_add(const struct pinned *pinned, pid_t pid);

/* One that is in it, and whose links the kernel takes to be of a thread that has ended: its functions are
 * hooked anew as far as it still runs the files, and those links are removed. 0 or -errno, said. */
int pinned_add_again(const struct pinned *pinned, pid_t pid);

/* What it has open gets 200 ms to return. 0, -ENOENT (said) it was not in it, or
 * -errno (said). */
int pinned_take_out(const struct pinned *pinned, pid_t pid);

#endif
