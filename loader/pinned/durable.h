/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An output that keeps nothing back. Purpose: a source that has put something out may forget it, as
 * it is written to the file. Owner: a drainer; one thread. What comes from a segment (manual(), and
 * its losses) is written with the next durable_flush(), as its reader can wait for that.
 */
#ifndef SCOPETRACE_PINNED_DURABLE_H
#define SCOPETRACE_PINNED_DURABLE_H

#include "file/writer.h"
#include "event/forward.h"

struct durable {
	struct forward forward; /* into the writer */
	struct scope_file_writer *writer;
};

void durable_init(struct durable *durable, struct scope_file_writer *writer);

/*
 * 0, or -errno of the file (logged): nothing that came since the last flush counts as written then.
 */
int durable_flush(struct durable *durable);

#endif
