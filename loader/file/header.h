/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The header of a capture that begins. Purpose: when and where it is made, and by what command, in
 * the form of the file. Owner: the writer, while it opens the file. Invariant: it fits into a
 * chunk, however long the command is.
 */
#ifndef SCOPETRACE_FILE_HEADER_H
#define SCOPETRACE_FILE_HEADER_H

#include <sys/utsname.h>

#include "file/format.h"
#include "file/writer.h"

#define SCOPE_FILE_COMMAND_MAX (16u << 10) /* of the command line: what is longer is cut */

/* The texts follow the payload, by the lengths that it says; none ends with a NUL there. */
struct scope_file_header {
	struct header_payload payload;
	const char *host, *kernel; /* of `machine`, or of the capture that this one is like */
	struct utsname machine;
	char command[SCOPE_FILE_COMMAND_MAX];
};

/* Takes the clocks now. `header` stays where it is; options->like outlives it. */
void scope_file_header_make(struct scope_file_header *header,
			    const struct scope_file_writer_options *options, int argc,
			    char *const *argv);

#endif
