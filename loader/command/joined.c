// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/joined.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "event/accounting.h"
#include "file/concat.h"

/* The fd stays open until we end: it is the only way to the file. */
struct timeline *joined_open(char *const *paths, size_t count)
{
	char *missing;
	int fd = scope_file_concat((const char *const *)paths, count, &missing);
	struct timeline *timeline;
	char path[32];

	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	timeline = timeline_open(path);
	if (missing && timeline)
		accounting_fail(&timeline->accounting, "%s", missing);
	if (missing)
		log_warning("%s", missing);
	free(missing);
	return timeline;
}
