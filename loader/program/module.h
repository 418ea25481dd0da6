/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The files whose code a process runs. Purpose: from /proc/PID/maps (or a binary and ld.so's list)
 * to files that can be read and probed, whatever happened to their paths since.
 */
#ifndef SCOPETRACE_PROGRAM_MODULE_H
#define SCOPETRACE_PROGRAM_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct module {
	char *path; /* as the process knows it, " (deleted)" taken off; for people */
	char *base; /* its base name: what LIB: matches and the report shows */
	/*
	 * to open and probe it by: /proc/PID/exe, /proc/PID/map_files/A-B, the path; once it is
	 * kept open, by that descriptor
	 */
	char *probe_path;
	uint64_t device;
	uint64_t inode;
	bool is_main; /* the program itself */
	/* the C library (libc, ld.so, libpthread ..., not libm): searched only when named */
	bool is_libc;
	int kept_fd; /* O_PATH; -1: it is not kept open */
	/* of the file, when the module was listed */
	bool is_stamped;
	off_t size;
	struct timespec modified;
};

struct module_list {
	struct module *items;
	size_t count;
	bool is_incomplete; /* some file could not be found or reached, which was logged */
	/* a process: has executable memory that is of no file, as compilers at run time make */
	bool makes_code;
};

/*
 * 0, or with the failure logged -ESRCH, -EACCES, -ENOMEM. One entry per file (device, inode) with
 * executable mappings.
 */
int module_list_of_process(pid_t pid, struct module_list *list);

/*
 * The same for a second look: that the process has ended, or cannot be read, is
 * not logged.
 */
int module_list_read(pid_t pid, struct module_list *list);

/*
 * The program at `path` (looked for in PATH if it has no slash), its interpreter and the libraries
 * that ld.so --list names. 0, or with the failure logged -ENOENT, -EACCES, -ENOEXEC, -ENOMEM.
 */
int module_list_of_binary(const char *path, struct module_list *list);
void module_list_close(struct module_list *list);

/* The module of this file, or NULL. */
const struct module *module_list_find(const struct module_list *list, uint64_t device,
				      uint64_t inode);

/*
 * Keeps the file open, for as long as the list is: its path may come to mean another file, by an
 * exec in the process or a new file in its place. From then on probe_path is of that descriptor,
 * and for this process alone. 0, also if it is kept open already; -ESTALE if the path means another file
 * by now; or -errno.
 */
int module_keep_open(struct module *module);

#endif
