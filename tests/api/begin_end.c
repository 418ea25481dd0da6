/* SPDX-License-Identifier: GPL-2.0-or-later */
/* All that a C compiler without the cleanup attribute has of scope.h. */
#include "scope.h"

int begin_end(int value);

int begin_end(int value)
{
	scope_token token;

	SCOPE_BEGIN(token, "begun");
	SCOPE_ARGUMENT("value", value);
	SCOPE_FLOW(value);
	SCOPE_FRAME("loop");
	SCOPE_INSTANT("now");
	SCOPE_COUNTER("integer", value);
	SCOPE_COUNTER("double", value * 0.5);
	SCOPE_COUNTER("float", (float)value);
	SCOPE_ASYNC_BEGIN("request", value);
	SCOPE_ASYNC_END("request", value);
	SCOPE_THREAD_NAME("name");
	SCOPE_END(token);
	return scope_enabled();
}
