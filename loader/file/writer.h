/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a capture file (*.scope). Purpose: raw chunks at ring speed. Owner: the thread that
 * drains. Invariant: the file always ends in a whole chunk or in the beginning of one, so that a
 * capture cut short opens up to its last whole chunk.
 *
 * What lies in the file is described in file/format.h.
 */
#ifndef SCOPETRACE_FILE_WRITER_H
#define SCOPETRACE_FILE_WRITER_H

#include <stdbool.h>

#include "event/event.h"

struct scope_file_writer;

/*
 * Creates the file `path` and writes the header: version, byte order, a snapshot of MONOTONIC /
 * REALTIME / BOOTTIME, host, kernel release, command line. An existing regular file is first
 * renamed to path + ".old", perf's habit; a device, a pipe or a link is written as it is; "-" is
 * standard output. Returns the writer, or NULL with errno (the failure has been logged).
 */
struct scope_file_writer *scope_file_writer_create(const char *path, int argc, char *const *argv);

struct scope_file_output;
struct scope_file;

/* What else may be said of a capture; zero where it is not. */
struct scope_file_writer_options {
	int level; /* of zlib, 1 to 9: chunks are deflated; 0: they are not */
	/*
	 * What it is a capture of: files that agree in these (and in the boot) are parts of one,
	 * and what they both hold is told once. Kind: enum scope_file_kind of file/format.h.
	 */
	uint32_t kind;
	uint32_t number;
	uint64_t start_ns;
	/* the header is a copy of this file's; NULL: of here and now */
	const struct scope_file *like;
	struct scope_file_output *opened; /* is taken over; NULL: the path is opened */
	bool numbered; /* an older file becomes the first free of path + ".1", ".2" ...; else path + ".old" */
};

/* The same with options; NULL: none. */
struct scope_file_writer *
scope_file_writer_create_with(const char *path, const struct scope_file_writer_options *options,
			      int argc, char *const *argv);

/* The interface that sources write to; valid until the writer is finished. */
struct event_output *scope_file_writer_output(struct scope_file_writer *writer);

/*
 * Declares a hooked function / a process, before the first event that names it; functions in the
 * order of their ids. A process may be declared again: its manual events from there on are of that
 * clock. 0 or -errno.
 */
int scope_file_writer_function(struct scope_file_writer *writer,
			       const struct function_info *function);
int scope_file_writer_process(struct scope_file_writer *writer, const struct process_info *process);

/* Calls `stalled` ten times a second while the file takes nothing, be it in another thread; it must not put
 * events. */
void scope_file_writer_set_stalled(struct scope_file_writer *writer, void (*stalled)(void *context),
				   void *context);

/*
 * Writes out what is buffered (buffers of events are kept up to 64 KiB, so that chunks are worth
 * their header). The drain loop calls it at least each second. 0 or -errno.
 */
int scope_file_writer_flush(struct scope_file_writer *writer);

/*
 * The accounting of function `id`; of a segment; each once, when the probes are closed. 0 or
 * -errno.
 */
int scope_file_writer_function_accounting(struct scope_file_writer *writer, uint32_t id,
					  const struct function_accounting *accounting);
int scope_file_writer_segment_accounting(struct scope_file_writer *writer,
					 const struct segment_accounting *accounting);

/* How many completed scopes (neither unfinished nor unwound) of function `id` were put out. */
struct scopes_in_file scope_file_writer_in_file(const struct scope_file_writer *writer,
						uint32_t id);

/* How many manual events were put out. */
uint64_t scope_file_writer_manual_in_file(const struct scope_file_writer *writer);

/* Bytes written so far. */
uint64_t scope_file_writer_bytes(const struct scope_file_writer *writer);

/*
 * Writes the footer (time of start and end of the capture, totals; `recursion_misses` is the
 * kernel's own count of skipped programs), and closes the file. The writer is freed in any case. 0,
 * or the first -errno that any write met (ENOSPC, EIO ...), having said so: a file without a footer
 * is reported as cut short by its readers.
 */
int scope_file_writer_finish(struct scope_file_writer *writer, uint64_t start_ns, uint64_t end_ns,
			     uint64_t recursion_misses);

/*
 * The capture has failed for another reason: writes out what is buffered, and closes the file
 * without a footer, so that it reads as cut short. The writer is freed in any case. 0, or the first
 * -errno that any write met.
 */
int scope_file_writer_abandon(struct scope_file_writer *writer);

#endif
