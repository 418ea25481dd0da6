/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Threads that run one at a time, from one stop to the next, as the caller says. Purpose: to try each
 * interleaving of real code. All of them run in the calling thread. One scheduler at a time.
 */
#ifndef TESTS_MODEL_COROUTINE_H
#define TESTS_MODEL_COROUTINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <ucontext.h>

struct coroutine {
	void (*body)(void *argument);
	void *argument;
	bool started;
	bool done;
	jmp_buf stopped_at;
	ucontext_t context;
	_Alignas(16) char stack[32768];
};

/* Ready to run from the beginning, whatever it did before. */
void coroutine_prepare(struct coroutine *coroutine, void (*body)(void *argument), void *argument);
/* Runs it until it stops or is done. */
void coroutine_resume(struct coroutine *coroutine);
/* Called in a coroutine: back to whoever resumed it. */
void coroutine_stop(void);
/* The one that runs now, or NULL. */
struct coroutine *coroutine_current(void);

#endif
