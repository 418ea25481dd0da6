/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why the kernel does not let us look at a process. Purpose: the cure that is logged is the one that
 * helps.
 */
#ifndef SCOPETRACE_BASE_CAPABILITY_H
#define SCOPETRACE_BASE_CAPABILITY_H

/* What would help, as the rest of a sentence: static. */
const char *right_to_look(void);

#endif
