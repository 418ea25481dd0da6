/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a capture's accounting add up? Purpose: compares what the file says of its functions and
 * segments with what the file holds. Stateless.
 */
#ifndef SCOPETRACE_TIMELINE_BALANCE_H
#define SCOPETRACE_TIMELINE_BALANCE_H

#include "timeline/trace_index.h"

/*
 * Fills in timeline.accounting, which accounting_begin() has made. What holds for each function
 * holds for their sum, as the identities are sums themselves.
 */
void balance_check(struct trace_index *trace);

#endif
