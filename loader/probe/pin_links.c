// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "probe/pin.h"
#include "probe/pin_names.h"
#include "probe/site.h"

#define NO_GENERATION (~0u) /* none that is ever in force: the programs take no notice of such hits */
#define GONE_NS	      10000000000ull /* for the kernel to take links away */

static int link_path(char path[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/" PIN_LINKS "/%s", dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* What a second look at a hook tells, when there is room for its places. 0 or -errno. */
static int read_places(int fd, struct pin_link *link)
{
	struct bpf_link_info info = {0};
	uint32_t length = sizeof(info);
	char path[PATH_MAX] = "";

	link->offsets = calloc(link->count + 1, sizeof(*link->offsets));
	link->cookies = calloc(link->count + 1, sizeof(*link->cookies));
	if (!link->offsets || !link->cookies)
		return -ENOMEM;
	info.uprobe_multi.path = (uintptr_t)path;
	info.uprobe_multi.path_size = sizeof(path);
	info.uprobe_multi.offsets = (uintptr_t)link->offsets;
	info.uprobe_multi.cookies = (uintptr_t)link->cookies;
	info.uprobe_multi.count = link->count;
	if (bpf_obj_get_info_by_fd(fd, &info, &length))
		return -errno;
	link->pid = (pid_t)info.uprobe_multi.pid;
	link->is_return = info.uprobe_multi.flags & BPF_F_UPROBE_MULTI_RETURN;
	link->path = strdup(path);
	return link->path ? 0 : -ENOMEM;
}

static int read_link(int fd, struct pin_link *link)
{
	struct bpf_link_info info = {0};
	uint32_t length = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &length))
		return -errno;
	link->id = info.id;
	link->program = info.prog_id;
	link->is_hook = info.type == BPF_LINK_TYPE_UPROBE_MULTI;
	link->count = link->is_hook ? info.uprobe_multi.count : 0;
	return link->is_hook ? read_places(fd, link) : 0;
}

static void clear_link(struct pin_link *link)
{
	free(link->name);
	free(link->path);
	free(link->offsets);
	free(link->cookies);
}

static int add_link(struct pin_links *links, const char *dir, const char *name)
{
	struct pin_link link = {.name = strdup(name)};
	char path[PATH_MAX];
	int fd = link_path(path, dir, name) ? -ENAMETOOLONG : bpf_obj_get(path);
	size_t capacity = links->count;
	int err = link.name ? 0 : -ENOMEM;

	/* It was removed meanwhile, or is not ours to open. */
	if (fd < 0) {
		free(link.name);
		links->unseen += fd == -EACCES || fd == -EPERM;
		return err;
	}
	if (!err)
		err = read_link(fd, &link);
	close(fd);
	if (!err)
		err = vec_grow(&links->items, &capacity, links->count);
	if (err)
		clear_link(&link);
	else
		links->items[links->count++] = link;
	return err;
}

int pin_links_read(const char *dir, struct pin_links *links)
{
	struct pin_names names;
	int err = pin_names_read(dir, PIN_LINKS, &names);

	*links = (struct pin_links){0};
	for (size_t i = 0; i < names.count && !err; i++)
		err = add_link(links, dir, names.items[i]);
	if (err)
		log_error("cannot read the links in %s/" PIN_LINKS ": %s", dir, strerror(-err));
	pin_names_clear(&names);
	return err;
}

void pin_links_clear(struct pin_links *links)
{
	for (size_t i = 0; i < links->count; i++)
		clear_link(&links->items[i]);
	free(links->items);
	*links = (struct pin_links){0};
}

bool pin_is_hooked(const char *dir, pid_t pid)
{
	struct pin_links links;
	bool hooked = false;

	if (!pin_links_read(dir, &links))
		for (size_t i = 0; i < links.count; i++)
			hooked |= links.items[i].is_hook && links.items[i].pid == pid;
	pin_links_clear(&links);
	return hooked;
}

int pin_link_again(const struct pin_link *link, pid_t pid, const char *path)
{
	const struct site_link again = {
		.program = bpf_prog_get_fd_by_id(link->program),
		.pid = pid,
		.path = path,
		.offsets = link->offsets,
		.cookies = link->cookies,
		.count = link->count,
		.flags = link->is_return ? BPF_F_UPROBE_MULTI_RETURN : 0,
	};
	int fd = again.program < 0 ? again.program : site_link_make(&again);

	if (again.program >= 0)
		close(again.program);
	return fd;
}

/* The place of a return trampoline is that of the entry, which has a link, too. */
static int strip_link(const struct pin_link *link)
{
	struct pin_link empty = *link;
	int fd;

	if (!link->is_hook || link->is_return)
		return 0;
	empty.cookies = calloc(link->count, sizeof(*empty.cookies));
	if (!empty.cookies)
		return -ENOMEM;
	for (uint32_t i = 0; i < link->count; i++)
		empty.cookies[i] = (unsigned long long)NO_GENERATION << 32;
	fd = pin_link_again(&empty, getpid(), link->path);
	free(empty.cookies);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

int pin_strip(const char *dir)
{
	struct pin_links links;
	int err = pin_links_read(dir, &links);

	for (size_t i = 0; i < links.count && !err; i++)
		err = strip_link(&links.items[i]);
	pin_links_clear(&links);
	return err;
}

/* ---- removing ----------------------------------------------------------------------------------------- */

/* The kernel frees what was unpinned a grace period later. */
static void wait_until_gone(const uint32_t *ids, size_t count)
{
	uint64_t deadline = io_now_ns() + GONE_NS;

	for (size_t i = 0; i < count; i++) {
		int fd;

		while ((fd = bpf_link_get_fd_by_id(ids[i])) >= 0 && io_now_ns() < deadline) {
			close(fd);
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		}
		if (fd >= 0)
			close(fd);
	}
}

int pin_remove_links(const char *dir, bool (*wanted)(void *context, const struct pin_link *link),
		     void *context)
{
	struct pin_links links;
	char path[PATH_MAX];
	uint32_t *ids;
	size_t gone = 0;
	int err = pin_links_read(dir, &links);

	ids = calloc(links.count + 1, sizeof(*ids));
	if (!err && !ids)
		err = -ENOMEM;
	for (size_t i = 0; i < links.count && !err; i++) {
		if (wanted && !wanted(context, &links.items[i]))
			continue;
		err = link_path(path, dir, links.items[i].name);
		if (!err && unlink(path) && errno != ENOENT) {
			err = -errno;
			log_error("cannot remove %s: %s", path, strerror(errno));
		}
		if (!err)
			ids[gone++] = links.items[i].id;
	}
	wait_until_gone(ids, gone);
	free(ids);
	pin_links_clear(&links);
	return err;
}
