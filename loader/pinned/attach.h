/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Attaching so that tracing goes on without us. Purpose: what `attach --pin` does once its options
 * are parsed. Invariant: all or nothing; what was made on the way is gone again after a failure.
 */
#ifndef SCOPETRACE_PINNED_ATTACH_H
#define SCOPETRACE_PINNED_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/plan.h"

struct pinned_attach_options {
	const char *dir;
	const char *group; /* may drain; NULL: who attached alone */
	bool watch;	   /* a small process stays, by which manual scopes are captured too */
	/* open calls stand in near_scopes, too: faster, and not all are in open_scopes */
	bool near;
	pid_t pid;
	uint64_t minimum_ns;
	uint64_t ring_bytes;	  /* 0: the default */
	struct plan_options plan; /* what is hooked */
};

/* 0 or -errno, logged. */
int pinned_attach(const struct pinned_attach_options *options);

#endif
