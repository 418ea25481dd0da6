/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whether the code of the chosen functions is in the process what it is in its file, and whether their
 * probes are there. Purpose: no function is changed by its probe, and none is logged to be hooked that is
 * not. Owner: who made the plan.
 */
#ifndef SCOPETRACE_PLAN_TEXT_CHECK_H
#define SCOPETRACE_PLAN_TEXT_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plan/plan.h"

/*
 * Before arming: refuses the functions whose entry or exits are other instructions in the memory of
 * process `pid` than in their file. *changed: whether there are any that were not refused before. 0,
 * also where the process has ended or its memory cannot be read, or -ENOMEM.
 */
int text_refuse_changed(struct plan *plan, pid_t pid, bool *changed);

/*
 * The same of a program that does not run yet: the functions of files whose code ld.so will write into
 * are refused, as nobody knows what it will be. 0 or -ENOMEM.
 */
int text_refuse_relocated(struct plan *plan, bool *changed);

/*
 * After arming: looks for the entry probes in the memory of process `pid`, and sets `unreached` of the
 * functions that have none, but for those that `is_refused` says the kernel took none on; they are
 * logged, unless they were before. 0, also where nothing can be seen; -ENXIO, logged, if no function
 * that is mapped has its probe; -ENOMEM.
 */
int text_verify(struct plan *plan, pid_t pid, bool (*is_refused)(const void *of, uint32_t function),
		const void *of);

#endif
