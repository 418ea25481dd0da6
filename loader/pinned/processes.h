/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Processes come to a pinned capture, and leave it. Purpose: the same functions are hooked in
 * another process that runs the same files, by links of its own. The caller holds the lock for
 * changes.
 */
#ifndef SCOPETRACE_PINNED_PROCESSES_H
#define SCOPETRACE_PINNED_PROCESSES_H

#include <sys/types.h>

#include "pinned/directory.h"
#include "pinned/maps.h"

/* 0, or with the failure logged, and nothing changed: -ESRCH, -EEXIST, -ENOENT it runs none of the files,
 * -EPERM the hooks as they are could kill it. */
int pinned_add(const struct pinned *pinned, pid_t pid);

/* What the file of a link is, as long as that can be seen. */
struct pin_known {
	uint32_t link; /* id */
	struct pin_file file;
};

/*
 * One that is in it, and some of whose links the kernel takes to be of a thread that has ended:
 * those of the files that it runs are made anew, the others stay for when it does. What is known of
 * the files tells a new build in an old one's place. 0 or -errno (logged), with nothing lost.
 */
int pinned_add_again(const struct pinned *pinned, pid_t pid, const struct pin_known *known,
		     size_t count);

/* True if there is such a link just now. Wants no lock. */
bool pinned_add_is_due(const struct pin_links *links, pid_t pid, const struct pin_known *known,
		       size_t count);

/*
 * 0, or -EOPNOTSUPP (logged) if the kernel does not tell what the links are to, which `what` needs.
 */
int pinned_refuse_untold(const struct pin_links *links, const char *what);

/* What it has open gets 200 ms to return. 0, -ENOENT (logged) it was not in it, or -errno (logged). */
int pinned_take_out(const struct pinned *pinned, pid_t pid);

#endif
