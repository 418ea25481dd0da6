// SPDX-License-Identifier: GPL-2.0-or-later
// Every macro, as a C++ program would use it; clean from C++11 on.
#include <string>
#include <type_traits>
#if __cplusplus >= 201703L
#include <string_view>
#endif

#include "scope.hpp"

static_assert(!std::is_copy_constructible<scope::span>::value && !std::is_copy_assignable<scope::span>::value,
	      "");
static_assert(!std::is_copy_constructible<scope::hot_span>::value, "");
static_assert(std::is_nothrow_constructible<scope::span, const std::string &>::value, "");
static_assert(std::is_nothrow_constructible<scope::span, const char (&)[5]>::value, "");
static_assert(std::is_nothrow_destructible<scope::span>::value, "");
static_assert(noexcept(scope::counter("c", 1)) &&noexcept(scope::argument("a", 1)) &&noexcept(scope::flow(1)),
	      "");
static_assert(!std::is_constructible<scope::span, const char *>::value, "a pointer has no length");
static_assert(!std::is_constructible<scope::span, char (&)[64]>::value, "nor has a buffer");

namespace
{
struct thrown {
};

enum color { red, green };
enum class level { low };

struct bits {
	unsigned few : 3;
};

// All kinds of values; and each argument is evaluated once.
int numbers()
{
	bits some = {5};
	int times = 0;
	bool yes = true;

	SCOPE_COUNTER("int", times++);
	SCOPE_COUNTER("double", (static_cast<void>(times++), 1.5));
	SCOPE_COUNTER("bits", some.few);
	SCOPE_COUNTER("bool", yes);
	SCOPE_COUNTER("enum", green);
	SCOPE_COUNTER("long double", 0.25L);
	SCOPE_COUNTER("large", UINT64_MAX);
	SCOPE_ARGUMENT("argument", times++);
	SCOPE_ARGUMENT("bits", some.few);
	SCOPE_ASYNC_BEGIN("async", times++);
	SCOPE_ASYNC_END("async", times++);
	SCOPE_ASYNC_BEGIN("by address", &some);
	SCOPE_FLOW(times++);
	SCOPE_FRAME("frame");
	return times;
}

void spans(const std::string &name)
{
	scope::span literal("literal");
	scope::span of_string(name);
	scope::span of_bytes(scope::name(name.data(), 3));
	scope::hot_span hot("hot");
#if __cplusplus >= 201703L
	scope::span view(std::string_view("a view").substr(2));
#endif
	scope::counter("int", 1);
	scope::counter("float", 0.5f);
	scope::counter("enum", level::low);
	scope::argument(name, 7u);
	scope::flow(1);
	scope::async_begin("async", 1);
	scope::async_end("async", 1);
	scope::frame("frame");
	scope::instant(name);
	scope::thread_name(name);
	of_string.stop();
}

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

#ifdef SCOPE_DISABLE
	const int evaluated = 0;
#else
	const int evaluated = 6;
#endif

	if (scope_init(&options) != 0 || scope_enabled() || scope::enabled())
		return 1;
	if (numbers() != evaluated)
		return 3;
	spans(name);
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
