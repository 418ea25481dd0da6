/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Several files of one capture as a single file. Purpose: what its drainers left one after another
 * is read as if one had written it, each record once (scope_file_join.h). The whole file is a
 * temporary one without a name (io_open_unnamed()), as large as its parts.
 */
#ifndef SCOPETRACE_FILE_CONCAT_H
#define SCOPETRACE_FILE_CONCAT_H

#include <stddef.h>

/*
 * Joins the files, in whatever order they are given. The fd of the whole, or -errno (logged): as
 * scope_file_join_create() has it, or of the temporary file. *missing is NULL, or tells (to be
 * freed) what none of them has: a part of the kernel's ring between two of them, or what the last
 * one was cut short of.
 */
int scope_file_concat(const char *const *paths, size_t count, char **missing);

#endif
