/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every macro, as a C program would use it; clean from C99 on. */
#include "scope.h"

static int calls;

static const char *counted(const char *name)
{
	calls++;
	return name;
}

enum color { RED, GREEN };

struct bits {
	unsigned few : 3;
};

/* All kinds of values; and each argument is evaluated once. */
static int numbers(void)
{
	struct bits bits = {5};
	enum color color = GREEN;
	unsigned char small = 200;
	float real = 0.5f;
	long double long_real = 0.25L;
	int times = 0;

	SCOPE_COUNTER("int", times++);
	SCOPE_COUNTER("double", (times++, 1.5));
	SCOPE_COUNTER("bits", bits.few);
	SCOPE_COUNTER("enum", color);
	SCOPE_COUNTER("small", small);
	SCOPE_COUNTER("float", real);
	SCOPE_COUNTER("long double", long_real);
	SCOPE_COUNTER("large", UINT64_MAX);
	SCOPE_ARGUMENT("argument", times++);
	SCOPE_ARGUMENT("bits", bits.few);
	SCOPE_ASYNC_BEGIN("async", times++);
	SCOPE_ASYNC_END("async", times++);
	SCOPE_ASYNC_BEGIN("by address", &bits);
	SCOPE_ASYNC_END("by address", &bits);
	SCOPE_FLOW(times++);
	if (times)
		SCOPE_COUNTER("then", 1);
	else
		SCOPE_FRAME("else");
	return times;
}

/* What a binding calls. */
static void functions(void)
{
	struct scope_hot hot;
	scope_token token = scope_start("start", 5);

	scope_hot_start(&hot, "hot", 3);
	scope_hot_stop(&hot);
	scope_instant("instant", 7);
	scope_frame("frame", 5);
	scope_counter("counter", 7, -1);
	scope_counter_double("counter", 7, 0.5);
	scope_async_start("async", 5, 1);
	scope_async_stop("async", 5, 1);
	scope_argument("argument", 8, 1);
	scope_flow(1);
	scope_stop(token);
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

#ifdef SCOPE_DISABLE
	const int evaluated = 0;
#else
	const int evaluated = 6;
#endif

	if (scope_init(&options) != 0 || scope_enabled() || scope_is_enabled())
		return 1;
	if (numbers() != evaluated)
		return 3;
	functions();
	SCOPE_THREAD_NAME("main");
	SCOPE_BEGIN(token, "begun");
	SCOPE_DYNAMIC(counted("name"), 4);
	SCOPE_END(token);
	if (with_returns(0) != 0 || with_returns(5) != -1)
		return 2;
	return calls > 1;
}
