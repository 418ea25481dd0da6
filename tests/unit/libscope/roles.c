// SPDX-License-Identifier: GPL-2.0-or-later
/* What this binary does when a test runs it again: all of it before main, so that Criterion does not begin.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"

/* The first scope of a program, before main. */
static void role_first_scope(int from, int to)
{
	{
		SCOPE("first");
	}
	step(to);
	wait_step(from);
}

/* Where there can be no segment, all calls do nothing. */
static void role_unmeasured(int from, int to)
{
	scope_token token = 1;

	(void)from;
	if (scope_gate.segment || scope_enabled())
		_exit(1);
	SCOPE_BEGIN(token, "nothing");
	if (token || scope_start("nothing", 7))
		_exit(2);
	SCOPE_INSTANT("nothing");
	SCOPE_THREAD_NAME("nobody");
	step(to);
}

__attribute__((constructor(65000))) static void play_role(void)
{
	const char *role = getenv("LIBSCOPE_ROLE");

	if (!role)
		return;
	if (strcmp(role, "first scope") == 0)
		role_first_scope(atoi(getenv("LIBSCOPE_ROLE_FROM")), atoi(getenv("LIBSCOPE_ROLE_TO")));
	else if (strcmp(role, "unmeasured") == 0)
		role_unmeasured(atoi(getenv("LIBSCOPE_ROLE_FROM")), atoi(getenv("LIBSCOPE_ROLE_TO")));
	_exit(0);
}
