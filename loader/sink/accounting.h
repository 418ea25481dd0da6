/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The terms of the accounting identity by name. Purpose: text and JSON, per function and in all,
 * list the same terms. Stateless. accounting_line is declared in sink.h.
 */
#ifndef SCOPETRACE_SINK_ACCOUNTING_H
#define SCOPETRACE_SINK_ACCOUNTING_H

#include <stddef.h>

#include "event/event.h"

/* A term of struct function_accounting, as --json names it. */
struct accounting_term {
	const char *name;
	size_t offset;
};

/* All terms, ended by one without a name. */
extern const struct accounting_term accounting_terms[];

uint64_t accounting_value(const struct function_accounting *accounting,
			  const struct accounting_term *term);

#endif
