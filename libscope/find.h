/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the segment of another process. Purpose: all that the reader learns from /proc. Nothing is kept here.
 * What the process may have put there (links, mappings, descriptors) is opened by path first and only then
 * for use.
 */
#ifndef SCOPE_FIND_H
#define SCOPE_FIND_H

#include <stdbool.h>
#include <sys/types.h>

#include "segment.h"

struct scope_found {
	int descriptor;		    /* of our own, for reading and writing */
	uint64_t inode;		    /* of the memory */
	struct scope_header header; /* our copy, validated */
};

/* 0 or the -errno of scope_reader_open, but for -EBUSY. */
int scope_find(pid_t pid, struct scope_found *found);

/* The version of the segment that scope_find refuses with -EPROTO. 0 or -errno. */
int scope_find_version(pid_t pid, uint16_t *major, uint16_t *minor);

/* Whether any thread of the process has the memory mapped. True as well when we are no longer allowed to
 * look. */
bool scope_find_mapped(pid_t pid, uint64_t inode);

/* By how many ns the process's CLOCK_MONOTONIC is ahead of ours: they differ between time namespaces. */
int64_t scope_find_clock_offset(pid_t pid);

#endif
