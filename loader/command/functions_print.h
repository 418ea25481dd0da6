/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What `functions` prints: the list, as a table or as JSON. */
#ifndef SCOPETRACE_COMMAND_FUNCTIONS_PRINT_H
#define SCOPETRACE_COMMAND_FUNCTIONS_PRINT_H

#include "plan/returns.h"

struct functions_list {
	const struct function **functions;
	size_t count;
	struct return_plan returns; /* one choice for each */
};

/* To stdout. 0 or -errno, said but for -EPIPE. */
int functions_print(const struct functions_list *list, bool json);

#endif
