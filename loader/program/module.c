// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/module.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "program/module_list.h"
#include "program/name.h"
#include "program/process.h"

/* ---- one module ---- */

/* With their versions, as other projects have a libutil or a librt, too. */
static bool is_c_library(const char *base)
{
	static const char *const patterns[] = {
		"libc.so*",    "libc-2.*",    "libc.musl-*", "ld-linux*",	"ld64.so*",
		"ld-2.*",      "ld.so.1",     "ld-musl-*",   "libpthread.so.0", "libpthread-2.*",
		"librt.so.1",  "librt-2.*",   "libdl.so.2",  "libdl-2.*",	"libutil.so.1",
		"libutil-2.*", "linux-vdso*", NULL,
	};

	return name_matches_any(patterns, base);
}

const struct module *module_list_find(const struct module_list *list, uint64_t device,
				      uint64_t inode)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].device == device && list->items[i].inode == inode)
			return &list->items[i];
	}
	return NULL;
}

/* What tells later that the file has been written to. */
static void module_stamp(struct module *module, const char *path)
{
	struct stat status;

	module->is_stamped = !stat(path, &status);
	if (!module->is_stamped)
		return;
	module->size = status.st_size;
	module->modified = status.st_mtim;
}

int module_list_add(struct module_list *list, const struct module_file *file)
{
	struct module *grown;
	struct module module = {
		.device = file->device,
		.inode = file->inode,
		.is_main = file->is_main,
		.kept_fd = -1,
	};

	if (module_list_find(list, file->device, file->inode))
		return 0;
	grown = realloc(list->items, (list->count + 1) * sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	list->items = grown;
	module_stamp(&module, file->probe_path);
	module.path = strdup(file->path);
	module.base = strdup(basename(file->path));
	module.probe_path = strdup(file->probe_path);
	module.is_libc = module.base && !file->is_main && is_c_library(module.base);
	list->items[list->count++] = module;
	return module.path && module.base && module.probe_path ? 0 : -ENOMEM;
}

void module_list_close(struct module_list *list)
{
	for (size_t i = 0; i < list->count; i++) {
		free(list->items[i].path);
		free(list->items[i].base);
		free(list->items[i].probe_path);
		if (list->items[i].kept_fd >= 0)
			close(list->items[i].kept_fd);
	}
	free(list->items);
	*list = (struct module_list){0};
}

static int open_same_file(const struct module *module)
{
	int fd = open(module->probe_path, O_PATH | O_CLOEXEC), err = 0;
	struct stat status;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &status))
		err = -errno;
	else if (status.st_dev != module->device || status.st_ino != module->inode)
		err = -ESTALE;
	if (err)
		close(fd);
	return err ? err : fd;
}

int module_keep_open(struct module *module)
{
	char *path;
	int fd;

	if (module->kept_fd >= 0)
		return 0;
	fd = open_same_file(module);
	if (fd < 0)
		return fd;
	if (asprintf(&path, "/proc/self/fd/%d", fd) < 0) {
		close(fd);
		return -ENOMEM;
	}
	free(module->probe_path);
	module->probe_path = path;
	module->kept_fd = fd;
	return 0;
}

/* ---- of a process ---- */

struct mapping {
	uint64_t start;
	uint64_t end;
	uint64_t device;
	uint64_t inode;
	char path[PATH_MAX + 16];
};

/* /proc/PID/maps writes a new line in a path as \012. */
static void path_unescape(char *path)
{
	char *to = path;

	for (const char *from = path; *from; to++) {
		bool escaped = strncmp(from, "\\012", 4) == 0;

		*to = escaped ? '\n' : *from;
		from += escaped ? 4 : 1;
	}
	*to = '\0';
}

static void path_strip_deleted(char *path)
{
	static const char suffix[] = " (deleted)";
	size_t length = strlen(path);

	if (length > sizeof(suffix) - 1 &&
	    strcmp(path + length - (sizeof(suffix) - 1), suffix) == 0)
		path[length - (sizeof(suffix) - 1)] = '\0';
}

/* True for a line that maps a file's code. */
static bool parse_mapping(const char *line, struct mapping *mapping)
{
	unsigned int major_number, minor_number;
	char permissions[5];
	int path = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %" SCNu64 " %n", &mapping->start,
		   &mapping->end, permissions, &major_number, &minor_number, &mapping->inode,
		   &path) != 6)
		return false;
	if (strlen(permissions) != 4 || permissions[2] != 'x' || !mapping->inode || !line[path])
		return false;
	mapping->device = makedev(major_number, minor_number);
	snprintf(mapping->path, sizeof(mapping->path), "%s", line + path);
	path_unescape(mapping->path);
	path_strip_deleted(mapping->path);
	return true;
}

/*
 * True for a line of executable memory without a file. Not what the kernel puts there ([vdso],
 * [uprobes]), nor an executable stack, on which compilers put jumps into the program and nothing
 * else.
 */
static bool is_made_code(const char *line)
{
	char permissions[5] = "";
	uint64_t inode = 1;
	int name = 0;

	if (sscanf(line, "%*x-%*x %4s %*x %*x:%*x %" SCNu64 " %n", permissions, &inode, &name) != 2)
		return false;
	if (permissions[2] != 'x' || inode)
		return false;
	return !line[name] || strncmp(line + name, "[heap]", 6) == 0 ||
	       strncmp(line + name, "[anon:", 6) == 0;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/*
 * Where the mapped file can be opened: through map_files (root), else as the program itself, else
 * by its path as the process sees it, if that is still the same file.
 */
static bool find_probe_path(pid_t tid, const struct mapping *mapping, const struct stat *program,
			    struct module_file *file, char *probe_path, size_t size)
{
	struct stat status;

	snprintf(probe_path, size, "/proc/%d/exe", tid);
	if (program->st_ino == mapping->inode && program->st_dev == mapping->device) {
		status = *program;
	} else {
		snprintf(probe_path, size, "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, tid,
			 mapping->start, mapping->end);
		if (stat(probe_path, &status)) {
			snprintf(probe_path, size, "/proc/%d/root%s", tid, mapping->path);
			if (stat(probe_path, &status) || status.st_ino != mapping->inode)
				return false;
		}
	}
	file->device = status.st_dev;
	file->inode = status.st_ino;
	/*
	 * On a layered file system maps names another device than stat does; two answers of stat
	 * are comparable.
	 */
	file->is_main = program->st_ino && is_same_file(&status, program);
	if (file->is_main)
		snprintf(probe_path, size, "/proc/%d/exe", tid);
	return true;
}

static int add_mapping(pid_t tid, const struct mapping *mapping, const struct stat *program,
		       struct module_list *list)
{
	char probe_path[PATH_MAX + 64];
	struct module_file file = {.path = mapping->path, .probe_path = probe_path};

	if (!find_probe_path(tid, mapping, program, &file, probe_path, sizeof(probe_path))) {
		log_warning(
			"%s is left out: it was replaced or removed since process %d mapped it, "
			"and only root can still reach it",
			mapping->path, tid);
		list->is_incomplete = true;
		return 0;
	}
	return module_list_add(list, &file);
}

static int add_mappings(pid_t tid, char *maps, struct module_list *list)
{
	struct mapping *mapping = malloc(sizeof(*mapping));
	struct stat program = {0};
	char exe[64];
	int err = mapping ? 0 : -ENOMEM;

	snprintf(exe, sizeof(exe), "/proc/%d/exe", tid);
	if (stat(exe, &program))
		program.st_ino = 0;
	for (char *line = maps, *next; *line && !err; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		if (parse_mapping(line, mapping))
			err = add_mapping(tid, mapping, &program, list);
		else if (is_made_code(line))
			list->makes_code = true;
	}
	free(mapping);
	return err;
}

int module_list_read(pid_t pid, struct module_list *list)
{
	char path[64], *maps = NULL;
	size_t length;
	pid_t tid = 0;
	int err;

	*list = (struct module_list){0};
	err = process_live_thread(pid, &tid);
	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	if (!err)
		err = io_read_file(path, &maps, &length);
	if (!err && !length)
		err = -ESRCH;
	if (!err)
		err = add_mappings(tid, maps, list);
	free(maps);
	if (err)
		module_list_close(list);
	return err == -ENOENT ? -ESRCH : err;
}

int module_list_of_process(pid_t pid, struct module_list *list)
{
	int err = module_list_read(pid, list);

	if (err == -ESRCH)
		log_error("process %d has ended", pid);
	else if (err)
		log_error("cannot read what process %d has mapped: %s%s", pid, strerror(-err),
			  err == -EACCES ? "; run scopetrace as its user, or as root (sudo)" : "");
	return err;
}
