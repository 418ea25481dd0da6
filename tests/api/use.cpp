// SPDX-License-Identifier: GPL-2.0-or-later
// Every macro, as a C++ program would use it; clean from C++11 on.
#include <string>

#include "scope.h"

namespace
{
struct thrown {
};

template <typename T> T with_exception(T value)
{
	SCOPE_FUNCTION();
	// clang-format off
	SCOPE("two on"); SCOPE("one line");
	// clang-format on
	if (value)
		throw thrown();
	SCOPE_HOT("hot");
	return value;
}

struct object {
	object() { SCOPE("constructor"); }
	~object() { SCOPE("destructor"); }
};

object before_main;
} // namespace

int main()
{
	scope_options options = {sizeof(scope_options), 2, 64, SCOPE_CLOCK_DEFAULT, 0};
	std::string name = "dynamic";
	scope_token token;

	if (scope_init(&options) != 0 || scope_enabled())
		return 1;
	SCOPE_THREAD_NAME("main");
	SCOPE_BEGIN(token, "begun");
	SCOPE_DYNAMIC(name.data(), name.size());
	auto lambda = [] {
		SCOPE_FUNCTION();
		SCOPE_INSTANT("in a lambda");
	};
	lambda();
	SCOPE_END(token);
	try {
		with_exception(1);
		return 2;
	} catch (const thrown &) {
	}
	return with_exception(0L) != 0;
}
