/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is hooked, and how its returns are seen. Purpose: the one way from patterns to sites:
 * symbols -> chosen functions -> hazard of the process -> returns -> sites (sites.h). Owner: who
 * made the plan; after plan_make one thread at a time may remake it, while `functions` and `count`
 * stay as they are for all; a plan that was made does not move. Knows nothing of recordings and pins.
 */
#ifndef SCOPETRACE_PLAN_PLAN_H
#define SCOPETRACE_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/hazard.h"
#include "plan/returns.h"
#include "program/module.h"
#include "program/symbol.h"

/* What is asked for; const once parsed. */
struct plan_options {
	char *const *include; /* patterns of functions (selector.h) */
	size_t include_count;
	char *const *exclude;
	size_t exclude_count;
	bool all;	/* the patterns may match any number */
	bool optimized; /* probes on nop5 sites even if the program may fork */
	bool force;	/* uretprobes, if asked for, even if they could kill the program */
	bool migrate;	/* a call may go from thread to thread */
	bool is_look;	/* nothing is hooked by it: no warnings, no refusal of the whole */
	enum return_mode returns;
};

struct plan {
	const struct plan_options *options;
	struct symbol_table symbols;
	bool has_symbols;
	/*
	 * Where the stack of the program lay whose symbols these are: with another one the
	 * process has run another program since. 0: not known.
	 */
	uint64_t stack;
	const struct function **functions; /* chosen; index = function id; NULL: not in it */
	size_t count;
	struct hazard hazard;
	struct returns returns;	  /* for each function */
	struct module_list known; /* the files at the last look, if there were new ones */
	pid_t pid;		  /* whose functions they are; 0: those of a file */
	bool *unreached; /* by function, of those whose probe is not there; NULL: none was looked for */
};

/*
 * From the patterns of `options`, which must outlive the plan, to the returns: for process `pid`,
 * or with pid 0 for the program at `path`. 0, or with the failure logged -errno of
 * symbol_table_of_process (has_symbols is then false), of selector_choose, of hazard_check, -EPERM
 * for a hazard, -ENOTSUP if no function can be hooked, -ESTALE if the process ran another program
 * meanwhile. plan_release in any case.
 */
int plan_make(struct plan *plan, const struct plan_options *options, pid_t pid, const char *path);

/*
 * The same in two steps, for functions that are known otherwise: symbols; then, once `functions`
 * (malloc'ed) and `count` are filled in, the rest.
 */
int plan_read_symbols(struct plan *plan, const struct plan_options *options, pid_t pid,
		      const char *path);
int plan_decide(struct plan *plan);

/*
 * Adds to the hazard what the files hold that the process has mapped since the last look. True if
 * the returns are to be decided anew: plan_remake.
 */
bool plan_look_again(struct plan *plan, pid_t pid);

/*
 * Decides the returns anew, by the present hazard. 1 if some are seen otherwise than before, 0 if
 * none is, or -ENOMEM. After the 1 plan_settle: whether the new ones are kept, or `former` again.
 */
int plan_remake(struct plan *plan, struct returns *former);
void plan_settle(struct plan *plan, struct returns *former, bool keep);

/* Warns of the functions that are left out as their returns are not known; but for those of `former`. */
void plan_log_refused(const struct plan *plan, const struct returns *former);

/* Logs how returns are seen; the usual case (uretprobes, nothing to fear) only if `all`. */
void plan_log_returns(const struct plan *plan, bool all);

/* enum setting_flag: whether stacks migrate, as asked for or as the program is known to do. */
uint32_t plan_setting_flags(const struct plan *plan);

/* Takes a zeroed plan, too. */
void plan_release(struct plan *plan);

#endif
