/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * uprobe_multi links, made as few as go. Purpose: one refused site must not cost all the others.
 * Owner: a probe session; one thread.
 */
#ifndef SCOPETRACE_PROBE_LINK_H
#define SCOPETRACE_PROBE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ENOTSUPP, which the kernel keeps out of its headers: not such an instruction */
#define LINK_REFUSED_SITE 524

struct sites;

struct link_set {
	int *fds;
	size_t count;
	size_t capacity;
	struct sites *sites; /* keeps what they are made of */
};

/* Sites of one binary in one process. */
struct link_sites {
	pid_t pid;
	const char *binary;
	const unsigned long *offsets;
	const unsigned long long *cookies; /* __u64, as the kernel's headers have it */
	int *refused; /* by site: why the kernel takes no probe there, -errno; 0: it does */
	size_t count;
};

/*
 * Links `program` to those sites that are not refused: by one link, or where the kernel refuses a
 * site (and with it the whole link) by as few as go around it; those that it refuses are marked. 0,
 * or -errno of another kind than a site: -ESRCH, -EPERM, -EACCES, -ENOMEM, -EBADF, -ENOENT.
 */
int link_make(struct link_set *links, const struct link_sites *sites, int program, bool is_return);

/*
 * Closes the links from `first` on. Each close waits for a grace period of the kernel; they wait
 * together.
 */
void link_close(struct link_set *links, size_t first);

/* Closes all, frees; `sites` stays. */
void link_clear(struct link_set *links);

#endif
