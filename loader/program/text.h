/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code of a process as it stands in its memory. Purpose: to compare with the file, since the kernel
 * runs the file's instruction under a probe, and to see whether a probe is there. Owner: one look; one
 * thread. Reads what is mapped at the moment of text_open.
 */
#ifndef SCOPETRACE_PROGRAM_TEXT_H
#define SCOPETRACE_PROGRAM_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "program/module.h"

/* What stands where a piece of a file is mapped as code; with several mappings the gravest. */
enum text_state {
	TEXT_UNMAPPED = 0, /* it is not mapped, or cannot be read */
	TEXT_PROBED,	   /* a breakpoint, or the call that the kernel makes of a nop5 */
	TEXT_AS_FILE,	   /* the bytes of the file */
	TEXT_CHANGED,	   /* others: patched, relocated, unpacked */
};

struct text_mapping;

struct text {
	int memory;
	struct text_mapping *mappings; /* executable ones of files */
	size_t count;
	size_t capacity;
	const struct module *module; /* whose file is open, and read, just now */
	int file;
};

/* 0, -ESRCH, -EACCES, -ENOMEM. text_close in any case. */
int text_open(pid_t pid, struct text *text);
void text_close(struct text *text);

/*
 * Looks at the instruction at `offset` of the module's file. A breakpoint counts as a probe, whoever's it
 * is. Cheap for functions of one module in a row.
 */
enum text_state text_look(struct text *text, const struct module *module, uint64_t offset);

#endif
