/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of a process or of a binary. Purpose: names to probe offsets, through elfutils'
 * libdwfl (.symtab, .dynsym, separate debug files, .gnu_debugdata). Owner: the command; const once
 * opened.
 *
 * Invariants: one entry per address; undefined, IFUNC and non-code symbols and .cold parts are not
 * in it. Clones (.constprop.0, .isra.0, .part.0) are functions of their own and answer to their
 * plain name too; a .part only where the plain function itself is not there, else each of its calls
 * would be seen twice. Left out as well: the entry point, setjmp, vfork and the like, whose return
 * cannot be hooked without harm.
 */
#ifndef SCOPETRACE_PROGRAM_SYMBOL_H
#define SCOPETRACE_PROGRAM_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/module.h"

/* What a hit costs, by the instruction under the probe. */
enum probe_cost {
	PROBE_COST_NOP5 = 1, /* optimised by the kernel: cheapest */
	PROBE_COST_EMULATED, /* push, nop, jmp: emulated */
	PROBE_COST_STEPPED,  /* everything else: single-stepped */
	PROBE_COST_REFUSED,  /* no probe may sit there */
};

struct function {
	/* raw; of several aliases the one asked for, else the first global one without _ */
	const char *name;
	const char *demangled; /* C++ or Rust, else equal to name; NULL before symbol_demangle */
	/* of a clone: the raw name in the source, to which it answers too; else NULL */
	const char *plain;
	const char **aliases; /* other raw names at this address, ended by NULL; may be NULL */
	const struct module *module;
	uint64_t address; /* st_value: virtual address in the module's file */
	uint64_t size;	  /* 0 if the symbol has none */
	/* of the address in the module's file: st_value - p_vaddr + p_offset */
	uint64_t file_offset;
	/* where the probe goes: file_offset, or beyond endbr64 and an unsafe nop5 */
	uint64_t probe_offset;
	enum probe_cost cost;
	const char *refused; /* PROBE_COST_REFUSED: what its entry is; a constant text */
	bool is_untyped; /* STT_NOTYPE in an executable section: matched by its exact name only */
};

struct symbol_table {
	struct module_list modules;
	struct function *functions; /* by module, then address */
	size_t count;
	/* some object other than the C library uses fork, clone ...: nop5 sites are unsafe */
	bool may_fork;
	/*
	 * some such object uses execve ...: nop5 sites of libraries are unsafe, as what it goes on
	 * with may fork
	 */
	bool may_exec;
	char fork_evidence[256]; /* of the one, or else of the other */
	void *owned;		 /* names and such */
};

/*
 * The functions of a running process (all its mapped files, read through /proc/PID/exe and
 * map_files, so that deleted, replaced and container binaries work), or of a binary and the
 * libraries it will load (by ld.so --list). With `optimized` probes lie on nop5 sites even where the
 * process may fork. 0, or with the failure logged: -ENOENT, -EACCES,
 * -ENOEXEC (not an ELF file; a script is reported as such), -ESRCH, -ENOMEM.
 */
int symbol_table_of_process(pid_t pid, bool optimized, struct symbol_table *table);
int symbol_table_of_binary(const char *path, bool optimized, struct symbol_table *table);
void symbol_table_close(struct symbol_table *table);

/* The function of this module at exactly this address, or NULL. */
const struct function *symbol_table_find(const struct symbol_table *table,
					 const struct module *module, uint64_t address);

/*
 * Keeps the files open in which these functions lie (those that are not NULL), until the table is
 * closed: what was read of them, and what is probed, stays one file. 0, or -errno, logged: -ESTALE if
 * the process runs another program by now, or a file was replaced.
 */
int symbol_table_keep_open(struct symbol_table *table, const struct function *const *functions,
			   size_t count);

/*
 * Fills in function->demangled, one of table->functions (demangling all of a big program would take
 * seconds). 0 or -ENOMEM.
 */
int symbol_demangle(const struct symbol_table *table, struct function *function);

/*
 * True if some module has an IFUNC of this raw name: calls of it do not go to a function of the
 * name.
 */
bool symbol_is_indirect(const struct symbol_table *table, const char *name);

struct symbol_query {
	const char *name; /* as in the source, for the debug information; NULL: do not look there */
	bool (*matches)(const char *raw, const void *context);
	bool (*searches)(const struct module *module, const void *context);
	const void *context;
};

/*
 * Why a name that is there cannot be hooked: imported (and where it lives), chosen at run time
 * (IFUNC), inlined, only a cold part, data. Reads again the files that query->searches accepts.
 * True and a sentence in `text`, or false when there is no such name.
 */
bool symbol_explain(const struct symbol_table *table, const struct symbol_query *query, char *text,
		    size_t size);

#endif
