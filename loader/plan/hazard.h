/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * May this process be hooked with uretprobes? Purpose: never to kill what we watch. A pending
 * uretprobe hijacks a return address; what then leaves the function in another way (a C++
 * exception, a Rust panic, the end of a thread, a stack switch) aborts or corrupts the program.
 * Invariants: the hazard belongs to the process: one object
 * that may do such a thing is enough, whoever is hooked. Who cannot look everywhere must not report
 * that all is well.
 */
#ifndef SCOPETRACE_PLAN_HAZARD_H
#define SCOPETRACE_PLAN_HAZARD_H

#include <stdbool.h>
#include <stddef.h>

#include "program/module.h"

/* The surest and gravest first: `evidence` is of the first kind found. */
enum hazard_kind {
	HAZARD_ABORTS, /* exceptions, panics */
	HAZARD_MOVES,  /* stack switches, stacks that move */
	HAZARD_SKIPS,  /* threads that end or are cancelled inside a function */
	HAZARD_SIGNAL, /* signal handlers on a stack of their own */
	HAZARD_UNSEEN, /* code that cannot be looked through */
	HAZARD_LOADS,  /* may load code that does any of these */
	HAZARD_KINDS,
};

struct hazard_evidence {
	enum hazard_kind kind;
	char object[256]; /* its path as the process knows it, cut in front if it is longer */
	char found[96];	  /* e.g. "imports swapcontext" */
};

enum { HAZARD_EVIDENCE_MOST = 32 };

struct hazard {
	bool found; /* any of `kinds` */
	/* HAZARD_MOVES is not looked for by machine code in an object that aborts already */
	bool kinds[HAZARD_KINDS];
	/*
	 * Even a leaf, which calls nothing and leaves in no other way, may be left by a signal or
	 * cancellation that comes while it runs: imports of pthread_cancel or
	 * pthread_setcanceltype, sigaltstack, Go, code unseen; and exceptions, thread ends or stack
	 * switches where signal handlers are installed too, as these may be what a handler does.
	 */
	bool asynchronous;
	/* Go: a call may go on in another thread, and its stack elsewhere (--stacks=migrate is chosen by
	 * itself) */
	bool moves_stacks;
	char evidence
		[512]; /* e.g. "/usr/lib/.../libstdc++.so.6 is mapped: a C++ exception ... (and 3 more)"
			     */
	struct hazard_evidence items[HAZARD_EVIDENCE_MOST]; /* one of a kind for an object */
	size_t count;
	size_t left_out; /* did not fit in items */
	/* Some object may exec: what is hooked of shared libraries then goes on in another program. Not
	 * evidence by itself, nor part of `found`. */
	bool execs;
	/* Some object may longjmp. Not evidence either: nothing breaks, but the kernel keeps 64 pending
	 * returns of a thread, and each that is jumped over stays among them. */
	bool jumps;
	bool handles_signals;
	bool interrupts; /* asynchronous without a handler */
};

/*
 * What may happen, as a sentence's part: "a C++ exception or Rust panic through ... aborts the
 * program".
 */
const char *hazard_danger(enum hazard_kind kind);

/*
 * Looks at one object (again, if it was looked at before) and adds what it finds: for one that is
 * mapped later. The C library and ld.so are left out: they contain all of it. Starts from a zeroed
 * hazard. 0, or -errno of reading it (logged; treat as a hazard).
 */
int hazard_add(struct hazard *hazard, const struct module *module);

/*
 * Adds what a list reports beside its modules: executable memory of the process's own making, files left
 * out.
 */
void hazard_add_unseen(struct hazard *hazard, const struct module_list *modules);

/*
 * Looks at all of them, from the beginning, and at what else the list reports: executable memory of
 * the process's own making, files left out. 0, or -errno as above.
 */
int hazard_check(const struct module_list *modules, struct hazard *hazard);

#endif
