/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Cells of a table that hold a time or a name. Purpose: all tables of the report show them alike.
 * Stateless. 0 or -ENOMEM.
 */
#ifndef SCOPETRACE_SINK_CELL_H
#define SCOPETRACE_SINK_CELL_H

#include "sink/sink.h"
#include "sink/table.h"

/*
 * In the unit; UNIT_AUTO: three digits that matter, in the unit in which they are easiest to read.
 */
int cell_time(struct table *table, uint64_t ns, enum time_unit unit);

/* What a terminal must not see is escaped. */
int cell_name(struct table *table, const char *name);

#endif
