/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of a plan as the probes take them. Owner: who made them; while the plan lives. */
#ifndef SCOPETRACE_PLAN_SITES_H
#define SCOPETRACE_PLAN_SITES_H

#include <stddef.h>

#include "plan/plan.h"
#include "probe/function.h"

struct plan_sites {
	struct probe_function *functions; /* one for each of the plan, in its order */
	struct probe_exit *exits;	  /* of all functions, one after another */
};

/* How many exits there are at most, whichever way returns are seen later. */
size_t plan_most_exits(const struct plan *plan);

/* 0 or -ENOMEM; plan_sites_clear in any case. */
int plan_sites_make(const struct plan *plan, struct plan_sites *sites);
void plan_sites_clear(struct plan_sites *sites);

#endif
