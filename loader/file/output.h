/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The file that a capture is written to. Purpose: it is never in anybody's way, and never ends in
 * half of something where that can be helped. Owner: one capture writer. Invariant: `bytes` of it
 * are whole, and after a failed write a regular file is as long as that again.
 */
#ifndef SCOPETRACE_FILE_OUTPUT_H
#define SCOPETRACE_FILE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stall_watch;

struct scope_file_output {
	int fd; /* -1: closed */
	bool is_regular, is_pipe, is_socket;
	uint64_t base;	/* where it began: standard output may have been written to before */
	uint64_t bytes; /* written, and whole */
	/* See scope_file_output_set_stalled. NULL: a write into a pipe or a socket waits until a signal that is
	 * blocked wants our end (-EINTR). */
	void (*stalled)(void *context);
	void *context;
	struct stall_watch *watch; /* of what is neither */
};

/*
 * Creates the file. An existing regular file is first renamed to path + ".old", or with `numbered`
 * to the first of path + ".1", ".2" ... that is free (logged), unless a capture is being written to
 * it; a device, a pipe or a link is written as it is; "-" is standard output. 0 or -errno, logged.
 */
int scope_file_output_open(struct scope_file_output *output, const char *path, bool numbered);

/*
 * `stalled` is called ten times a second while the file takes nothing: by the thread that writes,
 * if it is a pipe or a socket; else, as that one waits in the kernel, by another.
 */
void scope_file_output_set_stalled(struct scope_file_output *output, void (*stalled)(void *context),
				   void *context);

/* Appends all of the bytes, or none where the file can be truncated. 0 or -errno (says nothing). */
int scope_file_output_write(struct scope_file_output *output, const void *bytes, size_t length);

/* 0 or the -errno that close(2) had to tell (says nothing). Takes a closed one. */
int scope_file_output_close(struct scope_file_output *output);

#endif
