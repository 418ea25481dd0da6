// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "pinned/directory.h"
#include "pinned/names.h"
#include "probe/site.h"

/* none that is ever in force: the programs take no notice of such hits */
#define NO_GENERATION (~0u)
#define GONE_NS	      10000000000ull /* for the kernel to take links away */

static int link_path(char path[PATH_MAX], const char *dir, const char *name)
{
	return snprintf(path, PATH_MAX, "%s/" PIN_LINKS "/%s", dir, name) < PATH_MAX
		       ? 0
		       : -ENAMETOOLONG;
}

/* ---- reading ---- */

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
	link->is_told = pin_info_tells(&info);
	link->count = link->is_hook ? info.uprobe_multi.count : 0;
	return link->is_hook ? read_places(fd, link) : 0;
}

static void read_name(struct pin_link *link)
{
	if (sscanf(link->name, PIN_LINK_FILE_SCAN, &link->file.device, &link->file.inode) != 2)
		link->file = (struct pin_file){0};
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
		read_name(&link);
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

pid_t pin_link_owner(const struct pin_link *link)
{
	return link->is_hook ? (pid_t)strtol(link->name, NULL, 10) : 0;
}

bool pin_file_is(const struct pin_file *a, const struct pin_file *b)
{
	return a->device == b->device && a->inode == b->inode;
}

/* Before Linux 6.8 these fields stay as they were given. */
bool pin_info_tells(const struct bpf_link_info *info)
{
	return info->type != BPF_LINK_TYPE_UPROBE_MULTI || info->uprobe_multi.count;
}

bool pin_links_tell(const struct pin_links *links)
{
	size_t i = 0;

	while (i < links->count && (!links->items[i].is_hook || links->items[i].is_told))
		i++;
	return i == links->count;
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

/* ---- the file of a hook ---- */

/* True if it is there, and is the file that the link's name tells, if that tells one. */
static bool is_file_of(const struct pin_link *link, const char *path, struct pin_file *file)
{
	struct stat status;
	struct pin_file there;

	if (stat(path, &status))
		return false;
	there = (struct pin_file){.device = status.st_dev, .inode = status.st_ino};
	if (link->file.inode && !pin_file_is(&link->file, &there))
		return false;
	*file = there;
	return true;
}

/* The kernel names a mapped file as it names that of a link, whatever mounts the process sees. */
static bool find_mapped(const struct pin_link *link, pid_t pid, char path[PATH_MAX],
			struct pin_file *file)
{
	char folder[64], target[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *maps;

	snprintf(folder, sizeof(folder), "/proc/%d/map_files", pid);
	maps = opendir(folder);
	while (maps && !found && (entry = readdir(maps))) {
		ssize_t length = readlinkat(dirfd(maps), entry->d_name, target, sizeof(target) - 1);

		target[length < 0 ? 0 : length] = '\0';
		if (strcmp(target, link->path) == 0 &&
		    snprintf(path, PATH_MAX, "%s/%s", folder, entry->d_name) < PATH_MAX)
			found = is_file_of(link, path, file);
	}
	if (maps)
		closedir(maps);
	return found;
}

static bool find_of_process(const struct pin_link *link, pid_t pid, char path[PATH_MAX],
			    struct pin_file *file)
{
	return find_mapped(link, pid, path, file) ||
	       (snprintf(path, PATH_MAX, "/proc/%d/root%s", pid, link->path) < PATH_MAX &&
		is_file_of(link, path, file));
}

bool pin_link_file(const struct pin_link *link, const uint32_t *others, size_t count,
		   char path[PATH_MAX], struct pin_file *file)
{
	pid_t owner = link->pid ? link->pid : pin_link_owner(link);

	if (!link->is_told)
		return false;
	if (owner && find_of_process(link, owner, path, file))
		return true;
	for (size_t i = 0; i < count; i++)
		if (find_of_process(link, (pid_t)others[i], path, file))
			return true;
	return snprintf(path, PATH_MAX, "%s", link->path) < PATH_MAX &&
	       is_file_of(link, path, file);
}

/* ---- making them again ---- */

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

/*
 * Of a child that has ended and is not waited for yet: it never runs the file, and then its id is
 * free.
 */
int pin_link_idle(const struct pin_link *link, const char *path)
{
	pid_t child = fork();
	siginfo_t ended;
	int fd;

	if (child == 0)
		_exit(0);
	if (child < 0)
		return -errno;
	while (waitid(P_PID, (id_t)child, &ended, WEXITED | WNOWAIT) && errno == EINTR)
		;
	fd = pin_link_again(link, child, path);
	waitpid(child, NULL, 0);
	return fd;
}

/* The place of a return trampoline is that of the entry, which has a link, too. A file that nobody has any
 * more bears no breakpoints. */
static int strip_link(const struct pin_link *link, const uint32_t *heirs, size_t count)
{
	struct pin_link empty = *link;
	struct pin_file file;
	char path[PATH_MAX];
	int fd;

	if (!link->is_hook || link->is_return || !pin_link_file(link, heirs, count, path, &file))
		return 0;
	empty.cookies = calloc(link->count, sizeof(*empty.cookies));
	if (!empty.cookies)
		return -ENOMEM;
	for (uint32_t i = 0; i < link->count; i++)
		empty.cookies[i] = (unsigned long long)NO_GENERATION << 32;
	fd = pin_link_again(&empty, getpid(), path);
	free(empty.cookies);
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

int pin_strip(const char *dir, const uint32_t *heirs, size_t count)
{
	struct pin_links links;
	int err = pin_links_read(dir, &links);

	for (size_t i = 0; i < links.count && !err; i++)
		err = strip_link(&links.items[i], heirs, count);
	pin_links_clear(&links);
	return err;
}

/* ---- removing ---- */

struct removed {
	uint32_t id;
	int fd; /* -1: not held */
};

/*
 * The kernel frees what was unpinned a grace period later. Left to itself it first frees the id,
 * and then takes the probes away; but whoever closes the last descriptor of a link has to wait
 * until they are. So the links are held while what was pinned goes.
 */
static void wait_until_gone(const struct removed *removed, size_t count)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t deadline = io_now_ns() + GONE_NS;

	syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
	nanosleep(&pause, NULL);
	for (size_t i = 0; i < count; i++)
		if (removed[i].fd >= 0)
			close(removed[i].fd);
	for (size_t i = 0; i < count; i++) {
		int fd;

		while ((fd = bpf_link_get_fd_by_id(removed[i].id)) >= 0 && io_now_ns() < deadline) {
			if (removed[i].fd < 0)
				close(fd);
			nanosleep(&pause, NULL);
			if (removed[i].fd >= 0)
				close(fd);
		}
		if (fd >= 0)
			close(fd);
	}
}

static int remove_link(const char *dir, const struct pin_link *link, bool hold,
		       struct removed *removed)
{
	char path[PATH_MAX];
	int err = link_path(path, dir, link->name);

	if (err)
		return err;
	*removed = (struct removed){.id = link->id, .fd = hold ? bpf_obj_get(path) : -1};
	if (!unlink(path) || errno == ENOENT)
		return 0;
	err = -errno;
	log_error("cannot remove %s: %s", path, strerror(errno));
	if (removed->fd >= 0)
		close(removed->fd);
	return err;
}

/* Those of processes that run are not held: the kernel may take long where a return is pending. */
int pin_remove_links(const char *dir, bool (*wanted)(void *context, const struct pin_link *link),
		     void *context)
{
	struct pin_links links;
	struct removed *removed;
	size_t count = 0;
	int err = pin_links_read(dir, &links);

	removed = calloc(links.count + 1, sizeof(*removed));
	if (!err && !removed)
		err = -ENOMEM;
	for (size_t i = 0; i < links.count && !err; i++) {
		if (wanted && !wanted(context, &links.items[i]))
			continue;
		err = remove_link(dir, &links.items[i], wanted && !links.items[i].pid,
				  &removed[count]);
		count += !err;
	}
	if (count)
		wait_until_gone(removed, count);
	free(removed);
	pin_links_clear(&links);
	return err;
}
