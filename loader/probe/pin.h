/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The directory of a pinned capture in a BPF file system: DIR/progs and DIR/maps as `bpftool prog loadall ...
 * pinmaps` makes them, DIR/links for our links. Purpose: what is pinned stands without a process. Owner: the
 * command that has it open; one command changes it at a time (a lock on DIR/links), and one drains it (a lock
 * on DIR).
 */
#ifndef SCOPETRACE_PROBE_PIN_H
#define SCOPETRACE_PROBE_PIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/object.h"

#define PIN_LINKS "links"

/* Mounts /sys/fs/bpf if DIR lies there and it is no BPF file system yet (said); makes DIR, but
 * none above it, and its folders, as far as they are not there. 0 or -errno (said). */
int pin_make_directory(const char *dir);

/* True if programs and maps are pinned there: another loader, or bpftool, has loaded them. */
bool pin_is_loaded(const char *dir);

/* True if no program or map is. */
bool pin_is_empty(const char *dir);

/* True if programs are, and no map: bpftool had no `pinmaps`. */
bool pin_has_programs_alone(const char *dir);

/* What is pinned there, opened. NULL with errno (said): ENOENT nothing is, EACCES, EPROTO of another build.
 */
struct probe_object *pin_open(const char *dir, bool with_programs);

/* The maps alone, and nothing is said if some are not there. */
struct probe_object *pin_open_quietly(const char *dir);

/* Pins all programs and maps. 0 or -errno (said). */
int pin_object(const char *dir, const struct probe_object *object);

/* Pins a link as DIR/links/NAME. 0 or -errno (said). */
int pin_link(const char *dir, const char *name, int fd);

/* Whoever loads maps chooses how many entries they have: 0 if these are enough, or -errno (said). */
int pin_check_room(const char *dir, const struct probe_object *object,
		   const struct probe_object_options *options);

/*
 * Holds off others: -EBUSY if another command (pin_lock_changes) or another drainer (pin_lock_drain) is at
 * work, -ESTALE if what was locked has just been removed, -ENOENT; these are not said. A lock goes with its
 * holder, however that ends. fd or -errno.
 */
int pin_lock_changes(const char *dir);
int pin_lock_drain(const char *dir);

/* pin_lock_changes when the other command is done, or -EBUSY or -ESTALE (said) after some seconds. */
int pin_wait_changes(const char *dir);

/* True if a drainer is at work. Asks by a shared lock, so that those who ask do not take each other for one.
 */
bool pin_is_drained(const char *dir);

/* What tells the settings that are pinned there from others pinned under the same name later; 0: there are
 * none. */
uint64_t pin_settings_inode(const char *dir);

/* These alone, where the rest may be gone: fd or -errno, not said. */
int pin_open_settings(const char *dir);

/* One pinned link. */
struct pin_link {
	char *name;
	uint32_t id;
	uint32_t program; /* id */
	bool is_hook;	  /* of uprobe_multi; else one that follows threads */
	bool is_return;
	pid_t pid; /* hook: whose; 0: it has ended */
	char *path;
	uint32_t count; /* hook: places */
	unsigned long *offsets;
	unsigned long long *cookies;
};

struct pin_links {
	struct pin_link *items;
	size_t count;
	size_t unseen; /* that we may not look at */
};

/* 0 or -errno (said); pin_links_clear in any case. Links that cannot be opened are passed over. */
int pin_links_read(const char *dir, struct pin_links *links);
void pin_links_clear(struct pin_links *links);

/* True if one of the links that we may look at is to the process that has this id now. */
bool pin_is_hooked(const char *dir, pid_t pid);

/* The same link to another process, which has its file under `path`: an fd, or -errno (not said). */
int pin_link_again(const struct pin_link *link, pid_t pid, const char *path);

/* Takes the breakpoints out of processes that have inherited them: by links like these, without effect,
 * closed again. 0 or -errno (not said). */
int pin_strip(const char *dir);

/* Unpins the links that `wanted` says, or all if it is NULL, and waits until the kernel has taken them away.
 * 0 or -errno (said). */
int pin_remove_links(const char *dir, bool (*wanted)(void *context, const struct pin_link *link),
		     void *context);

/*
 * Whether DIR may be removed as one of ours: it lies in a BPF file system, and holds our links, one of our
 * programs or maps, or nothing. False is said, with the reason.
 */
bool pin_is_ours(const char *dir);

/*
 * Unpins everything of ours and removes the folders and DIR; what else lies there stays, and is said. Takes a
 * DIR that has only a part of it. 0 or -errno (said).
 */
int pin_remove(const char *dir);

/* Removes the folders, DIR too if `dir_too`, as far as they are empty: what pin_make_directory made. */
void pin_remove_made(const char *dir, bool dir_too);

/* Nobody but its owner enters DIR, nor locks it. */
void pin_close_to_others(const char *dir);

/* Gives everything to the group, which may then drain and look, and change no setting. 0 or -errno (said). */
int pin_give_group(const char *dir, gid_t group);

#endif
