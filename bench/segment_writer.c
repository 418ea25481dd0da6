// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The writer of segment_throughput: threads that make scopes at a steady rate through the public
 * macros.
 *
 *	segment_writer THREADS RATE MILLISECONDS scope|hot busy|sleep
 *
 * RATE is scopes a second and thread; `busy` threads spin between scopes, as a program does that
 * works; `sleep` threads sleep and then make what fell due, some 100 us of it at a time. A thread
 * that was held up does not catch up: a program's work does not come faster because it came late.
 * Prints `ready`, begins when a line comes in on stdin, and prints `done SCOPES SECONDS
 * MOST_THREADS_ON_A_RING THREADS_RECORDED`.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "scope.h"
#include "segment.h"

enum { THREADS_MAX = 256, SLEEP_NS = 100000 };

struct options {
	unsigned threads;
	double rate;
	uint64_t duration_ns;
	bool hot;
	bool sleeps;
	uint32_t rings;
	double ticks_per_ns;
};

struct writer {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct options *options;
	uint32_t tid;
	uint64_t scopes;
	uint64_t ns;
};

static void make(struct writer *writer, uint64_t count)
{
	if (writer->options->hot) {
		for (uint64_t i = 0; i < count; i++) {
			SCOPE_HOT("a hot scope, paced");
		}
	} else {
		for (uint64_t i = 0; i < count; i++) {
			SCOPE("a scope of a paced thread");
		}
	}
	writer->scopes += count;
}

/*
 * One scope at a time, each at its own moment. A pause of more than 100 us is one that held us up.
 */
static void write_busily(struct writer *writer)
{
	const struct options *options = writer->options;
	double interval = 1e9 / options->rate * options->ticks_per_ns;
	uint64_t begun = clock_raw(), held_up = (uint64_t)(SLEEP_NS * options->ticks_per_ns);
	uint64_t end = begun + (uint64_t)((double)options->duration_ns * options->ticks_per_ns);
	double due = (double)begun;

	for (;;) {
		uint64_t now = clock_raw();

		if (now >= end)
			break;
		if ((double)now < due)
			continue;
		make(writer, 1);
		due += interval;
		if ((double)now > due + (double)held_up)
			due = (double)now;
	}
}

static void write_and_sleep(struct writer *writer)
{
	const struct options *options = writer->options;
	uint64_t begun = clock_monotonic_ns(), now = begun;

	while (now - begun < options->duration_ns) {
		uint64_t next, late;

		nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS / 2}, NULL);
		next = clock_monotonic_ns();
		late = next - now < 2 * SLEEP_NS ? next - now : 2 * SLEEP_NS;
		make(writer, (uint64_t)((double)late * options->rate / 1e9 + 0.5));
		now = next;
	}
}

static void *run(void *argument)
{
	struct writer *writer = argument;
	uint64_t begun;

	writer->tid = (uint32_t)syscall(SYS_gettid);
	pthread_barrier_wait(writer->start);
	pthread_barrier_wait(writer->start);
	begun = clock_monotonic_ns();
	if (writer->options->sleeps)
		write_and_sleep(writer);
	else
		write_busily(writer);
	writer->ns = clock_monotonic_ns() - begun;
	return NULL;
}

static unsigned most_on_a_ring(const struct writer *writers, const struct options *options)
{
	unsigned on[SCOPE_RINGS_MAX] = {0}, most = 0;

	for (unsigned i = 0; i < options->threads; i++) {
		unsigned here = ++on[scope_ring_of(writers[i].tid, options->rings)];

		most = here > most ? here : most;
	}
	return most;
}

static void print_done(const struct writer *writers, const struct options *options)
{
	uint64_t scopes = 0, ns = 0;
	unsigned recorded = 0;

	for (unsigned i = 0; i < options->threads; i++) {
		scopes += writers[i].scopes;
		recorded += writers[i].scopes > 0;
		ns = writers[i].ns > ns ? writers[i].ns : ns;
	}
	printf("done %llu %.6f %u %u\n", (unsigned long long)scopes, (double)ns / 1e9,
	       most_on_a_ring(writers, options), recorded);
	fflush(stdout);
}

static bool parse(int argc, char **argv, struct options *options)
{
	const char *rings = getenv("SCOPE_RINGS");

	if (argc != 6)
		return false;
	options->threads = (unsigned)strtoul(argv[1], NULL, 10);
	options->rate = strtod(argv[2], NULL);
	options->duration_ns = strtoull(argv[3], NULL, 10) * 1000000;
	options->hot = strcmp(argv[4], "hot") == 0;
	options->sleeps = strcmp(argv[5], "sleep") == 0;
	options->rings = rings ? (uint32_t)strtoul(rings, NULL, 10) : SCOPE_RINGS_DEFAULT;
	return options->threads >= 1 && options->threads <= THREADS_MAX && options->rate > 0 &&
	       options->rings >= 1 && options->rings <= SCOPE_RINGS_MAX;
}

static double measure_ticks(void)
{
	uint64_t ns = clock_monotonic_ns(), ticks = clock_raw();

	while (clock_monotonic_ns() - ns < 5000000)
		;
	return (double)(clock_raw() - ticks) / (double)(clock_monotonic_ns() - ns);
}

int main(int argc, char **argv)
{
	static struct writer writers[THREADS_MAX];
	struct options options;
	pthread_barrier_t start;
	char line[16];

	if (!parse(argc, argv, &options))
		return 2;
	options.ticks_per_ns = measure_ticks();
	pthread_barrier_init(&start, NULL, options.threads + 1);
	for (unsigned i = 0; i < options.threads; i++) {
		writers[i].start = &start;
		writers[i].options = &options;
		if (pthread_create(&writers[i].thread, NULL, run, &writers[i]) != 0)
			return 1;
	}
	pthread_barrier_wait(&start);
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		_exit(1);
	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < options.threads; i++)
		pthread_join(writers[i].thread, NULL);
	print_done(writers, &options);
	/* The reader says when it has what it wants. */
	return fgets(line, sizeof(line), stdin) ? 0 : 1;
}
