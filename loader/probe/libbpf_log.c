// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/libbpf_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * libbpf passes its print function no context, so where it goes must be known to the thread that
 * loads.
 */
static _Thread_local struct libbpf_log *listening;

/* Appends, dropping what is oldest. */
static void append(struct libbpf_log *log, const char *text, size_t length)
{
	size_t room = sizeof(log->text) - 1, excess;

	if (length > room) {
		text += length - room;
		length = room;
	}
	excess = log->length + length > room ? log->length + length - room : 0;
	log->length -= excess;
	memmove(log->text, log->text + excess, log->length);
	memcpy(log->text + log->length, text, length);
	log->length += length;
	log->text[log->length] = '\0';
}

static int keep_message(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char *message;
	int length;

	if (!listening || level == LIBBPF_DEBUG)
		return 0;
	length = vasprintf(&message, format, arguments);
	if (length < 0)
		return 0;
	append(listening, message, (size_t)length);
	free(message);
	return 0;
}

void libbpf_log_begin(struct libbpf_log *log)
{
	listening = log;
	log->before = libbpf_set_print(keep_message);
}

void libbpf_log_end(struct libbpf_log *log)
{
	libbpf_set_print(log->before);
	listening = NULL;
}
