/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libscope: scopes that a program's authors write by hand, for scopetrace to record. For C99, C11, C++11 and
 * later; link with libscope.a or libscope.so.
 *
 *     void frame(void)
 *     {
 *             SCOPE("frame");
 *             ...
 *     }
 *
 * While nobody records, a scope costs one test. All calls are async-signal-safe and leave errno alone, unless
 * it is said otherwise. Each macro is one statement and evaluates its arguments once. -DSCOPE_DISABLE turns
 * all of them into checks of their arguments' types, and the program need not link the library.
 */
#ifndef SCOPE_H
#define SCOPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A program that uses libscope as a Windows DLL defines SCOPE_DLL. */
#if defined(_WIN32) && defined(SCOPE_BUILD_DLL)
#define SCOPE_API __declspec(dllexport)
#elif defined(_WIN32) && defined(SCOPE_DLL)
#define SCOPE_API __declspec(dllimport)
#elif defined(__GNUC__) && !defined(_WIN32)
#define SCOPE_API __attribute__((visibility("default")))
#else
#define SCOPE_API
#endif

/* Without them (Visual C++) an aligned volatile word is read in one piece all the same. */
#if defined(__GNUC__)
#define SCOPE_MAY_ERR		__attribute__((warn_unused_result))
#define SCOPE_LOAD_(type, word) __atomic_load_n((const type *)(word), __ATOMIC_RELAXED)
#define SCOPE_UNLIKELY_(x)	__builtin_expect((x), 0)
#else
#define SCOPE_MAY_ERR
#define SCOPE_LOAD_(type, word) (*(const volatile type *)(word))
#define SCOPE_UNLIKELY_(x)	(x)
#endif

/*
 * A call of the library that stands last in a function must not be compiled to a jump: the caller would be
 * over, for who hooks it, before its own scope is. So these functions are always inlined, and a statement
 * that is no instruction follows each call.
 */
#if defined(__GNUC__)
#define SCOPE_INLINE_	    inline __attribute__((always_inline))
#define SCOPE_AFTER_CALL_() __asm__ volatile("" ::: "memory")
#else
#define SCOPE_INLINE_	    inline
#define SCOPE_AFTER_CALL_() ((void)0)
#endif

/* Stands for one started scope, 0 for one that is not recorded. Good only in the thread and process that
 * started it. */
typedef uint64_t scope_token;

/* A SCOPE_HOT under way. Its fields are the library's. */
struct scope_hot {
	uint64_t ticks;
	uint64_t segment;
	const char *name;
	size_t length;
	uint32_t events;
	uint32_t reserved;
};

enum scope_clock_choice {
	SCOPE_CLOCK_DEFAULT = 0, /* the cheapest that is sound on this machine */
	SCOPE_CLOCK_SYSTEM = 1,	 /* clock_gettime(CLOCK_MONOTONIC) */
};

/* Zero in any field but `size` means the default. Later versions append fields; both ways of mixing them
 * work. */
struct scope_options {
	size_t size;	/* sizeof(struct scope_options) */
	uint32_t rings; /* 1 to 128; default 16 */
	uint32_t
		slots_per_ring; /* a power of two, 8 to 4194304; default: 8 MiB for all rings together */
	uint32_t clock;		/* enum scope_clock_choice */
	uint32_t reserved;
};

#ifndef SCOPE_DISABLE

/*
 * Sets the sizes and the clock; call it before the first scope is recorded and before threads are made. It
 * takes effect unless somebody records already. The environment (SCOPE_RINGS, SCOPE_SLOTS,
 * SCOPE_CLOCK=monotonic) goes before the options. 0; -EINVAL for options that cannot be; -EBUSY when it comes
 * too late; -ENOMEM and the like when there is no memory for it, and then the program goes on as it was. Not
 * async-signal-safe.
 */
SCOPE_API int scope_init(const struct scope_options *options) SCOPE_MAY_ERR;

/*
 * What the macros call, and what a binding for another language calls. They may be called while nobody
 * records; the macros test scope_enabled first because that is cheaper. `name` is `length` bytes, at most
 * 1024 of which are kept; it need not outlive the call, but that of a hot scope must last until it stops.
 */
SCOPE_API scope_token scope_start(const char *name, size_t length);
SCOPE_API void scope_stop(scope_token token);
SCOPE_API void scope_hot_start(struct scope_hot *hot, const char *name, size_t length);
SCOPE_API void scope_hot_stop(const struct scope_hot *hot);
SCOPE_API void scope_instant(const char *name, size_t length);
SCOPE_API void scope_frame(const char *name, size_t length);
SCOPE_API void scope_counter(const char *name, size_t length, int64_t value);
SCOPE_API void scope_counter_double(const char *name, size_t length, double value);
SCOPE_API void scope_async_start(const char *name, size_t length, uint64_t id);
SCOPE_API void scope_async_stop(const char *name, size_t length, uint64_t id);
SCOPE_API void scope_argument(const char *key, size_t length, int64_t value);
SCOPE_API void scope_flow(uint64_t id);
/* Kept, so that a capture that begins later knows it too (then at most the first 64 bytes). */
SCOPE_API void scope_thread_name(const char *name, size_t length);

/* scope_enabled as a function, for bindings. */
SCOPE_API int scope_is_enabled(void);

/*
 * The library's own; only scope_enabled looks into it. The first page is private to a process: fork hands on
 * zeroes. With `offset` zero the word tested below is `armed`, so that the first scope of a forked child
 * finds its way to the library and gets a segment of its own.
 */
#if defined(__x86_64__) || defined(__i386__) || defined(_WIN32)
#define SCOPE_GATE_PAGE 4096
#else
#define SCOPE_GATE_PAGE 65536
#endif
struct scope_gate {
	uintptr_t offset; /* from `armed` to the word that says whether anybody records */
	uintptr_t segment;
	unsigned char page[SCOPE_GATE_PAGE - 2 * sizeof(uintptr_t)];
	uint64_t armed;
};
extern SCOPE_API struct scope_gate scope_gate;

/* Whether anybody records just now: one relaxed load of a word that the recorder sets. */
static inline int scope_enabled(void)
{
	uintptr_t word = (uintptr_t)&scope_gate.armed + SCOPE_LOAD_(uintptr_t, &scope_gate.offset);

	return SCOPE_UNLIKELY_(SCOPE_LOAD_(uint64_t, word) != 0) != 0;
}

/* A variable for the token would be one more for setjmp to clobber; SCOPE_BEGIN adds what follows the call. */
static SCOPE_INLINE_ scope_token scope_begin_if_enabled(const char *name, size_t length)
{
	return scope_enabled() ? scope_start(name, length) : 0;
}

static SCOPE_INLINE_ void scope_after_call(void)
{
	SCOPE_AFTER_CALL_();
}

static SCOPE_INLINE_ void scope_end_if_begun(scope_token token)
{
	if (SCOPE_UNLIKELY_(token != 0)) {
		scope_stop(token);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_instant_if_enabled(const char *name, size_t length)
{
	if (scope_enabled()) {
		scope_instant(name, length);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_frame_if_enabled(const char *name, size_t length)
{
	if (scope_enabled()) {
		scope_frame(name, length);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_counter_if_enabled(const char *name, size_t length, int64_t value)
{
	if (scope_enabled()) {
		scope_counter(name, length, value);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_counter_double_if_enabled(const char *name, size_t length,
							  double value)
{
	if (scope_enabled()) {
		scope_counter_double(name, length, value);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_async_start_if_enabled(const char *name, size_t length, uint64_t id)
{
	if (scope_enabled()) {
		scope_async_start(name, length, id);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_async_stop_if_enabled(const char *name, size_t length, uint64_t id)
{
	if (scope_enabled()) {
		scope_async_stop(name, length, id);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_argument_if_enabled(const char *key, size_t length, int64_t value)
{
	if (scope_enabled()) {
		scope_argument(key, length, value);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_flow_if_enabled(uint64_t id)
{
	if (scope_enabled()) {
		scope_flow(id);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ struct scope_hot scope_hot_if_enabled(const char *name, size_t length)
{
	struct scope_hot hot;

	hot.ticks = 0;
	if (scope_enabled()) {
		scope_hot_start(&hot, name, length);
		SCOPE_AFTER_CALL_();
	}
	return hot;
}

static SCOPE_INLINE_ void scope_hot_end_if_begun(const struct scope_hot *hot)
{
	if (SCOPE_UNLIKELY_(hot->ticks != 0)) {
		scope_hot_stop(hot);
		SCOPE_AFTER_CALL_();
	}
}

static SCOPE_INLINE_ void scope_name_thread(const char *name, size_t length)
{
	scope_thread_name(name, length);
	SCOPE_AFTER_CALL_();
}

#ifdef __cplusplus
} /* extern "C" */

/* Ends its scope with the block, exceptions included. */
class scope_block
{
      public:
	SCOPE_INLINE_ scope_block(const char *name, size_t length) noexcept
	    : token_(scope_begin_if_enabled(name, length))
	{
	}
	SCOPE_INLINE_ ~scope_block() { scope_end_if_begun(token_); }
	scope_block(const scope_block &) = delete;
	scope_block &operator=(const scope_block &) = delete;

      private:
	scope_token token_;
};

class scope_hot_block
{
      public:
	SCOPE_INLINE_ scope_hot_block(const char *name, size_t length) noexcept
	    : hot_(scope_hot_if_enabled(name, length))
	{
	}
	SCOPE_INLINE_ ~scope_hot_block() { scope_hot_end_if_begun(&hot_); }
	scope_hot_block(const scope_hot_block &) = delete;
	scope_hot_block &operator=(const scope_hot_block &) = delete;

      private:
	struct scope_hot hot_;
};

/* For integers of any type, bool and enum promoted, and for floating point. Of a pointer it does not compile.
 */
template <typename T>
SCOPE_INLINE_ void scope_count_if_enabled(const char *name, size_t length, T value) noexcept
{
	if (static_cast<T>(1.5) > static_cast<T>(1))
		scope_counter_double_if_enabled(name, length, static_cast<double>(value));
	else
		scope_counter_if_enabled(name, length, static_cast<int64_t>(value));
}

#define SCOPE_BLOCK_(name, length) const scope_block SCOPE_UNIQUE_(scope_block_)(name, length)
#define SCOPE_HOT_BLOCK_(name, length) \
	const scope_hot_block SCOPE_UNIQUE_(scope_hot_block_)(name, length)
#define SCOPE_COUNT_(name, value) scope_count_if_enabled(SCOPE_LITERAL_(name), (value) + 0)
extern "C" {
#elif defined(__GNUC__)
static SCOPE_INLINE_ void scope_block_end(const scope_token *token)
{
	scope_end_if_begun(*token);
}

#define SCOPE_BLOCK_(name, length)                                  \
	const scope_token SCOPE_UNIQUE_(scope_block_)               \
		__attribute__((cleanup(scope_block_end), unused)) = \
			scope_begin_if_enabled(name, length)
#define SCOPE_HOT_BLOCK_(name, length)                                     \
	const struct scope_hot SCOPE_UNIQUE_(scope_hot_block_)             \
		__attribute__((cleanup(scope_hot_end_if_begun), unused)) = \
			scope_hot_if_enabled(name, length)

/* True of floating point; the other arm of the choice is never run, and of a pointer neither compiles. */
#define SCOPE_FLOATING_(value) ((__typeof__((value) + 0))1.5 > 1)
#define SCOPE_COUNT_(name, value)                                                         \
	(SCOPE_FLOATING_(value)                                                           \
		 ? scope_counter_double_if_enabled(SCOPE_LITERAL_(name), (double)(value)) \
		 : scope_counter_if_enabled(SCOPE_LITERAL_(name), (int64_t)(value)))
#else
/* A C compiler without the cleanup attribute: SCOPE_BEGIN and SCOPE_END must do, and C11 tells types apart.
 */
#define SCOPE_COUNT_(name, value)                           \
	_Generic((value) + 0, long double                   \
		 : scope_counter_double_if_enabled, float   \
		 : scope_counter_double_if_enabled, double  \
		 : scope_counter_double_if_enabled, default \
		 : scope_counter_if_enabled)(SCOPE_LITERAL_(name), value)
#endif

/* The two arguments of a function that takes a name. Only a literal compiles. */
#define SCOPE_LITERAL_(name) "" name "", sizeof("" name "") - 1

#define SCOPE_JOIN_AGAIN_(a, b) a##b
#define SCOPE_JOIN_(a, b)	SCOPE_JOIN_AGAIN_(a, b)
#define SCOPE_UNIQUE_(prefix)	SCOPE_JOIN_(prefix, __COUNTER__)

/* A scope from here to the end of the block. Names are string literals, but for SCOPE_DYNAMIC's. */
#define SCOPE(name) SCOPE_BLOCK_("" name "", sizeof("" name "") - 1)

/* The same, named after the function it stands in. */
#define SCOPE_FUNCTION() SCOPE_BLOCK_(__func__, sizeof(__func__) - 1)

/* The same, named by `length` bytes (at most 1024 are kept) at `pointer`, which may change afterwards. */
#define SCOPE_DYNAMIC(pointer, length) SCOPE_BLOCK_(pointer, length)

/* The same with half the records: one when it ends, and nothing to be seen of it before that. */
#define SCOPE_HOT(name) SCOPE_HOT_BLOCK_("" name "", sizeof("" name "") - 1)

/* A scope from here to SCOPE_END(id), anywhere in the same thread. `id` is a variable of type scope_token. */
#define SCOPE_BEGIN(id, name) \
	((void)((id) = scope_begin_if_enabled(SCOPE_LITERAL_(name))), scope_after_call())
#define SCOPE_END(id) scope_end_if_begun(id)

/* A point in time. */
#define SCOPE_INSTANT(name) scope_instant_if_enabled(SCOPE_LITERAL_(name))

/* Between two frames of the main loop, of the audio callback ...: from each mark to the next of this name in
 * this thread it is one frame. */
#define SCOPE_FRAME(name) scope_frame_if_enabled(SCOPE_LITERAL_(name))

/* A number that changes over time: any integer or floating-point value. One line for the process, whichever
 * thread sets it. */
#define SCOPE_COUNTER(name, value) SCOPE_COUNT_(name, value)

/*
 * What begins here and ends elsewhere, in another thread if need be: the SCOPE_ASYNC_END of the same name and
 * id. Of several that are open with the same name and id it ends the last one. `id` is an integer or a
 * pointer.
 */
#define SCOPE_ASYNC_BEGIN(name, id) \
	scope_async_start_if_enabled(SCOPE_LITERAL_(name), (uint64_t)(id))
#define SCOPE_ASYNC_END(name, id) scope_async_stop_if_enabled(SCOPE_LITERAL_(name), (uint64_t)(id))

/* An integer that belongs to the innermost scope open in this thread. */
#define SCOPE_ARGUMENT(key, value) \
	scope_argument_if_enabled(SCOPE_LITERAL_(key), (int64_t)((value) | 0))

/* Ties the innermost scope open in this thread to all scopes of this process that name the same id, in the
 * order of time. `id` is an integer or a pointer. */
#define SCOPE_FLOW(id) scope_flow_if_enabled((uint64_t)(id))

/* Names this thread, from now on. */
#define SCOPE_THREAD_NAME(name) scope_name_thread(SCOPE_LITERAL_(name))

#else /* SCOPE_DISABLE */

static inline int scope_init(const struct scope_options *options)
{
	(void)options;
	return 0;
}
static inline int scope_enabled(void)
{
	return 0;
}
static inline scope_token scope_start(const char *name, size_t length)
{
	(void)name;
	(void)length;
	return 0;
}
static inline void scope_stop(scope_token token)
{
	(void)token;
}
static inline void scope_hot_start(struct scope_hot *hot, const char *name, size_t length)
{
	(void)hot;
	(void)name;
	(void)length;
}
static inline void scope_hot_stop(const struct scope_hot *hot)
{
	(void)hot;
}
static inline void scope_instant(const char *name, size_t length)
{
	(void)name;
	(void)length;
}
static inline void scope_thread_name(const char *name, size_t length)
{
	(void)name;
	(void)length;
}
static inline int scope_is_enabled(void)
{
	return 0;
}
static inline void scope_frame(const char *name, size_t length)
{
	(void)name;
	(void)length;
}
static inline void scope_counter(const char *name, size_t length, int64_t value)
{
	(void)name;
	(void)length;
	(void)value;
}
static inline void scope_counter_double(const char *name, size_t length, double value)
{
	(void)name;
	(void)length;
	(void)value;
}
static inline void scope_async_start(const char *name, size_t length, uint64_t id)
{
	(void)name;
	(void)length;
	(void)id;
}
static inline void scope_async_stop(const char *name, size_t length, uint64_t id)
{
	(void)name;
	(void)length;
	(void)id;
}
static inline void scope_argument(const char *key, size_t length, int64_t value)
{
	(void)key;
	(void)length;
	(void)value;
}
static inline void scope_flow(uint64_t id)
{
	(void)id;
}

/* Looked at by the compiler, never run. */
#define SCOPE_NEVER_(expression)       (0 ? (void)(expression) : (void)0)
#define SCOPE_CHECK_(name)	       ((void)sizeof("" name ""))
#define SCOPE(name)		       SCOPE_CHECK_(name)
#define SCOPE_FUNCTION()	       ((void)sizeof(__func__))
#define SCOPE_DYNAMIC(pointer, length) SCOPE_NEVER_(scope_start(pointer, length))
#define SCOPE_HOT(name)		       SCOPE_CHECK_(name)
#define SCOPE_BEGIN(id, name)	       SCOPE_NEVER_((id) = sizeof("" name "") * 0)
#define SCOPE_END(id)		       SCOPE_NEVER_(scope_stop(id))
#define SCOPE_INSTANT(name)	       SCOPE_CHECK_(name)
#define SCOPE_FRAME(name)	       SCOPE_CHECK_(name)
#define SCOPE_COUNTER(name, value)     SCOPE_NEVER_((double)((value) + 0) * sizeof("" name ""))
#define SCOPE_ASYNC_BEGIN(name, id)    SCOPE_NEVER_((uint64_t)(id) * sizeof("" name ""))
#define SCOPE_ASYNC_END(name, id)      SCOPE_NEVER_((uint64_t)(id) * sizeof("" name ""))
#define SCOPE_ARGUMENT(key, value)     SCOPE_NEVER_((int64_t)((value) | 0) * (int64_t)sizeof("" key ""))
#define SCOPE_FLOW(id)		       SCOPE_NEVER_((uint64_t)(id))
#define SCOPE_THREAD_NAME(name)	       SCOPE_CHECK_(name)

#endif /* SCOPE_DISABLE */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
