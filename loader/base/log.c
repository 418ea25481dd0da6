// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void put(const char *level, const char *format, va_list arguments)
{
	char line[4096];
	int length = snprintf(line, sizeof(line), "scopetrace: %s", level);

	vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
	strcat(line, "\n");
	/* One write, so that lines of several threads do not mix. */
	fputs(line, stderr);
}

void log_error(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	put("error: ", format, arguments);
	va_end(arguments);
}

void log_warning(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	put("warning: ", format, arguments);
	va_end(arguments);
}

void log_info(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	put("", format, arguments);
	va_end(arguments);
}
