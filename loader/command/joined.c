// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/joined.h"

#include <errno.h>
#include <stdio.h>

#include "timeline/capture_union.h"

/* The fd stays open until we end: it is the only way to the file. */
struct timeline *joined_open(char *const *paths, size_t count)
{
	int fd = capture_union((const char *const *)paths, count);
	char path[32];

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return timeline_open(path);
}
