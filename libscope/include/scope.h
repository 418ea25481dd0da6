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

#if defined(__GNUC__)
#define SCOPE_API     __attribute__((visibility("default")))
#define SCOPE_MAY_ERR __attribute__((warn_unused_result))
#else
#define SCOPE_API
#define SCOPE_MAY_ERR
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
};

enum scope_clock_choice {
	SCOPE_CLOCK_DEFAULT = 0, /* the cheapest that is sound on this machine */
	SCOPE_CLOCK_SYSTEM = 1,	 /* clock_gettime(CLOCK_MONOTONIC) */
};

/* Zero in any field but `size` means the default. */
struct scope_options {
	size_t size;		 /* sizeof(struct scope_options) */
	uint32_t rings;		 /* 1 to 128; default 16 */
	uint32_t slots_per_ring; /* a power of two, 8 to 4194304; default: 8 MiB for all rings together */
	uint32_t clock;		 /* enum scope_clock_choice */
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

/* What the macros call. `name` need not outlive the call, that of a hot scope must last until it stops. */
SCOPE_API scope_token scope_start(const char *name, size_t length);
SCOPE_API void scope_stop(scope_token token);
SCOPE_API void scope_hot_start(struct scope_hot *hot, const char *name, size_t length);
SCOPE_API void scope_hot_stop(const struct scope_hot *hot);
SCOPE_API void scope_instant(const char *name, size_t length);
/* Kept, so that a capture that begins later knows it too (then at most the first 64 bytes). */
SCOPE_API void scope_thread_name(const char *name, size_t length);

/*
 * The library's own; only scope_enabled looks into it. The first page is private to a process: fork hands on
 * zeroes. With `offset` zero the word tested below is `armed`, so that the first scope of a forked child
 * finds its way to the library and gets a segment of its own.
 */
#if defined(__x86_64__) || defined(__i386__)
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
	uintptr_t word = (uintptr_t)&scope_gate.armed + __atomic_load_n(&scope_gate.offset, __ATOMIC_RELAXED);

	return __builtin_expect(__atomic_load_n((const uint64_t *)word, __ATOMIC_RELAXED) != 0, 0);
}

static inline scope_token scope_begin_if_enabled(const char *name, size_t length)
{
	return scope_enabled() ? scope_start(name, length) : 0;
}

static inline void scope_end_if_begun(scope_token token)
{
	if (__builtin_expect(token != 0, 0))
		scope_stop(token);
}

static inline void scope_instant_if_enabled(const char *name, size_t length)
{
	if (scope_enabled())
		scope_instant(name, length);
}

static inline struct scope_hot scope_hot_if_enabled(const char *name, size_t length)
{
	struct scope_hot hot;

	hot.ticks = 0;
	if (scope_enabled())
		scope_hot_start(&hot, name, length);
	return hot;
}

static inline void scope_hot_end_if_begun(const struct scope_hot *hot)
{
	if (__builtin_expect(hot->ticks != 0, 0))
		scope_hot_stop(hot);
}

#ifdef __cplusplus
} /* extern "C" */

/* Ends its scope with the block, exceptions included. */
class scope_block
{
      public:
	scope_block(const char *name, size_t length) noexcept : token_(scope_begin_if_enabled(name, length))
	{
	}
	~scope_block() { scope_end_if_begun(token_); }
	scope_block(const scope_block &) = delete;
	scope_block &operator=(const scope_block &) = delete;

      private:
	scope_token token_;
};

class scope_hot_block
{
      public:
	scope_hot_block(const char *name, size_t length) noexcept : hot_(scope_hot_if_enabled(name, length))
	{
	}
	~scope_hot_block() { scope_hot_end_if_begun(&hot_); }
	scope_hot_block(const scope_hot_block &) = delete;
	scope_hot_block &operator=(const scope_hot_block &) = delete;

      private:
	struct scope_hot hot_;
};

#define SCOPE_BLOCK_(name, length)     const scope_block SCOPE_UNIQUE_(scope_block_)(name, length)
#define SCOPE_HOT_BLOCK_(name, length) const scope_hot_block SCOPE_UNIQUE_(scope_hot_block_)(name, length)
extern "C" {
#else
static inline void scope_block_end(const scope_token *token)
{
	scope_end_if_begun(*token);
}

#define SCOPE_BLOCK_(name, length)                                                                        \
	const scope_token SCOPE_UNIQUE_(scope_block_) __attribute__((cleanup(scope_block_end), unused)) = \
		scope_begin_if_enabled(name, length)
#define SCOPE_HOT_BLOCK_(name, length)                                     \
	const struct scope_hot SCOPE_UNIQUE_(scope_hot_block_)             \
		__attribute__((cleanup(scope_hot_end_if_begun), unused)) = \
			scope_hot_if_enabled(name, length)
#endif

#define SCOPE_JOIN_AGAIN_(a, b) a##b
#define SCOPE_JOIN_(a, b)	SCOPE_JOIN_AGAIN_(a, b)
#define SCOPE_UNIQUE_(prefix)	SCOPE_JOIN_(prefix, __COUNTER__)

/* A scope from here to the end of the block. Names are string literals, but for SCOPE_DYNAMIC's. */
#define SCOPE(name) SCOPE_BLOCK_("" name "", sizeof("" name "") - 1)

/* The same, named after the function it stands in. */
#define SCOPE_FUNCTION() SCOPE_BLOCK_(__func__, sizeof(__func__) - 1)

/* The same, named by `length` bytes (at most 1024 are kept) at `pointer`, which may change afterwards. */
#define SCOPE_DYNAMIC(pointer, length) SCOPE_BLOCK_(pointer, length)

/* The same at half the cost: one record when it ends, and nothing to be seen of it before that. */
#define SCOPE_HOT(name) SCOPE_HOT_BLOCK_("" name "", sizeof("" name "") - 1)

/* A scope from here to SCOPE_END(id), anywhere in the same thread. `id` is a variable of type scope_token. */
#define SCOPE_BEGIN(id, name) ((void)((id) = scope_begin_if_enabled("" name "", sizeof("" name "") - 1)))
#define SCOPE_END(id)	      scope_end_if_begun(id)

/* A point in time. */
#define SCOPE_INSTANT(name) scope_instant_if_enabled("" name "", sizeof("" name "") - 1)

/* Names this thread, from now on. */
#define SCOPE_THREAD_NAME(name) scope_thread_name("" name "", sizeof("" name "") - 1)

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

#define SCOPE_CHECK_(name)	       ((void)sizeof("" name ""))
#define SCOPE(name)		       SCOPE_CHECK_(name)
#define SCOPE_FUNCTION()	       ((void)sizeof(__func__))
#define SCOPE_DYNAMIC(pointer, length) (0 ? (void)scope_start(pointer, length) : (void)0)
#define SCOPE_HOT(name)		       SCOPE_CHECK_(name)
#define SCOPE_BEGIN(id, name)	       ((void)((id) = sizeof("" name "") * 0))
#define SCOPE_END(id)		       scope_stop(id)
#define SCOPE_INSTANT(name)	       SCOPE_CHECK_(name)
#define SCOPE_THREAD_NAME(name)	       SCOPE_CHECK_(name)

#endif /* SCOPE_DISABLE */

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
