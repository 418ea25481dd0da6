/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How returns are seen, and why, as the user is told it. */
#ifndef SCOPETRACE_PLAN_SAY_RETURNS_H
#define SCOPETRACE_PLAN_SAY_RETURNS_H

#include "plan/returns.h"

/*
 * A line for each way and reason, on stderr; the usual case (uretprobes, nothing to fear) only if
 * `all`.
 */
void say_returns(const struct return_plan *plan, const struct hazard *hazard, bool all);

#endif
