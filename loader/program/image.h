/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One ELF file, opened through libdwfl. Purpose: its symbols wherever they are kept (.symtab,
 * .dynsym, a separate debug file, .gnu_debugdata), its bytes and where they lie in the file. One
 * owner. Invariants: addresses are those of the file (st_value), not of a process. The file is read
 * through the descriptor opened first, so that it stays the same file whatever happens to its path.
 * Nothing here is logged: callers know whether a failure matters.
 */
#ifndef SCOPETRACE_PROGRAM_IMAGE_H
#define SCOPETRACE_PROGRAM_IMAGE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/module.h"

/* A PT_LOAD segment that has bytes in the file. */
struct image_segment {
	uint64_t address;
	uint64_t size; /* of its bytes in the file */
	uint64_t offset;
	bool executable;
};

struct image {
	int fd;
	Dwfl *dwfl;
	Dwfl_Module *module;
	Elf *elf; /* the main file; dwfl owns it */
	uint64_t bias;
	uint64_t entry; /* e_entry, 0 if none */
	uint16_t type;	/* ET_EXEC, ET_DYN */
	uint16_t machine;
	bool is_class64;
	struct image_segment *segments;
	size_t segment_count;
};

struct image_symbol {
	const char *name; /* as in the file: with its version, mangled */
	uint64_t address;
	uint64_t size;
	uint8_t type;	 /* STT_... */
	uint8_t binding; /* STB_... */
	bool undefined;	 /* imported */
	bool in_code;	 /* lies in an executable segment (and section, where those are known) */
};

/*
 * 0, -ENOEXEC when it is no ELF program or library, -ESTALE when its path means another file than
 * the module is (if the module has an inode), or -errno of opening it.
 */
int image_open(const struct module *module, struct image *image);
void image_close(struct image *image); /* takes a zeroed one too */

/*
 * Calls visit for each symbol, some of them twice, until it returns non-zero, which it gives back.
 * 0 or that.
 */
int image_each_symbol(struct image *image,
		      int (*visit)(const struct image_symbol *symbol, void *context),
		      void *context);

/* True and *offset when the address has bytes in the file. */
bool image_offset(const struct image *image, uint64_t address, uint64_t *offset);

/* True if the file has a section of this name. */
bool image_has_section(const struct image *image, const char *name);

/* True if ld.so writes into the file's code when it maps it (DT_TEXTREL). */
bool image_has_text_relocations(const struct image *image);

/*
 * True if it names an interpreter (PT_INTERP), copied into `path`; false also when it does not fit.
 */
bool image_interpreter(const struct image *image, char *path, size_t size);

/* True if some function of this source name was inlined, by the debug information. */
bool image_inlines(struct image *image, const char *name);

#endif
