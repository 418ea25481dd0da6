// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/site.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"

/* none that is ever in force: the programs take no notice of such hits */
#define NO_GENERATION (~0u)

struct site {
	int fd;
	int file; /* O_PATH */
	struct site_link link;
};

int site_link_make(const struct site_link *link)
{
	LIBBPF_OPTS(bpf_link_create_opts, options);
	int fd;

	options.uprobe_multi.path = link->path;
	options.uprobe_multi.offsets = link->offsets;
	options.uprobe_multi.cookies = link->cookies;
	options.uprobe_multi.cnt = (uint32_t)link->count;
	options.uprobe_multi.pid = (uint32_t)link->pid;
	options.uprobe_multi.flags = link->flags;
	fd = bpf_link_create(link->program, 0, BPF_TRACE_UPROBE_MULTI, &options);
	return fd < 0 ? -errno : fd;
}

/* The same of another process and generation, by the file that is held open. */
static int make_again(const struct site *site, pid_t pid, uint32_t generation)
{
	struct site_link link = site->link;
	unsigned long long *cookies = calloc(link.count, sizeof(*cookies));
	char path[64];
	int fd;

	if (!cookies)
		return -ENOMEM;
	for (size_t i = 0; i < link.count; i++)
		cookies[i] = (unsigned long long)generation << 32 | (uint32_t)link.cookies[i];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", site->file);
	link.path = path;
	link.pid = pid;
	link.cookies = cookies;
	fd = site_link_make(&link);
	free(cookies);
	return fd;
}

/* ---- keeping ---- */

void sites_init(struct sites *sites)
{
	*sites = (struct sites){.lock = PTHREAD_MUTEX_INITIALIZER};
}

static void release(struct site *site)
{
	if (site->file >= 0)
		close(site->file);
	free((void *)site->link.offsets);
	free((void *)site->link.cookies);
}

void sites_clear(struct sites *sites)
{
	for (size_t i = 0; i < sites->count; i++)
		release(&sites->items[i]);
	free(sites->items);
	pthread_mutex_destroy(&sites->lock);
	*sites = (struct sites){0};
}

static void *copy_of(const void *items, size_t size)
{
	void *copy = malloc(size);

	return copy ? memcpy(copy, items, size) : NULL;
}

int sites_keep(struct sites *sites, int fd, const struct site_link *link)
{
	struct site site = {.fd = fd, .file = open(link->path, O_PATH | O_CLOEXEC), .link = *link};
	int err = site.file < 0 ? -errno : 0;

	site.link.path = NULL;
	site.link.offsets = copy_of(link->offsets, link->count * sizeof(*link->offsets));
	site.link.cookies = copy_of(link->cookies, link->count * sizeof(*link->cookies));
	if (!err && (!site.link.offsets || !site.link.cookies))
		err = -ENOMEM;
	pthread_mutex_lock(&sites->lock);
	if (!err)
		err = vec_grow(&sites->items, &sites->capacity, sites->count);
	if (!err)
		sites->items[sites->count++] = site;
	pthread_mutex_unlock(&sites->lock);
	if (err)
		release(&site);
	return err;
}

void sites_drop(struct sites *sites, int fd)
{
	size_t i = 0;

	pthread_mutex_lock(&sites->lock);
	while (i < sites->count && sites->items[i].fd != fd)
		i++;
	if (i < sites->count) {
		release(&sites->items[i]);
		sites->count--;
		memmove(sites->items + i, sites->items + i + 1,
			(sites->count - i) * sizeof(*sites->items));
	}
	pthread_mutex_unlock(&sites->lock);
}

/* ---- making anew ---- */

/*
 * The fd is another link's from now on; an fd of the old one, or -errno with everything as it was.
 */
static int renew(const struct site *site, uint32_t generation)
{
	int link = make_again(site, site->link.pid, generation), old, err = 0;

	if (link < 0)
		return link;
	old = fcntl(site->fd, F_DUPFD_CLOEXEC, 0);
	if (old < 0)
		err = -errno;
	else if (dup3(link, site->fd, O_CLOEXEC) < 0)
		err = -errno;
	close(link);
	if (err && old >= 0)
		close(old);
	return err ? err : old;
}

int sites_renew(struct sites *sites, uint32_t generation, int **old, size_t *count)
{
	int err = 0;

	*count = 0;
	pthread_mutex_lock(&sites->lock);
	*old = calloc(sites->count + 1, sizeof(**old));
	for (size_t i = 0; *old && i < sites->count; i++) {
		int fd = renew(&sites->items[i], generation);

		if (fd >= 0)
			(*old)[(*count)++] = fd;
		else if (fd != -ESRCH)
			err = fd;
	}
	pthread_mutex_unlock(&sites->lock);
	return *old ? err : -ENOMEM;
}

/* ---- stripping ---- */

/*
 * Empty: of our own process, which hardly ever runs these functions, and of a generation that is
 * none.
 */
int sites_strip(struct sites *sites)
{
	size_t count = 0;
	int *links, err = 0;

	pthread_mutex_lock(&sites->lock);
	links = calloc(sites->count + 1, sizeof(*links));
	for (size_t i = 0; links && i < sites->count; i++) {
		/* The place of a return trampoline is that of the entry, which has a link, too. */
		if (sites->items[i].link.flags & BPF_F_UPROBE_MULTI_RETURN)
			continue;
		links[count] = make_again(&sites->items[i], getpid(), NO_GENERATION);
		if (links[count] >= 0)
			count++;
		else
			err = links[count];
	}
	pthread_mutex_unlock(&sites->lock);
	for (size_t i = 0; i < count; i++)
		close(links[i]);
	if (!links)
		return -ENOMEM;
	free(links);
	return err;
}

bool sites_have_program_of(struct sites *sites, pid_t pid)
{
	struct stat program, file;
	bool found = false;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	if (stat(path, &program))
		return false;
	pthread_mutex_lock(&sites->lock);
	for (size_t i = 0; !found && i < sites->count; i++)
		found = !fstat(sites->items[i].file, &file) && file.st_dev == program.st_dev &&
			file.st_ino == program.st_ino;
	pthread_mutex_unlock(&sites->lock);
	return found;
}
