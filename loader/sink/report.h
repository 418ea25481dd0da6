/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What both forms of the report share: the order of the functions. Stateless. The reports are
 * declared in sink.h.
 */
#ifndef SCOPETRACE_SINK_REPORT_H
#define SCOPETRACE_SINK_REPORT_H

#include "sink/sink.h"

/* The keys that functions can be sorted by, for people: "total, self, ...". */
#define REPORT_SORT_KEYS "total, self, calls, mean, p50, p90, p99, max, min, name"

/* True when `key` is one of them. */
bool report_sort_known(const char *key);

/*
 * Puts the functions in the order of `key` (NULL: total): times and counts from the largest, names
 * from A; ties by name. 0, or -EINVAL for an unknown key.
 */
int report_sort(const struct timeline *timeline, const char *key,
		struct function_statistics *functions, size_t count);

/* Columns; longer names stand on a line of their own. */
#define REPORT_WIDEST_NAME 48

/*
 * The parts of the reports that show marks: async slices, frames, counters, arguments, instants.
 * The text has a table for each of which there are any; the JSON members "asyncs", "frames",
 * "counters", "arguments", "instants" are always there, each with a comma behind it. 0 or -ENOMEM.
 */
int report_marks_text(const struct timeline *timeline, const struct timeline_summary *summary,
		      FILE *out, const struct sink_options *options);
int report_marks_json(const struct timeline *timeline, const struct timeline_summary *summary,
		      FILE *out);

#endif
