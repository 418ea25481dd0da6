/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Draining a pinned capture into a file. Purpose: what `drain` does once its options are parsed.
 * Invariant: a reader's position, in the kernel's ring or in a segment, moves only when what lies
 * before it is written to the file. So a drainer may be killed at any moment: the next one reads
 * again what this one may have written already, and whoever reads both files drops what is in the
 * earlier one (file/join.h). Written means handed to the kernel: that outlives us, not a loss of
 * power.
 */
#ifndef SCOPETRACE_PINNED_DRAIN_H
#define SCOPETRACE_PINNED_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "pinned/maps.h"

struct pinned_drain_options {
	const char *dir;
	const char *output;
	uint64_t duration_ns; /* 0: until the capture's end or a signal */
	int compress;	      /* level; 0: none */
	int ready_fd;	      /* -1: none */
	int argc;
	char *const *argv;
};

/* 0 or -errno, logged: -EBUSY another drainer is at work. */
int pinned_drain(const struct pinned_drain_options *options);

/* Of a capture whose probes are closed, with the drainers' lock held: the rest and the account. 0 or -errno,
 * logged. */
int pinned_drain_rest(const struct pinned *pinned, const char *output, int argc, char *const *argv);

#endif
