// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/directory.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "bpf/scope_event.h"
#include "pinned/names.h"

#define BPF_ROOT "/sys/fs/bpf"
/* the kernel may take long to close what another command removes */
#define CHANGES_NS 15000000000ull
#define SAY_NS	   200000000ull

static const char *const folders[] = {PROBE_OBJECT_PROGRAMS, PROBE_OBJECT_MAPS, PIN_LINKS};

/* DIR/FOLDER/NAME, the last two perhaps NULL. 0 or -ENAMETOOLONG (logged). */
static int join(char path[PATH_MAX], const char *dir, const char *folder, const char *name)
{
	int length = snprintf(path, PATH_MAX, "%s%s%s%s%s", dir, folder ? "/" : "",
			      folder ? folder : "", name ? "/" : "", name ? name : "");

	if (length < PATH_MAX)
		return 0;
	log_error("the path of %s is too long", dir);
	return -ENAMETOOLONG;
}

/* ---- the directory ---- */

static bool is_bpffs(const char *path)
{
	struct statfs status;

	return statfs(path, &status) == 0 && status.f_type == BPF_FS_MAGIC;
}

static bool is_below(const char *path, const char *root)
{
	size_t length = strlen(root);

	return strncmp(path, root, length) == 0 && (path[length] == '/' || !path[length]);
}

static int mount_root(const char *dir)
{
	if (!is_below(dir, BPF_ROOT) || is_bpffs(BPF_ROOT))
		return 0;
	if (mount("bpf", BPF_ROOT, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755")) {
		log_error("cannot mount a BPF file system on " BPF_ROOT
			  ": %s; run it as root, or `mount -t bpf bpf " BPF_ROOT "`",
			  strerror(errno));
		return -errno;
	}
	log_info("mounted a BPF file system on " BPF_ROOT);
	return 0;
}

static const char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* The part that is not there: of a path that begins with one that is. */
static void say_no_parent(const char *dir)
{
	char path[PATH_MAX], *slash;

	if (join(path, dir, NULL, NULL))
		return;
	slash = strrchr(path, '/');
	if (slash)
		*slash = '\0';
	log_error("cannot make the directory %s: %s is not there; make it first (`mkdir -p %s`)",
		  dir, path, path);
}

/* The last directory alone: detach could not tell which of those above were ours. */
static int make_last(const char *dir)
{
	char path[PATH_MAX];
	size_t length;
	int err = join(path, dir, NULL, NULL);

	for (length = strlen(path); !err && length > 1 && path[length - 1] == '/'; length--)
		path[length - 1] = '\0';
	if (err || mkdir(path, 0700) == 0 || errno == EEXIST)
		return err;
	err = -errno;
	if (err == -ENOENT)
		say_no_parent(path);
	else if (err == -EPERM && strchr(name_of(path), '.'))
		log_error("cannot make the directory %s: a BPF file system allows no dots in names",
			  dir);
	else
		log_error("cannot make the directory %s: %s", dir, strerror(-err));
	return err;
}

/* The first part of the path that is there. */
static bool lies_in_bpffs(const char *dir)
{
	char path[PATH_MAX], *slash;

	if (join(path, dir, NULL, NULL))
		return false;
	while (access(path, F_OK)) {
		slash = strrchr(path, '/');
		if (!slash || slash == path)
			return is_bpffs(slash ? "/" : ".");
		*slash = '\0';
	}
	return is_bpffs(path);
}

int pin_make_directory(const char *dir)
{
	char path[PATH_MAX];
	int err = mount_root(dir);

	if (!err && !lies_in_bpffs(dir)) {
		log_error(
			"%s does not lie in a BPF file system, where alone a capture can be pinned: choose "
			"a directory below " BPF_ROOT,
			dir);
		err = -EINVAL;
	}
	if (!err)
		err = make_last(dir);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && !err; i++) {
		err = join(path, dir, folders[i], NULL);
		if (!err && mkdir(path, 0700) && errno != EEXIST) {
			err = -errno;
			log_error("cannot make the directory %s: %s", path, strerror(errno));
		}
	}
	return err;
}

static bool is_there(const char *dir, const char *folder, const char *name)
{
	char path[PATH_MAX];

	return !join(path, dir, folder, name) && access(path, F_OK) == 0;
}

bool pin_is_loaded(const char *dir)
{
	return is_there(dir, PROBE_OBJECT_MAPS, "settings");
}

static bool is_empty_folder(const char *dir, const char *folder)
{
	struct pin_names names;
	bool empty = !pin_names_read(dir, folder, &names) && !names.count;

	pin_names_clear(&names);
	return empty;
}

bool pin_is_empty(const char *dir)
{
	return is_empty_folder(dir, PROBE_OBJECT_PROGRAMS) &&
	       is_empty_folder(dir, PROBE_OBJECT_MAPS);
}

bool pin_has_programs_alone(const char *dir)
{
	return !is_empty_folder(dir, PROBE_OBJECT_PROGRAMS) &&
	       is_empty_folder(dir, PROBE_OBJECT_MAPS);
}

/*
 * Whoever removes a directory holds its lock until then: who gets it next may have one that is
 * gone.
 */
static bool is_still_there(int fd, const char *path)
{
	struct stat held, named;

	return !fstat(fd, &held) && !stat(path, &named) && held.st_ino == named.st_ino &&
	       held.st_dev == named.st_dev;
}

static int lock(const char *dir, const char *folder, int how)
{
	char path[PATH_MAX];
	int err = join(path, dir, folder, NULL), fd;

	if (err)
		return err;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		if (err != -ENOENT)
			log_error("cannot open %s: %s", path, strerror(errno));
		return err;
	}
	if (flock(fd, how | LOCK_NB))
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	else if (!is_still_there(fd, path))
		err = -ESTALE;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int pin_lock_changes(const char *dir)
{
	return lock(dir, PIN_LINKS, LOCK_EX);
}

int pin_wait_changes(const char *dir)
{
	uint64_t begin = io_now_ns();
	bool said = false;
	int fd;

	while (((fd = pin_lock_changes(dir)) == -EBUSY || fd == -ESTALE) &&
	       io_now_ns() - begin < CHANGES_NS) {
		if (!said && io_now_ns() - begin > SAY_NS) {
			log_info("waiting for another command that is just changing %s", dir);
			said = true;
		}
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
	if (fd == -EBUSY || fd == -ESTALE)
		log_error("another command is still changing %s: try again", dir);
	return fd;
}

int pin_lock_drain(const char *dir)
{
	return lock(dir, NULL, LOCK_EX);
}

bool pin_is_drained(const char *dir)
{
	int fd = lock(dir, NULL, LOCK_SH);

	if (fd >= 0)
		close(fd);
	return fd == -EBUSY;
}

uint64_t pin_settings_inode(const char *dir)
{
	char path[PATH_MAX];
	struct stat status;

	return join(path, dir, PROBE_OBJECT_MAPS, "settings") || stat(path, &status)
		       ? 0
		       : status.st_ino;
}

int pin_open_settings(const char *dir)
{
	char path[PATH_MAX];
	int err = join(path, dir, PROBE_OBJECT_MAPS, "settings");

	return err ? err : bpf_obj_get(path);
}

/* ---- programs and maps ---- */

struct opening {
	const char *dir;
	bool quiet;
};

static int open_pin(void *context, const char *kind, const char *name)
{
	const struct opening *opening = context;
	const char *dir = opening->dir;
	char path[PATH_MAX];
	int err = join(path, dir, kind, name), fd;

	if (err)
		return err;
	fd = bpf_obj_get(path);
	/* A drainer may read most of the maps, and no more. */
	if (fd == -EACCES) {
		LIBBPF_OPTS(bpf_obj_get_opts, options, .file_flags = BPF_F_RDONLY);

		fd = bpf_obj_get_opts(path, &options);
	}
	if (fd >= 0 || opening->quiet)
		return fd;
	if (fd == -ENOENT)
		log_error(
			"%s is not there: nothing of this scopetrace is pinned in %s, or only a part of it; "
			"`scopetrace detach --pin %s` removes what there is",
			path, dir, dir);
	else
		log_error("cannot open %s: %s", path, strerror(-fd));
	return fd;
}

struct probe_object *pin_open(const char *dir, bool with_programs)
{
	struct opening opening = {dir, false};

	return probe_object_adopt(open_pin, &opening, with_programs);
}

struct probe_object *pin_open_quietly(const char *dir)
{
	struct opening opening = {dir, true};

	return probe_object_adopt(open_pin, &opening, false);
}

static int pin_one(const char *dir, const char *folder, const char *name, int fd)
{
	char path[PATH_MAX];
	int err = join(path, dir, folder, name);

	if (!err)
		err = bpf_obj_pin(fd, path);
	if (err)
		log_error("cannot pin %s: %s", path, strerror(-err));
	return err;
}

static int pin_visited(void *context, const char *kind, const char *name, int fd)
{
	return pin_one(context, kind, name, fd);
}

int pin_object(const char *dir, const struct probe_object *object)
{
	return probe_object_visit(object, pin_visited, (void *)dir);
}

int pin_link(const char *dir, const char *name, int fd)
{
	return pin_one(dir, PIN_LINKS, name, fd);
}

static int check_entries(const char *dir, const char *map, int fd, size_t wanted)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);

	if (bpf_map_get_info_by_fd(fd, &info, &length)) {
		log_error("cannot look at the map %s in %s: %s", map, dir, strerror(errno));
		return -errno;
	}
	if (info.max_entries >= wanted)
		return 0;
	log_error(
		"the map %s in %s has %u entries, and %zu are needed: make it larger, or leave it to `bpftool prog "
		"loadall`",
		map, dir, info.max_entries, wanted);
	return -E2BIG;
}

int pin_check_room(const char *dir, const struct probe_object *object,
		   const struct probe_object_options *options)
{
	const struct {
		const char *map;
		size_t entries;
	} needs[] = {{"functions", options->function_count},
		     {"counters", options->function_count},
		     {"exit_sites", options->exit_count},
		     {"near_scopes", NEAR_SCOPES}};
	int err = 0;

	for (size_t i = 0; i < sizeof(needs) / sizeof(*needs) && !err; i++)
		err = check_entries(dir, needs[i].map, probe_object_map(object, needs[i].map),
				    needs[i].entries);
	return err;
}

int pin_link_of_file(const char *dir, const char *name, const struct pin_file *file, int fd)
{
	char full[128];

	snprintf(full, sizeof(full), "%s" PIN_LINK_FILE, name, file->device, file->inode);
	return pin_link(dir, full, fd);
}

uint64_t pin_recursion_misses(const char *dir)
{
	struct pin_names names;
	char path[PATH_MAX];
	uint64_t misses = 0;

	if (pin_names_read(dir, PROBE_OBJECT_PROGRAMS, &names))
		names.count = 0;
	for (size_t i = 0; i < names.count; i++) {
		struct bpf_prog_info info = {0};
		uint32_t length = sizeof(info);
		int fd = join(path, dir, PROBE_OBJECT_PROGRAMS, names.items[i]) ? -1
										: bpf_obj_get(path);

		if (fd < 0)
			continue;
		if (!bpf_prog_get_info_by_fd(fd, &info, &length))
			misses += info.recursion_misses;
		close(fd);
	}
	pin_names_clear(&names);
	return misses;
}

/* ---- removing ---- */

/* By programs and maps that no other object has; some may have been removed by hand. */
static bool has_ours(const char *dir)
{
	static const char *const programs[] = {"scope_entry", "scope_entry_by_exit", "scope_exit",
					       "scope_return", "scope_instant"};
	static const char *const maps[] = {"open_scopes", "exit_sites", "near_scopes"};

	if (is_there(dir, PIN_LINKS, NULL))
		return true;
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++)
		if (is_there(dir, PROBE_OBJECT_PROGRAMS, programs[i]))
			return true;
	for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
		if (is_there(dir, PROBE_OBJECT_MAPS, maps[i]))
			return true;
	return false;
}

static bool is_empty(const char *dir)
{
	struct pin_names names;
	bool empty = !pin_names_read(dir, ".", &names) && !names.count;

	pin_names_clear(&names);
	return empty;
}

bool pin_is_ours(const char *dir)
{
	if (!is_bpffs(dir))
		log_error(
			"%s does not lie in a BPF file system: no capture is pinned there, and nothing is removed",
			dir);
	else if (!has_ours(dir) && !is_empty(dir))
		log_error("nothing of scopetrace is pinned in %s, and nothing is removed", dir);
	else
		return true;
	return false;
}

static int remove_entry(const char *path, bool is_folder)
{
	if ((is_folder ? rmdir(path) : unlink(path)) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTEMPTY || errno == EISDIR) {
		log_warning(errno == EISDIR ? "%s is a directory, which is not ours, and stays"
					    : "%s holds other things as well, and stays",
			    path);
		return 0;
	}
	log_error("cannot remove %s: %s", path, strerror(errno));
	return -errno;
}

/* All programs, or maps, of a folder: also those that an older build had. */
static int remove_folder(const char *dir, const char *folder)
{
	char path[PATH_MAX];
	struct pin_names names;
	int err = pin_names_read(dir, folder, &names);

	for (size_t i = 0; i < names.count && !err; i++) {
		err = join(path, dir, folder, names.items[i]);
		if (!err)
			err = remove_entry(path, false);
	}
	pin_names_clear(&names);
	if (!err)
		err = join(path, dir, folder, NULL);
	return err ? err : remove_entry(path, true);
}

int pin_remove(const char *dir)
{
	int err = pin_remove_links(dir, NULL, NULL);

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && !err; i++)
		err = remove_folder(dir, folders[i]);
	return err ? err : remove_entry(dir, true);
}

void pin_remove_made(const char *dir, bool dir_too)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		if (!join(path, dir, folders[i], NULL))
			rmdir(path);
	if (dir_too)
		rmdir(dir);
}

/* ---- rights ---- */

static int give(const char *path, gid_t group, mode_t mode)
{
	if (chown(path, (uid_t)-1, group) == 0 && chmod(path, mode) == 0)
		return 0;
	log_error("cannot give %s to the group: %s", path, strerror(errno));
	return -errno;
}

/*
 * The kernel asks the rights to the file when a map is opened. A drainer moves its position in the
 * ring and reads the rest; but what is mapped must be open for writing. A directory can be locked
 * by who may read it.
 */
static bool is_mapped(const char *map)
{
	return strcmp(map, "events") == 0 || strcmp(map, "near_scopes") == 0;
}

/* systemd mounts /sys/fs/bpf so that only root can enter it. */
static void say_closed_parents(const char *dir, gid_t group)
{
	char path[PATH_MAX], *slash;
	struct stat status;

	if (join(path, dir, NULL, NULL))
		return;
	while ((slash = strrchr(path, '/')) && slash != path) {
		*slash = '\0';
		if (stat(path, &status) || status.st_mode & S_IXOTH ||
		    (status.st_gid == group && status.st_mode & S_IXGRP))
			continue;
		log_warning("the group cannot enter %s: `chmod o+x %s` lets it", path, path);
	}
}

void pin_close_to_others(const char *dir)
{
	struct stat status;

	if (!stat(dir, &status) && !(status.st_mode & 077))
		return;
	if (chmod(dir, 0700))
		log_warning(
			"cannot close %s to others, who can hold up its drainer and its end: %s",
			dir, strerror(errno));
}

int pin_give_group(const char *dir, gid_t group)
{
	struct pin_names names;
	char path[PATH_MAX];
	int err = pin_names_read(dir, PROBE_OBJECT_MAPS, &names);

	for (size_t i = 0; i < names.count && !err; i++) {
		err = join(path, dir, PROBE_OBJECT_MAPS, names.items[i]);
		if (!err)
			err = give(path, group, is_mapped(names.items[i]) ? 0660 : 0640);
	}
	pin_names_clear(&names);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders) && !err; i++) {
		err = join(path, dir, folders[i], NULL);
		if (!err)
			err = give(path, group, 0750);
	}
	if (!err)
		err = give(dir, group, 0750);
	if (!err)
		say_closed_parents(dir, group);
	return err;
}
