/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a module_list grows. Purpose: shared by the two ways to fill one (of a process, of a binary);
 * not for others.
 */
#ifndef SCOPETRACE_PROGRAM_MODULE_LIST_H
#define SCOPETRACE_PROGRAM_MODULE_LIST_H

#include "program/module.h"

struct module_file {
	const char *path;
	const char *probe_path;
	uint64_t device;
	uint64_t inode;
	bool is_main;
};

/* Copies the strings; a file that is in the list already is left as it is. 0 or -ENOMEM. */
int module_list_add(struct module_list *list, const struct module_file *file);

#endif
