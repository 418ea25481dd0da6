/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `functions` prints: the list, as a table or as JSON. */
#ifndef SCOPETRACE_COMMAND_FUNCTIONS_PRINT_H
#define SCOPETRACE_COMMAND_FUNCTIONS_PRINT_H

#include <stdbool.h>

#include "plan/plan.h"

/* To stdout. 0 or -errno, logged but for -EPIPE. */
int functions_print(const struct plan *plan, bool json);

#endif
