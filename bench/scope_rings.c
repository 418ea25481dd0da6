// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How many rings should a segment have? `scope_rings [ROUNDS]` (default 5): SCOPE("...") recorded, on 1, 8,
 * 16 and 128 rings (8 MiB of slots in all, as by default) and 2, 8 and 32 threads; each round runs all of
 * them in turn, each in a process of its own, with a reader beside it. Prints a JSON line each: the median
 * over the rounds of the mean CPU time of one scope in ns, and its ratio, round by round, to that on 128
 * rings; and for each number of threads the fewest rings that are within 5 % of 128: the knee.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scope.h"
#include "scope_harness.h"

enum { RING_COUNTS = 4, THREAD_COUNTS = 3 };

static const char *const ring_counts[RING_COUNTS] = {"1", "8", "16", "128"};
static const char *const thread_counts[THREAD_COUNTS] = {"2", "8", "32"};

static void run_scope(struct work *work)
{
	for (unsigned i = 0; i < TURNS; i++) {
		SCOPE("a scope of the benchmark");
		TURN_WORK(work);
	}
}

/* In the process of its own: prints the figure. */
static int run_point(unsigned threads)
{
	struct recorder recorder = recorder_start();

	recorder_record(&recorder, true);
	printf("%.3f\n", run_turns(run_scope, threads));
	recorder_end(&recorder);
	return 0;
}

static double measure_point(const char *program, const char *rings, const char *threads)
{
	int answer[2], status;
	double ns = 0;
	FILE *stream;
	pid_t pid;

	if (pipe(answer) != 0)
		exit(1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(answer[1], 1);
		close(answer[0]);
		setenv("SCOPE_RINGS", rings, 1);
		unsetenv("SCOPE_SLOTS");
		execl("/proc/self/exe", program, "point", threads, (char *)NULL);
		_exit(127);
	}
	close(answer[1]);
	stream = fdopen(answer[0], "r");
	if (!stream || fscanf(stream, "%lf", &ns) != 1)
		exit(1);
	fclose(stream);
	if (waitpid(pid, &status, 0) != pid || status)
		exit(1);
	return ns;
}

static void print_threads(unsigned t, unsigned rounds, double ns[RING_COUNTS][ROUNDS_MAX])
{
	const char *knee = NULL;

	for (unsigned r = 0; r < RING_COUNTS; r++) {
		double ratio[ROUNDS_MAX], middle;

		for (unsigned i = 0; i < rounds; i++)
			ratio[i] = ns[r][i] / ns[RING_COUNTS - 1][i];
		middle = median(ratio, rounds);
		/* A copy is sorted: the last row is still needed round by round. */
		memcpy(ratio, ns[r], sizeof(ratio));
		printf("{\"bench\":\"scope_rings\",\"threads\":%s,\"rings\":%s,\"ns\":%.2f,\"to_128_rings\":%.3f}\n",
		       thread_counts[t], ring_counts[r], median(ratio, rounds), middle);
		if (!knee && middle <= 1.05)
			knee = ring_counts[r];
	}
	printf("{\"bench\":\"scope_rings\",\"threads\":%s,\"knee\":%s}\n", thread_counts[t], knee);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static double ns[THREAD_COUNTS][RING_COUNTS][ROUNDS_MAX];
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 5;

	if (argc == 3 && strcmp(argv[1], "point") == 0)
		return run_point((unsigned)strtoul(argv[2], NULL, 10));
	if (argc > 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: scope_rings [ROUNDS]\n");
		return 2;
	}
	for (unsigned i = 0; i < rounds; i++) {
		for (unsigned t = 0; t < THREAD_COUNTS; t++) {
			for (unsigned r = 0; r < RING_COUNTS; r++)
				ns[t][r][i] = measure_point(argv[0], ring_counts[r], thread_counts[t]);
		}
	}
	for (unsigned t = 0; t < THREAD_COUNTS; t++)
		print_threads(t, rounds, ns[t]);
	return 0;
}
