/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of what is pinned in one folder of a capture's directory. One owner. */
#ifndef SCOPETRACE_PINNED_NAMES_H
#define SCOPETRACE_PINNED_NAMES_H

#include <inttypes.h>
#include <stddef.h>

/* What the name of a link may end with: device and inode of its file. */
#define PIN_LINK_FILE	   "-%" PRIx64 "-%" PRIu64
#define PIN_LINK_FILE_SCAN "%*[^-]-%*u-%" SCNx64 "-%" SCNu64

struct pin_names {
	char **items;
	size_t count;
};

/* Of DIR/FOLDER; none if it is not there. 0 or -errno (logged); pin_names_clear in any case. */
int pin_names_read(const char *dir, const char *folder, struct pin_names *names);
void pin_names_clear(struct pin_names *names);

#endif
