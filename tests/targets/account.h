/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a program of the hazard tests counts what it does: each traced function NAME has an `account
 * NAME_calls`, calls enter() first and leave() just before it returns. What entered and did not
 * leave was left in another way: by an exception, a thread's end, the end of the program. Any
 * thread may count. The truth line at the end is `truth NAME=ENTRIES/RETURNS ...`, or
 * NAME=ENTRIES/RETURNS/OPEN where it is known how many of those that did not return were still
 * running, or suspended, at the end of all.
 */
#ifndef SCOPETRACE_TARGETS_ACCOUNT_H
#define SCOPETRACE_TARGETS_ACCOUNT_H

#include "traced.h"

struct account {
	long entries;
	long returns;
};

static volatile long account_sink;

static inline void enter(struct account *account)
{
	account_sink = 1; /* first: the kernel refuses a probe on a locked instruction */
	__atomic_fetch_add(&account->entries, 1, __ATOMIC_RELAXED);
}

static inline void leave(struct account *account)
{
	__atomic_fetch_add(&account->returns, 1, __ATOMIC_RELAXED);
	NOT_LAST();
}

/* What was told is seen, and the program goes no further before a line comes in. */
static inline void hold(void)
{
	char line[16];

	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return; /* untraced, with nobody to send one */
}

#define TELL(name) printf(" " #name "=%ld/%ld", name##_calls.entries, name##_calls.returns)

#define TELL_OPEN(name, open) \
	printf(" " #name "=%ld/%ld/%ld", name##_calls.entries, name##_calls.returns, open)

#endif
