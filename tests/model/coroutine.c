// SPDX-License-Identifier: GPL-2.0-or-later
#include "coroutine.h"

#include <stddef.h>
#include <stdlib.h>

/* makecontext passes no pointers, and the coroutines share their thread: what runs is known here. */
static struct coroutine *current;
static jmp_buf scheduler;

static void run(void)
{
	current->body(current->argument);
	current->done = true;
	_longjmp(scheduler, 1);
}

void coroutine_prepare(struct coroutine *coroutine, void (*body)(void *argument), void *argument)
{
	coroutine->body = body;
	coroutine->argument = argument;
	coroutine->started = false;
	coroutine->done = false;
}

static void start(struct coroutine *coroutine)
{
	coroutine->started = true;
	getcontext(&coroutine->context);
	coroutine->context.uc_stack.ss_sp = coroutine->stack;
	coroutine->context.uc_stack.ss_size = sizeof(coroutine->stack);
	coroutine->context.uc_link = NULL;
	makecontext(&coroutine->context, run, 0);
	setcontext(&coroutine->context);
	abort();
}

void coroutine_resume(struct coroutine *coroutine)
{
	current = coroutine;
	if (_setjmp(scheduler) == 0) {
		if (coroutine->started)
			_longjmp(coroutine->stopped_at, 1);
		start(coroutine);
	}
	current = NULL;
}

void coroutine_stop(void)
{
	if (_setjmp(current->stopped_at) == 0)
		_longjmp(scheduler, 1);
}

struct coroutine *coroutine_current(void)
{
	return current;
}
