/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that the drainers of one pinned capture left, read as one. */
#ifndef SCOPETRACE_COMMAND_JOINED_H
#define SCOPETRACE_COMMAND_JOINED_H

#include "timeline/timeline.h"

/* As timeline_open(); what the files share is told once. */
struct timeline *joined_open(char *const *paths, size_t count);

#endif
