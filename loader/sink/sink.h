/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What writes a timeline in some format. Purpose: collection never knows the format. A sink is a
 * row of a table.
 */
#ifndef SCOPETRACE_SINK_SINK_H
#define SCOPETRACE_SINK_SINK_H

#include <stdio.h>

#include "timeline/timeline.h"

enum time_unit { UNIT_AUTO, UNIT_NS, UNIT_US, UNIT_MS };

struct sink_options {
	enum time_unit unit; /* report: unit of times */
	const char *sort;    /* report: key of struct function_statistics to sort by; NULL: total */
	int colour;	     /* report: escape sequences allowed */
};

struct sink {
	const char *name;      /* as -t names it */
	const char *extension; /* of a file of this format, with the dot */
	const char *help;      /* one line */
	bool binary;	       /* not for a terminal */
	/* Writes the whole timeline. 0 or -errno, and -EBADMSG if it was logged (of reading, of a temporary
	 * file); what was written so far is the caller's to throw away. */
	int (*write)(const struct timeline *timeline, FILE *out,
		     const struct sink_options *options);
};

/* The formats of `export`, ended by a row without a name. */
extern const struct sink sinks[];

/* The row with this name, or NULL. */
const struct sink *sink_find(const char *name);

/*
 * `report`: the table for people, and --json, whose keys are a promise to programs
 * (tests/unit/sink/report.c). Same results as a sink's write.
 */
int report_text(const struct timeline *timeline, FILE *out, const struct sink_options *options);
int report_json(const struct timeline *timeline, FILE *out, const struct sink_options *options);

/* The object "accounting" of report_json alone. */
void report_accounting_json(const struct accounting_total *total, FILE *out);

/*
 * The one line with which every capture ends: "N calls; a duplicate entries, ...; balanced". N is
 * total->in_file. No new line in it or at its end; cut where the buffer ends.
 */
void accounting_line(const struct accounting_total *total, char *line, size_t size);

#endif
