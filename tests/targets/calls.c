// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program of the call-for-call test: it knows exactly what it did, and says so in its last
 * line.
 *
 *	calls --threads N --calls K --rate F [--sleep] [--wait-go] [--manual] [--escape E]
 *
 * N threads call outer() K times each, F times a second (0: flat out). outer() calls middle()
 * twice, middle() calls inner() three times. --manual puts a manual scope into each of the three
 * (m_outer, m_middle, m_inner) and around each thread's calls (m_loop). --escape lets inner() jump
 * (longjmp) straight out to outer() in every E-th call of outer(), from each of the six places in
 * turn, so that frames are abandoned. --sleep leaves the processor to others between calls that lie
 * further apart than a millisecond; the rate is then about what was asked. --wait-go prints `pid
 * N`, and nothing is called before a line comes in on stdin.
 *
 * The last line is `truth {JSON}`: pid, tids, entries and returns of each function, its longest
 * call in ns, the inner calls left without their middle() by a jump, the number of manual scopes,
 * when the calls began and had ended, and the rate reached. A call's time is taken by its caller
 * around it, so no true scope
 *is longer.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define OUT_OF_LINE __attribute__((noinline, noclone))

#include "scope.h"

enum { OUTER, MIDDLE, INNER, FUNCTIONS };
enum { MIDDLES = 2, INNERS = 3, MAX_THREADS = 256 };

static const char *const names[FUNCTIONS] = {"outer", "middle", "inner"};

struct options {
	unsigned threads;
	uint64_t calls;
	uint64_t rate; /* of outer calls, per second and thread; 0: flat out */
	uint64_t escape;
	bool wait_go;
	bool manual;
	bool sleep;
};

struct caller {
	pthread_t thread;
	const struct options *options;
	pid_t tid;
	/* the inner call of this outer call that jumps out, counted from 0; -1: none */
	int escape_at;
	int inner_calls; /* of this outer call */
	jmp_buf out;
	uint64_t entries[FUNCTIONS];
	uint64_t returns[FUNCTIONS];
	uint64_t longest_ns[FUNCTIONS];
	/* inner calls that returned to a middle() which did not: only outer() is around them */
	uint64_t raised;
	uint64_t elapsed_ns;
};

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void took(struct caller *caller, int function, uint64_t start)
{
	uint64_t duration = now_ns() - start;
	if (duration > caller->longest_ns[function])
		caller->longest_ns[function] = duration;
}

/* The work of inner(): jumps out when it is its turn. */
static void inner_work(struct caller *caller)
{
	if (caller->inner_calls++ != caller->escape_at)
		return;
	caller->raised += (uint64_t)(caller->escape_at % INNERS);
	longjmp(caller->out, 1);
}

static void inner_scoped(struct caller *caller)
{
	SCOPE("m_inner");
	inner_work(caller);
}

OUT_OF_LINE static int inner(struct caller *caller)
{
	caller->entries[INNER]++;
	if (caller->options->manual)
		inner_scoped(caller);
	else
		inner_work(caller);
	caller->returns[INNER]++;
	return 1;
}

static void middle_work(struct caller *caller)
{
	for (int i = 0; i < INNERS; i++) {
		uint64_t start = now_ns();
		inner(caller);
		took(caller, INNER, start);
	}
}

static void middle_scoped(struct caller *caller)
{
	SCOPE("m_middle");
	middle_work(caller);
}

OUT_OF_LINE static int middle(struct caller *caller)
{
	caller->entries[MIDDLE]++;
	if (caller->options->manual)
		middle_scoped(caller);
	else
		middle_work(caller);
	caller->returns[MIDDLE]++;
	return 1;
}

static void outer_work(struct caller *caller)
{
	if (setjmp(caller->out))
		return;
	for (int i = 0; i < MIDDLES; i++) {
		uint64_t start = now_ns();
		middle(caller);
		took(caller, MIDDLE, start);
	}
}

static void outer_scoped(struct caller *caller)
{
	SCOPE("m_outer");
	outer_work(caller);
}

OUT_OF_LINE static int outer(struct caller *caller)
{
	caller->entries[OUTER]++;
	caller->inner_calls = 0;
	if (caller->options->manual)
		outer_scoped(caller);
	else
		outer_work(caller);
	caller->returns[OUTER]++;
	return 1;
}

/* Spins, as no sleep holds 5000 a second. */
static void wait_for_turn(const struct options *options, uint64_t due_ns)
{
	uint64_t now;

	while ((now = now_ns()) < due_ns)
		if (options->sleep && due_ns - now > 1000000)
			nanosleep(
				&(struct timespec){.tv_nsec = (long)((due_ns - now) % 1000000000)},
				NULL);
}

static void call_loop(struct caller *caller)
{
	const struct options *options = caller->options;
	uint64_t begin = now_ns();
	for (uint64_t i = 0; i < options->calls; i++) {
		if (options->rate)
			wait_for_turn(options, begin + i * 1000000000 / options->rate);
		bool escapes = options->escape && i % options->escape == options->escape - 1;
		caller->escape_at = escapes ? (int)(i / options->escape % (MIDDLES * INNERS)) : -1;
		uint64_t start = now_ns();
		outer(caller);
		took(caller, OUTER, start);
	}
	caller->elapsed_ns = now_ns() - begin;
}

static void call_loop_scoped(struct caller *caller)
{
	SCOPE("m_loop");
	call_loop(caller);
}

static void *caller_main(void *argument)
{
	struct caller *caller = argument;
	caller->tid = (pid_t)gettid();
	if (caller->options->manual)
		call_loop_scoped(caller);
	else
		call_loop(caller);
	return NULL;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: calls --threads N --calls K --rate F [--sleep] [--wait-go] [--manual] "
		"[--escape E]\n"
		"--manual and --escape do not go together: a jump would leave manual scopes open\n");
	return 2;
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option known[] = {
		{"threads", required_argument, NULL, 't'}, {"calls", required_argument, NULL, 'c'},
		{"rate", required_argument, NULL, 'r'},	   {"escape", required_argument, NULL, 'e'},
		{"wait-go", no_argument, NULL, 'w'},	   {"manual", no_argument, NULL, 'm'},
		{"sleep", no_argument, NULL, 's'},	   {NULL, 0, NULL, 0},
	};
	for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 10) : 0;
		switch (option) {
		case 't':
			options->threads = (unsigned)value;
			break;
		case 'c':
			options->calls = value;
			break;
		case 'r':
			options->rate = value;
			break;
		case 'e':
			options->escape = value;
			break;
		case 'w':
			options->wait_go = true;
			break;
		case 'm':
			options->manual = true;
			break;
		case 's':
			options->sleep = true;
			break;
		default:
			return -1;
		}
	}
	bool sound = options->threads >= 1 && options->threads <= MAX_THREADS && options->calls > 0;
	return sound && optind == argc && !(options->manual && options->escape) ? 0 : -1;
}

static void print_counts(const char *key, const uint64_t *counts)
{
	printf(", \"%s\": {", key);
	for (int i = 0; i < FUNCTIONS; i++)
		printf("%s\"%s\": %" PRIu64, i ? ", " : "", names[i], counts[i]);
	printf("}");
}

static void print_truth(const struct options *options, const struct caller *callers,
			uint64_t begin_ns)
{
	uint64_t entries[FUNCTIONS] = {0}, returns[FUNCTIONS] = {0}, longest_ns[FUNCTIONS] = {0};
	uint64_t raised = 0, elapsed_ns = 0;
	printf("truth {\"pid\": %d, \"tids\": [", getpid());
	for (unsigned i = 0; i < options->threads; i++) {
		printf("%s%d", i ? ", " : "", callers[i].tid);
		for (int f = 0; f < FUNCTIONS; f++) {
			entries[f] += callers[i].entries[f];
			returns[f] += callers[i].returns[f];
			if (callers[i].longest_ns[f] > longest_ns[f])
				longest_ns[f] = callers[i].longest_ns[f];
		}
		raised += callers[i].raised;
		if (callers[i].elapsed_ns > elapsed_ns)
			elapsed_ns = callers[i].elapsed_ns;
	}
	printf("]");
	print_counts("entries", entries);
	print_counts("returns", returns);
	print_counts("longest_ns", longest_ns);
	if (options->manual)
		printf(", \"manual\": {\"m_loop\": %u, \"m_outer\": %" PRIu64
		       ", \"m_middle\": %" PRIu64 ", \"m_inner\": %" PRIu64 "}",
		       options->threads, returns[OUTER], returns[MIDDLE], returns[INNER]);
	printf(", \"begin_ns\": %" PRIu64 ", \"end_ns\": %" PRIu64, begin_ns, now_ns());
	printf(", \"raised\": %" PRIu64 ", \"rate_asked\": %" PRIu64 ", \"rate_reached\": %.1f}\n",
	       raised, options->rate, (double)options->calls * 1e9 / (double)elapsed_ns);
}

static bool wait_for_go(void)
{
	char line[16];
	printf("pid %d\n", getpid());
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) != NULL;
}

int main(int argc, char **argv)
{
	struct options options = {.threads = 1};
	if (parse(argc, argv, &options))
		return usage();
	if (options.wait_go && !wait_for_go())
		return 1;

	uint64_t begin_ns = now_ns();
	struct caller *callers = calloc(options.threads, sizeof(*callers));
	if (!callers)
		return 1;
	for (unsigned i = 0; i < options.threads; i++) {
		callers[i].options = &options;
		if (pthread_create(&callers[i].thread, NULL, caller_main, &callers[i])) {
			fprintf(stderr, "calls: cannot make thread %u\n", i + 1);
			return 1;
		}
	}
	for (unsigned i = 0; i < options.threads; i++)
		pthread_join(callers[i].thread, NULL);
	print_truth(&options, callers, begin_ns);
	free(callers);
	return 0;
}
