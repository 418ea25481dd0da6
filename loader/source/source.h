/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where events come from. Purpose: the drain loop knows no source by name. A source is drained by
 * one thread.
 */
#ifndef SCOPETRACE_SOURCE_SOURCE_H
#define SCOPETRACE_SOURCE_SOURCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "event/event.h"

struct source;

struct source_ops {
	const char *name;
	/*
	 * Takes what is there and puts it out; bounded in time, never waits. Returns the number of
	 * events (>= 0), or -errno of the output or of a source that broke (logged).
	 */
	ssize_t (*drain)(struct source *source, struct event_output *output);
	/* The last drain: takes all that remains, closes the accounts. 0 or -errno. */
	int (*finish)(struct source *source, struct event_output *output);
	/* True when nothing more can come (the process is gone). */
	bool (*gone)(struct source *source);
	void (*destroy)(struct source *source); /* takes NULL */
};

struct source {
	const struct source_ops *ops;
};

#endif
