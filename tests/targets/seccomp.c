// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program that shuts itself in: after a first hundred calls it installs a seccomp filter that
 * lets through what it needs itself and kills it (SIGSYS) at any other system call, then goes on
 * calling. With "forbidden" it makes such a system call at the end, which shows that the filter is
 * in force.
 *
 *	seccomp [--wait-go] [CALLS] [forbidden]		10000 by default
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "account.h"

void outer(int i);
void inner(int i);

static struct account outer_calls, inner_calls;

OUT_OF_LINE void inner(int i)
{
	enter(&inner_calls);
	account_sink = i;
	leave(&inner_calls);
}

OUT_OF_LINE void outer(int i)
{
	enter(&outer_calls);
	inner(i);
	leave(&outer_calls);
}

#define ALLOW(number)                                        \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* What stdio and exit need, nothing of what a tracer's trampolines may want. */
static int shut_in(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		ALLOW(SYS_read),
		ALLOW(SYS_write),
		ALLOW(SYS_exit_group),
		ALLOW(SYS_newfstatat),
		ALLOW(SYS_brk),
		ALLOW(SYS_getrandom),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

int main(int argc, char **argv)
{
	int calls, i;

	argc = wait_for_go(argc, argv);
	calls = argc > 1 ? atoi(argv[1]) : 10000;
	for (i = 0; i < 100 && i < calls; i++)
		outer(i);
	if (shut_in())
		return 2;
	for (; i < calls; i++)
		outer(i);
	if (argc > 2 && !strcmp(argv[2], "forbidden"))
		getppid();
	printf("truth");
	TELL(outer);
	TELL(inner);
	printf("\n");
	return 0;
}
