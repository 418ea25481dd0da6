/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs of the pairing tests share: with --wait-go they print `pid N` and call nothing
 * that is traced before a line comes in on stdin. wait_for_go takes that argument away, and returns
 * how many are left, argv[0] included.
 */
#ifndef SCOPETRACE_TARGETS_TRACED_H
#define SCOPETRACE_TARGETS_TRACED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __clang__ /* makes no clones */
#define OUT_OF_LINE __attribute__((noinline))
#else
#define OUT_OF_LINE __attribute__((noinline, noclone))
#endif

/* Keeps a call out of tail position. */
#define NOT_LAST() __asm__ volatile("" ::: "memory")

static inline int wait_for_go(int argc, char **argv)
{
	char line[16];

	if (argc < 2 || strcmp(argv[1], "--wait-go") != 0)
		return argc;
	printf("pid %d\n", getpid());
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(2);
	memmove(&argv[1], &argv[2], (size_t)(argc - 1) * sizeof(*argv));
	return argc - 1;
}

#endif
