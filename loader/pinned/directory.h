/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The directory of a pinned capture in a BPF file system: DIR/progs and DIR/maps as `bpftool prog
 * loadall ... pinmaps` makes them, DIR/links for our links. Purpose: what is pinned stands without
 * a process. Owner: the command that has it open; one command changes it at a time (a lock on
 * DIR/links), and one drains it (a lock on DIR).
 */
#ifndef SCOPETRACE_PINNED_DIRECTORY_H
#define SCOPETRACE_PINNED_DIRECTORY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/object.h"

#define PIN_LINKS "links"

/* Mounts /sys/fs/bpf if DIR lies there and it is no BPF file system yet (logged); makes DIR, but
 * none above it, and its folders, as far as they are not there. 0 or -errno (logged). */
int pin_make_directory(const char *dir);

/* True if programs and maps are pinned there: another loader, or bpftool, has loaded them. */
bool pin_is_loaded(const char *dir);

/* True if no program or map is. */
bool pin_is_empty(const char *dir);

/* True if programs are, and no map: bpftool had no `pinmaps`. */
bool pin_has_programs_alone(const char *dir);

/*
 * What is pinned there, opened. NULL with errno (logged): ENOENT nothing is, EACCES, EPROTO of
 * another build.
 */
struct probe_object *pin_open(const char *dir, bool with_programs);

/* The maps alone, and nothing is logged if some are not there. */
struct probe_object *pin_open_quietly(const char *dir);

/* Pins all programs and maps. 0 or -errno (logged). */
int pin_object(const char *dir, const struct probe_object *object);

/* Pins a link as DIR/links/NAME. 0 or -errno (logged). */
int pin_link(const char *dir, const char *name, int fd);

/*
 * Whoever loads maps chooses how many entries they have: 0 if these are enough, or -errno (logged).
 */
int pin_check_room(const char *dir, const struct probe_object *object,
		   const struct probe_object_options *options);

/*
 * Holds off others: -EBUSY if another command (pin_lock_changes) or another drainer
 * (pin_lock_drain) is at work, -ESTALE if what was locked has just been removed, -ENOENT; these are
 * not logged. A lock goes with its holder, however that ends. fd or -errno.
 */
int pin_lock_changes(const char *dir);
int pin_lock_drain(const char *dir);

/*
 * pin_lock_changes when the other command is done, or -EBUSY or -ESTALE (logged) after some seconds.
 */
int pin_wait_changes(const char *dir);

/*
 * True if a drainer is at work. Asks by a shared lock, so that those who ask do not take each other
 * for one.
 */
bool pin_is_drained(const char *dir);

/* What tells the settings that are pinned there from others pinned under the same name later; 0: there are
 * none. */
uint64_t pin_settings_inode(const char *dir);

/* These alone, where the rest may be gone: fd or -errno, not logged. */
int pin_open_settings(const char *dir);

/* What tells a file from others, also when its path means another one by now. */
struct pin_file {
	uint64_t device;
	uint64_t inode;
};

bool pin_file_is(const struct pin_file *a, const struct pin_file *b);

/* One pinned link. */
struct pin_link {
	char *name;
	uint32_t id;
	uint32_t program; /* id */
	bool is_hook;	  /* of uprobe_multi; else one that follows threads */
	bool is_return;
	bool is_told;	/* hook: the kernel tells the rest of it: since Linux 6.8 */
	pid_t pid;	/* hook: whose; 0: it has ended */
	char *path;	/* hook: as the kernel names it, whatever mounts the process sees */
	uint32_t count; /* hook: places */
	unsigned long *offsets;
	unsigned long long *cookies;
	struct pin_file file; /* hook: as its name tells; zero: it does not */
};

struct pin_links {
	struct pin_link *items;
	size_t count;
	size_t unseen; /* that we may not look at */
};

/* 0 or -errno (logged); pin_links_clear in any case. Links that cannot be opened are passed over. */
int pin_links_read(const char *dir, struct pin_links *links);
void pin_links_clear(struct pin_links *links);

/* The process that a hook was made for, by its name; 0: none in particular. */
pid_t pin_link_owner(const struct pin_link *link);

/*
 * False if the kernel does not tell what the hooks among them are to: then none can be made again.
 */
bool pin_links_tell(const struct pin_links *links);

/* The same of what the kernel says of one link. */
struct bpf_link_info;
bool pin_info_tells(const struct bpf_link_info *info);

/*
 * The file of a hook, by a path that we can open, also where other mounts are seen: that of its
 * process, or of one of these others, or else ours. False if there is none, or it is not the one
 * that the name tells.
 */
bool pin_link_file(const struct pin_link *link, const uint32_t *others, size_t count,
		   char path[PATH_MAX], struct pin_file *file);

/* True if one of the links that we may look at is to the process that has this id now. */
bool pin_is_hooked(const char *dir, pid_t pid);

/*
 * The same link to another process, which has its file under `path`: an fd, or -errno (not logged).
 */
int pin_link_again(const struct pin_link *link, pid_t pid, const char *path);

/* The same link in force nowhere: to a process that has ended. An fd, or -errno (not logged). */
int pin_link_idle(const struct pin_link *link, const char *path);

/* Pins one as DIR/links/NAME with what tells its file. 0 or -errno (logged). */
int pin_link_of_file(const char *dir, const char *name, const struct pin_file *file, int fd);

/* Takes the breakpoints out of these processes, which have inherited them: by links like those in DIR,
 * without effect, closed again. 0 or -errno (not logged). */
int pin_strip(const char *dir, const uint32_t *heirs, size_t count);

/* Unpins the links that `wanted` says, or all if it is NULL, and waits until the kernel has taken them away.
 * 0 or -errno (logged). */
int pin_remove_links(const char *dir, bool (*wanted)(void *context, const struct pin_link *link),
		     void *context);

/* The kernel's own count of programs that it skipped, summed over those that are pinned there and that we may
 * look at. */
uint64_t pin_recursion_misses(const char *dir);

/*
 * Whether DIR may be removed as one of ours: it lies in a BPF file system, and holds our links, one
 * of our programs or maps, or nothing. False is logged, with the reason.
 */
bool pin_is_ours(const char *dir);

/*
 * Unpins everything of ours and removes the folders and DIR; what else lies there stays, and is
 * logged. Takes a DIR that has only a part of it. 0 or -errno (logged).
 */
int pin_remove(const char *dir);

/*
 * Removes the folders, DIR too if `dir_too`, as far as they are empty: what pin_make_directory
 * made.
 */
void pin_remove_made(const char *dir, bool dir_too);

/* Nobody but its owner enters DIR, nor locks it. */
void pin_close_to_others(const char *dir);

/*
 * Gives everything to the group, which may then drain and look, and change no setting. 0 or -errno
 * (logged).
 */
int pin_give_group(const char *dir, gid_t group);

#endif
