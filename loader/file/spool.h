/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture from standard input, a pipe or a device, which can be read once. Purpose: a timeline
 * reads its file twice, and a file is made of what is none. Stateless.
 */
#ifndef SCOPETRACE_FILE_SPOOL_H
#define SCOPETRACE_FILE_SPOOL_H

#include "file/reader.h"

/*
 * As scope_file_open() ("-": standard input); what is no regular file is first copied to one
 * without a name. NULL with errno, logged.
 */
struct scope_file *scope_file_open_spooled(const char *path);

#endif
