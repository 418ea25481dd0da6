/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two tracepoints of scope_loop.c. Purpose: what LTTng-UST's generator wants; it reads this file several
 * times. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER scopetrace_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "lttng_scope.h"

#if !defined(SCOPETRACE_BENCH_LTTNG_SCOPE_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define SCOPETRACE_BENCH_LTTNG_SCOPE_H

#include <lttng/tracepoint.h>

LTTNG_UST_TRACEPOINT_EVENT(scopetrace_bench, scope_begin, LTTNG_UST_TP_ARGS(const char *, name),
			   LTTNG_UST_TP_FIELDS(lttng_ust_field_string(name, name)))

LTTNG_UST_TRACEPOINT_EVENT(scopetrace_bench, scope_end, LTTNG_UST_TP_ARGS(), LTTNG_UST_TP_FIELDS())

#endif

#include <lttng/tracepoint-event.h>
