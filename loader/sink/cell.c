// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/cell.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sink/escape.h"

/* Three digits that matter, in the unit in which they are easiest to read. */
static int cell_adapted(struct table *table, uint64_t ns)
{
	static const char *const units[] = {"us", "ms", "s"};
	double value = (double)ns;
	size_t unit = 0;

	if (ns < 1000)
		return table_cell(table, "%" PRIu64 " ns", ns);
	/* 999.5 would be printed as 1000 */
	for (value /= 1000; value >= 999.5 && unit < sizeof(units) / sizeof(units[0]) - 1; unit++)
		value /= 1000;
	return table_cell(table, "%.*f %s",
			  value < 9.995	  ? 2
			  : value < 99.95 ? 1
					  : 0,
			  value, units[unit]);
}

int cell_time(struct table *table, uint64_t ns, enum time_unit unit)
{
	switch (unit) {
	case UNIT_NS:
		return table_cell(table, "%" PRIu64 " ns", ns);
	case UNIT_US:
		return table_cell(table, "%" PRIu64 ".%03" PRIu64 " us", ns / 1000, ns % 1000);
	case UNIT_MS:
		return table_cell(table, "%" PRIu64 ".%06" PRIu64 " ms", ns / 1000000,
				  ns % 1000000);
	default:
		return cell_adapted(table, ns);
	}
}

int cell_name(struct table *table, const char *name)
{
	char *text = escape_text(name);
	int err = text ? table_cell(table, "%s", text) : -ENOMEM;

	free(text);
	return err;
}
