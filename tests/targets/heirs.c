// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Children that inherit the breakpoints. Before it can be traced the program keeps the first bytes
 * of work();
 *each child calls work() and compares, until the bytes are as they were, and then ends. `grandchild`: the
 *child makes one more and ends at once, and it is that one which waits. `thread`: there is but one child, its
 *first thread ends at once, and another of its threads waits. `storm N`: N children end at once beside. The
 *truth is that of the first process, which calls work() all the while, and CALLS times before it forks.
 *
 *	heirs [--wait-go] child|grandchild|thread|storm [N [CALLS]]
 */
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "traced.h"

void work(int i);

enum {
	CHILDREN = 3,
	BYTES = 16,
	PATIENCE = 60, /* s */
};

static volatile long sink;
static unsigned char before[BYTES];
static long calls;

OUT_OF_LINE void work(int i)
{
	sink += i;
	NOT_LAST();
}

static void keep_bytes(void)
{
	memcpy(before, (const void *)work, BYTES);
}

/* Dies by SIGALRM if the bytes never are what they were. */
static void wait_until_free(void)
{
	alarm(PATIENCE);
	do {
		work(1);
		usleep(200);
	} while (memcmp(before, (const void *)(volatile void *)work, BYTES) != 0);
	work(2);
	_exit(0);
}

static void *wait_in_thread(void *unused)
{
	wait_until_free();
	return unused;
}

static void make_heir(const char *how)
{
	pid_t child = fork();
	pthread_t thread;

	if (child)
		return;
	if (strcmp(how, "grandchild") == 0 && fork())
		_exit(0);
	if (strcmp(how, "thread") == 0) {
		if (pthread_create(&thread, NULL, wait_in_thread, NULL))
			_exit(1);
		syscall(SYS_exit, 0);
	}
	wait_until_free();
}

static void storm(int count)
{
	for (int i = 0; i < count; i++) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
		work(i);
		calls++;
	}
}

/* Those of the children that are handed to us by the end of theirs, too. */
static int count_failures(void)
{
	int status, failures = 0;

	for (;;) {
		pid_t ended = waitpid(-1, &status, WNOHANG);

		if (ended < 0)
			return failures;
		if (ended > 0)
			failures += !WIFEXITED(status) || WEXITSTATUS(status);
		work(0);
		calls++;
		usleep(1000);
	}
}

int main(int argc, char **argv)
{
	int failures, children;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	keep_bytes();
	argc = wait_for_go(argc, argv);
	for (calls = 0; calls < (argc > 3 ? atol(argv[3]) : 1); calls++)
		work(0);
	children = argc > 1 && strcmp(argv[1], "thread") == 0 ? 1 : CHILDREN;
	for (int i = 0; i < children; i++)
		make_heir(argc > 1 ? argv[1] : "child");
	puts("forked");
	fflush(stdout);
	if (argc > 2)
		storm(atoi(argv[2]));
	failures = count_failures();
	printf("truth work=%ld/%ld failures=%d/0\n", calls, calls, failures);
	return failures != 0;
}
