// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/quantity.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct unit {
	const char *name;
	double factor;
};

static const struct unit durations[] = {{"", 1e9},     {"s", 1e9},  {"sec", 1e9},  {"ms", 1e6},
					{"us", 1e3},   {"ns", 1.0}, {"min", 60e9}, {"m", 60e9},
					{"h", 3600e9}, {NULL, 0}};

static const struct unit sizes[] = {
	{"", 1},	   {"B", 1},	       {"K", 1024},	    {"KB", 1024},
	{"KiB", 1024},	   {"M", 1048576},     {"MB", 1048576},	    {"MiB", 1048576},
	{"G", 1073741824}, {"GB", 1073741824}, {"GiB", 1073741824}, {NULL, 0}};

static int parse_with_unit(const char *text, const struct unit *units, uint64_t *value)
{
	char *end;
	double number;

	/* strtod alone would take "inf", "nan", "0x10" and blanks. */
	if (text[strspn(text, "0123456789.")] == 'x' || !strchr("0123456789.", text[0]) || !text[0])
		return -EINVAL;
	errno = 0;
	number = strtod(text, &end);
	if (end == text || errno)
		return -EINVAL;
	for (; units->name; units++) {
		if (strcasecmp(end, units->name) == 0)
			break;
	}
	if (!units->name)
		return -EINVAL;
	number *= units->factor;
	if (!(number >= 1) || number > 9e18)
		return -ERANGE;
	*value = (uint64_t)llround(number);
	return 0;
}

int parse_duration(const char *text, uint64_t *ns)
{
	return parse_with_unit(text, durations, ns);
}

int parse_size(const char *text, uint64_t *bytes)
{
	return parse_with_unit(text, sizes, bytes);
}

int parse_pid(const char *text, pid_t *pid)
{
	char *end;
	long number;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	number = strtol(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || number < 1 || number > INT_MAX)
		return -ERANGE;
	*pid = (pid_t)number;
	return 0;
}
