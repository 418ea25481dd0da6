// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/link.h"

#include <errno.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/vec.h"
#include "probe/site.h"

#define MAX_CLOSERS 32

struct making {
	struct link_set *links;
	const struct link_sites *sites;
	int program;
	bool is_return;
};

/* fd of a link to `count` sites from `first` on, or -errno. */
static int make_one(const struct making *making, size_t first, size_t count)
{
	const struct link_sites *sites = making->sites;
	const struct site_link link = {
		.program = making->program,
		.pid = sites->pid,
		.path = sites->binary,
		.offsets = sites->offsets + first,
		.cookies = sites->cookies + first,
		.count = count,
		.flags = making->is_return ? BPF_F_UPROBE_MULTI_RETURN : 0,
	};
	int fd = site_link_make(&link),
	    err = fd < 0 ? fd : sites_keep(making->links->sites, fd, &link);

	if (fd >= 0 && err)
		close(fd);
	return err ? err : fd;
}

/*
 * True if the fault may lie in one of the sites rather than in the process, the file or our rights.
 */
static bool may_be_a_site(int err)
{
	return err != -ESRCH && err != -EPERM && err != -EACCES && err != -ENOMEM &&
	       err != -EBADF && err != -ENOENT && err != -EMFILE && err != -ENFILE;
}

static int add(struct link_set *links, int fd)
{
	if (vec_grow(&links->fds, &links->capacity, links->count)) {
		sites_drop(links->sites, fd);
		close(fd);
		return -ENOMEM;
	}
	links->fds[links->count++] = fd;
	return 0;
}

/* Halves what is refused until the sites at fault stand alone. */
static int make_range(const struct making *making, size_t first, size_t count)
{
	int fd = make_one(making, first, count);
	int err;

	if (fd >= 0)
		return add(making->links, fd);
	if (!may_be_a_site(fd))
		return fd;
	if (count == 1) {
		making->sites->refused[first] = fd;
		return 0;
	}
	err = make_range(making, first, count / 2);
	return err ? err : make_range(making, first + count / 2, count - count / 2);
}

int link_make(struct link_set *links, const struct link_sites *sites, int program, bool is_return)
{
	const struct making making = {links, sites, program, is_return};
	size_t first = 0;
	int err = 0;

	for (size_t i = 0; i <= sites->count && !err; i++) {
		if (i < sites->count && !sites->refused[i])
			continue;
		if (i > first)
			err = make_range(&making, first, i - first);
		first = i + 1;
	}
	return err;
}

/* Every `stride`-th link from `first` on. */
struct closer {
	const struct link_set *links;
	size_t first;
	size_t stride;
};

static void *close_some(void *context)
{
	const struct closer *closer = context;

	for (size_t i = closer->first; i < closer->links->count; i += closer->stride)
		close(closer->links->fds[i]);
	return NULL;
}

void link_close(struct link_set *links, size_t first)
{
	size_t count = links->count - first, stride = count < MAX_CLOSERS ? count : MAX_CLOSERS;
	struct closer closers[MAX_CLOSERS];
	pthread_t threads[MAX_CLOSERS];
	bool started[MAX_CLOSERS] = {false};

	for (size_t i = first; i < links->count; i++)
		sites_drop(links->sites, links->fds[i]);
	for (size_t i = 0; i < stride; i++) {
		closers[i] = (struct closer){links, first + i, stride};
		started[i] = !pthread_create(&threads[i], NULL, close_some, &closers[i]);
		if (!started[i])
			close_some(&closers[i]);
	}
	for (size_t i = 0; i < stride; i++)
		if (started[i])
			pthread_join(threads[i], NULL);
	links->count = first;
}

void link_clear(struct link_set *links)
{
	link_close(links, 0);
	free(links->fds);
	*links = (struct link_set){.sites = links->sites};
}
