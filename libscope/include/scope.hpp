// SPDX-License-Identifier: BSD-2-Clause
//
// libscope for C++11 and later, without macros where a macro is not wanted:
//
//	scope::span span("frame");		// to the end of the block
//	scope::counter("queue", queue.size());
//
// Names are string literals, std::string, std::string_view, or anything else with data() and size(). They are
// copied by the call, but for a hot_span's, which must last until it ends. Nothing here throws or allocates.
// The macros of scope.h are there as well. With SCOPE_DISABLE all of it is empty.
#ifndef SCOPE_HPP
#define SCOPE_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "scope.h"

namespace scope
{
// The bytes of a name, for the length of a call.
class name
{
      public:
	template <std::size_t size>
	constexpr name(const char (&literal)[size]) noexcept : data_(literal), length_(size - 1)
	{
	}
	// How much of a buffer is a name only its owner knows: name(buffer, length).
	template <std::size_t size> name(char (&buffer)[size]) = delete;
	constexpr name(const char *data, std::size_t length) noexcept : data_(data), length_(length)
	{
	}
	template <typename string,
		  typename = decltype(static_cast<const char *>(
			  std::declval<const string &>().data())),
		  typename =
			  decltype(static_cast<std::size_t>(std::declval<const string &>().size()))>
	name(const string &text) noexcept : data_(text.data()), length_(text.size())
	{
	}
	constexpr const char *data() const noexcept { return data_; }
	constexpr std::size_t size() const noexcept { return length_; }

      private:
	const char *data_;
	std::size_t length_;
};

inline bool enabled() noexcept
{
	return scope_enabled() != 0;
}

// A scope from here to the end of the block, or to stop(), in the thread that made it.
class span
{
      public:
	SCOPE_INLINE_ explicit span(name text) noexcept : token_(0)
	{
		if (enabled()) {
			token_ = scope_start(text.data(), text.size());
			SCOPE_AFTER_CALL_();
		}
	}
	SCOPE_INLINE_ ~span() { stop(); }
	span(const span &) = delete;
	span &operator=(const span &) = delete;

	SCOPE_INLINE_ void stop() noexcept
	{
		if (token_) {
			scope_stop(token_);
			SCOPE_AFTER_CALL_();
		}
		token_ = 0;
	}

      private:
	scope_token token_;
};

// The same with half the records: one when it ends.
class hot_span
{
      public:
	SCOPE_INLINE_ explicit hot_span(name text) noexcept : hot_()
	{
		if (enabled()) {
			scope_hot_start(&hot_, text.data(), text.size());
			SCOPE_AFTER_CALL_();
		}
	}
	SCOPE_INLINE_ ~hot_span()
	{
		if (hot_.ticks) {
			scope_hot_stop(&hot_);
			SCOPE_AFTER_CALL_();
		}
	}
	hot_span(const hot_span &) = delete;
	hot_span &operator=(const hot_span &) = delete;

      private:
	struct scope_hot hot_;
};

SCOPE_INLINE_ void instant(name text) noexcept
{
	if (enabled()) {
		scope_instant(text.data(), text.size());
		SCOPE_AFTER_CALL_();
	}
}

SCOPE_INLINE_ void frame(name text) noexcept
{
	if (enabled()) {
		scope_frame(text.data(), text.size());
		SCOPE_AFTER_CALL_();
	}
}

template <typename number> SCOPE_INLINE_ void counter(name text, number value) noexcept
{
	static_assert(std::is_arithmetic<number>::value || std::is_enum<number>::value,
		      "a counter is a number");
	if (!enabled())
		return;
	if (std::is_floating_point<number>::value)
		scope_counter_double(text.data(), text.size(), static_cast<double>(value));
	else
		scope_counter(text.data(), text.size(), static_cast<std::int64_t>(value));
	SCOPE_AFTER_CALL_();
}

// What begins here and ends elsewhere, in another thread if need be.
SCOPE_INLINE_ void async_begin(name text, std::uint64_t id) noexcept
{
	if (enabled()) {
		scope_async_start(text.data(), text.size(), id);
		SCOPE_AFTER_CALL_();
	}
}

SCOPE_INLINE_ void async_end(name text, std::uint64_t id) noexcept
{
	if (enabled()) {
		scope_async_stop(text.data(), text.size(), id);
		SCOPE_AFTER_CALL_();
	}
}

// Of the innermost scope open in this thread.
template <typename number> SCOPE_INLINE_ void argument(name key, number value) noexcept
{
	static_assert(std::is_integral<number>::value || std::is_enum<number>::value,
		      "an argument is an integer");
	if (enabled()) {
		scope_argument(key.data(), key.size(), static_cast<std::int64_t>(value));
		SCOPE_AFTER_CALL_();
	}
}

SCOPE_INLINE_ void flow(std::uint64_t id) noexcept
{
	if (enabled()) {
		scope_flow(id);
		SCOPE_AFTER_CALL_();
	}
}

SCOPE_INLINE_ void thread_name(name text) noexcept
{
	scope_thread_name(text.data(), text.size());
	SCOPE_AFTER_CALL_();
}
} // namespace scope

#endif
