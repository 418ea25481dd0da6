// SPDX-License-Identifier: GPL-2.0-or-later
// Each macro and each class of libscope as the last thing that a function does; C as well (-x c). A function
// may not leave by a jump into the library: tests/api/last_call.sh looks at the code.
#include "scope.h"

#ifdef __cplusplus
#include "scope.hpp"
#define FUNCTION extern "C" __attribute__((noinline)) void
#else
#define FUNCTION __attribute__((noinline)) void
#endif

scope_token token;
void work(void);

// clang-format off
FUNCTION last_scope(void) { SCOPE("x"); work(); }
FUNCTION last_function(void) { SCOPE_FUNCTION(); work(); }
FUNCTION last_hot(void) { SCOPE_HOT("x"); work(); }
FUNCTION last_dynamic(const char *name) { SCOPE_DYNAMIC(name, 3); work(); }
FUNCTION last_begin(void) { work(); SCOPE_BEGIN(token, "x"); }
FUNCTION last_begin_unused(void) { scope_token id; work(); SCOPE_BEGIN(id, "x"); (void)id; }
FUNCTION last_end(void) { work(); SCOPE_END(token); }
FUNCTION last_end_of(scope_token id) { SCOPE_END(id); }
FUNCTION last_instant(void) { work(); SCOPE_INSTANT("x"); }
FUNCTION last_frame(void) { work(); SCOPE_FRAME("x"); }
FUNCTION last_counter(long value) { work(); SCOPE_COUNTER("x", value); }
FUNCTION last_counter_double(double value) { work(); SCOPE_COUNTER("x", value); }
FUNCTION last_async_begin(long id) { work(); SCOPE_ASYNC_BEGIN("x", id); }
FUNCTION last_async_end(long id) { work(); SCOPE_ASYNC_END("x", id); }
FUNCTION last_argument(long value) { work(); SCOPE_ARGUMENT("x", value); }
FUNCTION last_flow(long id) { work(); SCOPE_FLOW(id); }
FUNCTION last_thread_name(void) { work(); SCOPE_THREAD_NAME("x"); }

#ifdef __cplusplus
FUNCTION last_span(void) { scope::span span("x"); work(); }
FUNCTION last_span_stop(void) { scope::span span("x"); work(); span.stop(); }
FUNCTION last_hot_span(void) { scope::hot_span span("x"); work(); }
FUNCTION last_cpp_instant(void) { work(); scope::instant("x"); }
FUNCTION last_cpp_frame(void) { work(); scope::frame("x"); }
FUNCTION last_cpp_counter(long value) { work(); scope::counter("x", value); }
FUNCTION last_cpp_double(double value) { work(); scope::counter("x", value); }
FUNCTION last_cpp_async_begin(long id) { work(); scope::async_begin("x", id); }
FUNCTION last_cpp_async_end(long id) { work(); scope::async_end("x", id); }
FUNCTION last_cpp_argument(long value) { work(); scope::argument("x", value); }
FUNCTION last_cpp_flow(long id) { work(); scope::flow(id); }
FUNCTION last_cpp_thread_name(void) { work(); scope::thread_name("x"); }
#endif
// clang-format on
