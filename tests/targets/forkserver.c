// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that forks without exec: its children call what it called. handle() is called 2000
 * times before the first fork, and then once by each of 20 parents and children. With `raw` it
 * forks by a system call of its own, which no import of fork tells. The truth line says how many
 * children died by a signal: none may.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "traced.h"

static volatile long sum;

OUT_OF_LINE static void handle(long number)
{
	sum += number;
	NOT_LAST();
}

static pid_t make_child(int raw)
{
	return raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
}

int main(int argc, char **argv)
{
	int raw, died = 0, status;

	argc = wait_for_go(argc, argv);
	raw = argc > 1 && strcmp(argv[1], "raw") == 0;
	/* Often enough for the kernel to have optimised the probe. */
	for (long i = 0; i < 2000; i++)
		handle(i);
	for (int i = 0; i < 20; i++) {
		pid_t child = make_child(raw);

		handle(i);
		if (child == 0)
			_exit(0);
		if (waitpid(child, &status, 0) != child || WIFSIGNALED(status))
			died++;
	}
	printf("truth handle=2020/2020 died=%d\n", died);
	return died != 0;
}
