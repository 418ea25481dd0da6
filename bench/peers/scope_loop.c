// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The same scope under each recorder of scope_peers.py: begin and end, two events with a time and a
 * name. Built once for each with -DPEER_...; without one it is the empty loop. Prints its pid; for
 * each line on stdin it runs the loop once and prints the CPU time of one turn in ns.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(PEER_LIBSCOPE)
#include "scope.h"
#elif defined(PEER_LTTNG)
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "lttng_scope.h"
#elif defined(PEER_USDT)
#include <sys/sdt.h>
#endif

enum { TURNS = 50000, TURNS_TRAPPED = 2000 };

/* Its own function in every build, as uftrace records functions. */
__attribute__((noinline, noclone)) static void scope(volatile uint64_t *work)
{
#if defined(PEER_LIBSCOPE)
	SCOPE("a scope of the benchmark");
	++*work;
#elif defined(PEER_LTTNG)
	lttng_ust_tracepoint(scopetrace_bench, scope_begin, "a scope of the benchmark");
	++*work;
	lttng_ust_tracepoint(scopetrace_bench, scope_end);
#elif defined(PEER_USDT)
	DTRACE_PROBE1(scopetrace_bench, scope_begin, "a scope of the benchmark");
	++*work;
	DTRACE_PROBE(scopetrace_bench, scope_end);
#else
	++*work;
#endif
}

#ifdef PEER_UFTRACE
#define UNTRACED __attribute__((no_instrument_function))
#else
#define UNTRACED
#endif

UNTRACED static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

UNTRACED int main(int argc, char **argv)
{
	/* An argument: each event is a trap. */
	unsigned turns = argc > 1 ? TURNS_TRAPPED : TURNS;
	uint64_t work = 0, before;
	char line[16];

	(void)argv;
	printf("%d\n", (int)getpid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		before = cpu_ns();
		for (unsigned i = 0; i < turns; i++)
			scope(&work);
		printf("%.3f\n", (double)(cpu_ns() - before) / turns);
		fflush(stdout);
	}
	return 0;
}
