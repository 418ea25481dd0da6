// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program of the flight recorder's test: it works, call by call, and does what it is told on
 * stdin.
 *
 *	flight PAUSE_US    prints `pid N`; then calls work() (in it the manual scope m_work) over and over
 *
 *	after MS      prints `reached NS CALLS` when so many ms have passed: the time, and calls of work() so far
 *	call MS       calls slow_call() once, which takes so long
 *	manual MS     a manual scope m_slow, which takes so long
 *	hold          the same until the next line; prints `holding` in it, then `held BEGIN_NS END_NS`
 *	deaf          ignores SIGINT from then on
 *	crash         dumps, and crashes (SIGSEGV) inside work() and m_work
 *	stop          dumps, and ends
 *	quit          ends
 *
 * The dump is a line `work BEFORE_NS AFTER_NS` for each of the last calls of work(), in
 * CLOCK_MONOTONIC, taken around it; then `end`. A manual scope m_session is open from before the
 * first call to the last.
 */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <time.h>

#include "scope.h"
#include "traced.h"

#define CALLS 65536u /* that are remembered */

static uint64_t before[CALLS], after[CALLS], count, reach_ns;
static int crash, quit;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ns(uint64_t ns)
{
	struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u),
				.tv_nsec = (long)(ns % 1000000000u)};

	if (ns)
		nanosleep(&time, NULL);
}

static void dump(void)
{
	for (uint64_t i = count > CALLS ? count - CALLS : 0; i < count; i++)
		printf("work %" PRIu64 " %" PRIu64 "\n", before[i % CALLS], after[i % CALLS]);
	printf("end\n");
	fflush(stdout);
}

OUT_OF_LINE void work(void)
{
	SCOPE("m_work");

	if (crash) {
		dump();
		*(volatile int *)0 = 1;
	}
	NOT_LAST();
}

OUT_OF_LINE void slow_call(uint64_t ns)
{
	pause_ns(ns);
	NOT_LAST();
}

static void slow_manual(uint64_t ns)
{
	SCOPE("m_slow");
	pause_ns(ns);
}

static void hold_manual(void)
{
	uint64_t begin = now_ns(), end;
	char next;

	{
		SCOPE("m_slow");
		puts("holding");
		fflush(stdout);
		while (read(STDIN_FILENO, &next, 1) == 1 && next != '\n')
			;
		end = now_ns();
	}
	printf("held %" PRIu64 " %" PRIu64 "\n", begin, end);
	fflush(stdout);
}

/* 0 at the end. */
static int obey(const char *line)
{
	uint64_t ms;

	if (sscanf(line, "after %" SCNu64, &ms) == 1)
		reach_ns = now_ns() + ms * 1000000;
	else if (sscanf(line, "call %" SCNu64, &ms) == 1)
		slow_call(ms * 1000000);
	else if (sscanf(line, "manual %" SCNu64, &ms) == 1)
		slow_manual(ms * 1000000);
	else if (strncmp(line, "deaf", 4) == 0)
		signal(SIGINT, SIG_IGN);
	else if (strcmp(line, "hold") == 0)
		hold_manual();
	crash = strncmp(line, "crash", 5) == 0;
	quit = strncmp(line, "quit", 4) == 0;
	return !quit && strncmp(line, "stop", 4) != 0;
}

/* 1 to go on. A program whose stdin ends goes on as well. */
static int listen_to(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];
	size_t length = 0;

	if (poll(&input, 1, 0) <= 0 || !(input.revents & POLLIN))
		return 1;
	while (length + 1 < sizeof(line) && read(STDIN_FILENO, &line[length], 1) == 1 &&
	       line[length] != '\n')
		length++;
	line[length] = '\0';
	return obey(line);
}

static void run(uint64_t pause)
{
	SCOPE("m_session");

	do {
		uint64_t now = now_ns();

		before[count % CALLS] = now;
		work();
		after[count++ % CALLS] = now_ns();
		if (reach_ns && now >= reach_ns) {
			reach_ns = 0;
			printf("reached %" PRIu64 " %" PRIu64 "\n", now_ns(), count);
			fflush(stdout);
		}
		pause_ns(pause);
	} while (listen_to());
}

int main(int argc, char **argv)
{
	uint64_t pause = argc > 1 ? strtoull(argv[1], NULL, 10) * 1000 : 1000000;

	printf("pid %d\n", getpid());
	fflush(stdout);
	run(pause);
	if (!quit)
		dump();
	return 0;
}
