// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/sink.h"

#include <string.h>

#include "sink/csv.h"
#include "sink/perfetto.h"

const struct sink sinks[] = {
	{"perfetto", ".pftrace", "a trace for ui.perfetto.dev and trace_processor", true,
	 perfetto_write},
	{"csv", ".csv", "one row a scope, sorted by pid, tid and start", false, csv_write},
	{NULL, NULL, NULL, false, NULL},
};

const struct sink *sink_find(const char *name)
{
	for (const struct sink *sink = sinks; sink->name; sink++) {
		if (strcmp(sink->name, name) == 0)
			return sink;
	}
	return NULL;
}
