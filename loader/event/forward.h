/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What stands between a source and a file. Purpose: an output that only looks at some of what comes
 * overrides that and passes on the rest; one that numbers names for itself puts them into the next
 * one's numbers. Owner: the thread that puts. Invariant: the next output outlives what forwards to
 * it.
 */
#ifndef SCOPETRACE_EVENT_FORWARD_H
#define SCOPETRACE_EVENT_FORWARD_H

#include "event/event.h"

struct forward {
	struct event_output output; /* passes all on, until parts of it are replaced */
	struct event_output *next;
};

void forward_init(struct forward *forward, struct event_output *next);

/* Puts what bears names, under the ids that the next output has for them. */
struct renaming {
	struct event_output *next;
	/* *id becomes the next output's. 0 or -errno. */
	int (*rename)(struct renaming *renaming, uint32_t *id);
};

/* 0 or -errno, of the renaming or of the output. */
int renaming_manual(struct renaming *renaming, const struct manual_event *events, size_t count);
int renaming_thread(struct renaming *renaming, const struct thread_info *thread);
int renaming_process(struct renaming *renaming, const struct process_info *process);

#endif
