/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the links of a session stand. Purpose: the same links can be made again, for a process that
 * the kernel has lost sight of, or empty, for what others have inherited. Owner: a probe session.
 * The files are held open: their paths may mean another file by then. Any thread.
 */
#ifndef SCOPETRACE_PROBE_SITE_H
#define SCOPETRACE_PROBE_SITE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What a link of uprobe_multi is made of. */
struct site_link {
	int program; /* fd */
	pid_t pid;
	const char *path;
	const unsigned long *offsets;
	const unsigned long long *cookies; /* __u64, as the kernel's headers have it */
	size_t count;
	uint32_t flags; /* of uprobe_multi */
};

/* fd of the link, or -errno. */
int site_link_make(const struct site_link *link);

struct site; /* a link's, with its own copy of it */

struct sites {
	pthread_mutex_t lock;
	struct site *items;
	size_t count;
	size_t capacity;
};

void sites_init(struct sites *sites);
void sites_clear(struct sites *sites); /* closes no link */

/* Keeps what the link `fd` is made of. 0, -ENOMEM, or -errno of the file. */
int sites_keep(struct sites *sites, int fd, const struct site_link *link);
void sites_drop(struct sites *sites, int fd); /* before it is closed */

/*
 * Makes all links anew, of that generation, in their old order and under their old fds. The old
 * ones are appended to *old, malloc'ed, under fds of their own: closing them takes time. Those of
 * processes that have ended stay. 0, or -errno if another could not be made; all that could are.
 */
int sites_renew(struct sites *sites, uint32_t generation, int **old, size_t *count);

/*
 * Makes links on all places, of our own process and without effect, and closes them: of a place
 * from which a link goes, the kernel removes the breakpoints of all processes that no other link
 * wants. Takes some tens of ms. 0 or -errno.
 */
int sites_strip(struct sites *sites);

/* True if the program that process `pid` runs is one of the files; false, too, if it has ended. */
bool sites_have_program_of(struct sites *sites, pid_t pid);

#endif
