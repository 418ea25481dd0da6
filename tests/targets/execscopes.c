// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exec() of a program with manual scopes: prints "pid N", "before on" once somebody records, and
 * after a line
 *on stdin calls work() ten times, each time in a scope before0 ... before9. After one more line it runs
 *itself again by exec, called by its first thread or by another, and does the same once more, with "after".
 *
 *	execscopes main|thread
 */
#include <pthread.h>
#include <time.h>

#include "scope.h"
#include "traced.h"

void work(int i);

enum { CALLS = 10 };

static volatile long sink;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

static void await_line(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(2);
}

static void call(const char *when)
{
	while (!scope_enabled())
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	printf("%s on\n", when);
	fflush(stdout);
	await_line();
	for (int i = 0; i < CALLS; i++) {
		char name[16];
		int length = snprintf(name, sizeof(name), "%s%d", when, i);
		scope_token scope = scope_start(name, (size_t)length);

		work(i);
		scope_stop(scope);
	}
	printf("%s called\n", when);
	fflush(stdout);
	await_line();
}

static void *replace(void *program)
{
	execl("/proc/self/exe", program, "again", NULL);
	exit(1);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	setvbuf(stdin, NULL, _IONBF, 0); /* what is not read is the next program's */
	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "again") == 0) {
		call("after");
		return 0;
	}
	printf("pid %d\n", (int)getpid());
	fflush(stdout);
	call("before");
	if (strcmp(argv[1], "main") == 0)
		replace(argv[0]);
	else if (!pthread_create(&thread, NULL, replace, argv[0]))
		pthread_join(thread, NULL);
	return 1;
}
