/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of what is pinned in one folder of a capture's directory. One owner. */
#ifndef SCOPETRACE_PROBE_PIN_NAMES_H
#define SCOPETRACE_PROBE_PIN_NAMES_H

#include <stddef.h>

struct pin_names {
	char **items;
	size_t count;
};

/* Of DIR/FOLDER; none if it is not there. 0 or -errno (said); pin_names_clear in any case. */
int pin_names_read(const char *dir, const char *folder, struct pin_names *names);
void pin_names_clear(struct pin_names *names);

#endif
