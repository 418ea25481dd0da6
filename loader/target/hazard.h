/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * May this process be hooked with uretprobes? Purpose: never to kill what we watch. A pending uretprobe
 * hijacks a return address; a C++ exception, a Rust panic or a Go stack that moves then aborts or corrupts
 * the program (design: facts.md, the hazard table). Until returns are safe, such a process is refused unless
 * the user insists.
 */
#ifndef SCOPETRACE_TARGET_HAZARD_H
#define SCOPETRACE_TARGET_HAZARD_H

#include <stdbool.h>

#include "target/module.h"

struct hazard {
	bool found;
	char evidence[512]; /* e.g. "/usr/lib/.../libstdc++.so.6 is mapped: C++ exceptions" */
};

/*
 * Looks through the modules: libstdc++, libc++, libgcc_s or libunwind among them; a Go build id; a raiser
 * defined or imported (__cxa_throw, _Unwind_RaiseException, swapcontext, pthread_exit ...) or
 * .gcc_except_table in any object other than libc, libm and ld.so; or a list that is incomplete. 0, or -errno
 * of reading a module (said; treat as a hazard).
 */
int hazard_check(const struct module_list *modules, struct hazard *hazard);

#endif
