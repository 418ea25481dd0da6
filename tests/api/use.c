/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every macro, as a C program would use it; clean from C99 on. */
#include "scope.h"

static int calls;

static const char *counted(const char *name)
{
	calls++;
	return name;
}

static int with_returns(int value)
{
	SCOPE_FUNCTION();
	/* clang-format off */
	SCOPE("two on"); SCOPE("one line");
	/* clang-format on */
	if (value)
		SCOPE_INSTANT("then");
	else
		SCOPE_INSTANT("else");
	for (int i = 0; i < 2; i++) {
		SCOPE_HOT("hot");
		if (i == value)
			return i;
	}
	return -1;
}

int main(void)
{
	struct scope_options options = {sizeof(struct scope_options), 2, 64, SCOPE_CLOCK_DEFAULT, 0};
	scope_token token;

	if (scope_init(&options) != 0 || scope_enabled())
		return 1;
	SCOPE_THREAD_NAME("main");
	SCOPE_BEGIN(token, "begun");
	SCOPE_DYNAMIC(counted("name"), 4);
	SCOPE_END(token);
	if (with_returns(0) != 0 || with_returns(5) != -1)
		return 2;
	return calls > 1;
}
