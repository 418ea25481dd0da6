// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that nothing in could throw, until it maps a file of another kind: FILE, executable, as
 * a loader
 *of its own would. Before that, and after it (when a line comes in), it calls work() CALLS times; deep() is
 *running all the while.
 *
 *	maplater [--wait-go] FILE CALLS
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "traced.h"

int work(int i);
int deep(const char *file, int calls);

OUT_OF_LINE int work(int i)
{
	NOT_LAST();
	return i + 1;
}

static void call_work(int calls)
{
	for (int i = 0; i < calls; i++)
		work(i);
}

OUT_OF_LINE int deep(const char *file, int calls)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	char line[16];

	call_work(calls);
	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED) {
		perror(file);
		return 1;
	}
	puts("mapped");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	call_work(calls);
	return 0;
}

int main(int argc, char **argv)
{
	int status;

	argc = wait_for_go(argc, argv);
	if (argc != 3)
		return 2;
	status = deep(argv[1], atoi(argv[2]));
	printf("truth work=%d deep=1\n", 2 * atoi(argv[2]));
	return status;
}
