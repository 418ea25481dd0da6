// SPDX-License-Identifier: GPL-2.0-or-later
/* What this binary does when a test runs it again: all of it before main, so that Criterion does not begin.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"

/* The first scope of a program, before main. */
static void role_first_scope(int from, int to)
{
	{
		SCOPE("first");
	}
	step(to);
	wait_step(from);
}

/* Where there can be no segment, all calls do nothing. */
static void role_unmeasured(int from, int to)
{
	scope_token token = 1;

	(void)from;
	if (scope_gate.segment || scope_enabled())
		_exit(1);
	SCOPE_BEGIN(token, "nothing");
	if (token || scope_start("nothing", 7))
		_exit(2);
	SCOPE_INSTANT("nothing");
	SCOPE_THREAD_NAME("nobody");
	step(to);
}

static bool exiting;

static void *be_busy(void *argument)
{
	for (;;)
		SCOPE_INSTANT("busy");
	return argument;
}

static void handle_exit(void)
{
	SCOPE("in atexit");
}

__attribute__((destructor)) static void destroy(void)
{
	if (!exiting)
		return;
	SCOPE("in a destructor");
}

/* Ends by exit while its threads write; the records of its handlers come meanwhile. */
static void role_exiting(int from, int to)
{
	pthread_t thread;

	step(to);
	wait_step(from);
	exiting = true;
	atexit(handle_exit);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, be_busy, NULL) != 0)
			_exit(1);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	exit(0);
}

/* A scope of its own, then a child which makes its segment, tells its pid and waits. */
static void role_forking(int from, int to)
{
	int status = 1;
	pid_t pid;

	{
		SCOPE("of the launched");
	}
	pid = fork();
	if (pid == 0) {
		SCOPE("of its child");
		pid = getpid();
		if (write(to, &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		wait_step(from);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(1);
}

static const struct {
	const char *name;
	void (*play)(int from, int to);
} roles[] = {
	{"first scope", role_first_scope},
	{"unmeasured", role_unmeasured},
	{"exiting", role_exiting},
	{"forking", role_forking},
};

__attribute__((constructor(65000))) static void play_role(void)
{
	const char *role = getenv("LIBSCOPE_ROLE");

	if (!role)
		return;
	for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
		if (strcmp(role, roles[i].name) == 0)
			roles[i].play(atoi(getenv("LIBSCOPE_ROLE_FROM")), atoi(getenv("LIBSCOPE_ROLE_TO")));
	_exit(0);
}
