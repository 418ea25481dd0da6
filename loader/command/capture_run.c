// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "source/shm_source.h"

#define SECOND_NS 1000000000ull

/*
 * How long the drain loop sleeps. Under load 1 ms (design: facts.md, "Shared-memory drain"); idle, at most
 * half the time in which the smallest segment ring fills at 1 M events/s, so that the first burst after a
 * pause is not lost. The kernel's ring is larger, and hits cost more.
 */
#define SHORTEST_SLEEP_NS	1000000ull
#define LONGEST_SLEEP_MANUAL_NS 4000000ull
#define LONGEST_SLEEP_HOOKED_NS 16000000ull

/* How often we look for a segment that is not there yet: a program makes it before main, a late dlopen
 * whenever. */
#define YOUNG_NS	    5000000000ull
#define LOOK_WHILE_YOUNG_NS 1000000ull
#define LOOK_LATER_NS	    500000000ull

/* From the first signal on the next one ends us at once, as the user then wants. */
static void unblock_signals(struct capture *c)
{
	sigset_t mask = c->old_mask;

	sigaddset(&mask, SIGPIPE);
	sigprocmask(SIG_SETMASK, &mask, NULL);
}

/* True when a signal asks for the end of the capture. With a command it is the command that a signal ends. */
static bool signalled(struct capture *c)
{
	struct signalfd_siginfo info;

	if (read(c->signals, &info, sizeof(info)) != sizeof(info))
		return false;
	unblock_signals(c);
	if (!c->options->command)
		return true;
	/* A terminal sends Ctrl-C to the command itself. */
	if (info.ssi_code != SI_KERNEL && c->launch.pid)
		kill(c->launch.pid, (int)info.ssi_signo);
	return false;
}

/* Names of threads that wrote none themselves. A name that changes is told again. */
static int note_threads(struct capture *c)
{
	struct event_output *output = capture_writer_output(c->writer);
	struct process_thread *threads;
	size_t count;
	int err = 0;

	if (process_threads(&c->process, &threads, &count))
		return 0;
	for (size_t i = 0; i < count && !err; i++) {
		struct thread_info info = {.time_ns = io_now_ns(),
					   .pid = (uint32_t)c->process.pid,
					   .tid = (uint32_t)threads[i].tid,
					   .change = THREAD_NAMED};
		uint32_t known = 0;

		err = output->string(output, threads[i].comm, strlen(threads[i].comm), &info.name);
		if (err || (hash_map_get(&c->thread_names, info.tid, &known) && known == info.name))
			continue;
		err = hash_map_put(&c->thread_names, info.tid, info.name);
		if (!err)
			err = output->thread(output, &info);
	}
	free(threads);
	return err;
}

/* The process ran another program by exec, or ended: its segment is taken to its end and put aside. */
int capture_close_manual(struct capture *c)
{
	int err = c->manual->ops->finish(c->manual, capture_writer_output(c->writer));

	if (!err)
		err = vec_grow(&c->segments, &c->segment_capacity, c->segment_count);
	if (!err) {
		c->segments[c->segment_count++] = shm_source_accounting(c->manual);
		c->clock = shm_source_clock(c->manual);
	}
	c->manual->ops->destroy(c->manual);
	c->manual = NULL;
	return err;
}

static int look_for_segment(struct capture *c, uint64_t now)
{
	uint64_t pause = now - c->start_ns < YOUNG_NS ? LOOK_WHILE_YOUNG_NS : LOOK_LATER_NS;

	if (c->manual || now - c->looked_ns < pause)
		return 0;
	c->looked_ns = now;
	return capture_open_manual(c);
}

/* Number of events, or -errno. */
static ssize_t drain(struct capture *c)
{
	struct event_output *output = capture_writer_output(c->writer);
	ssize_t hooked = 0, manual = 0;

	if (c->hooked)
		hooked = c->hooked->ops->drain(c->hooked, output);
	if (hooked < 0)
		return hooked;
	if (c->manual)
		manual = c->manual->ops->drain(c->manual, output);
	return manual < 0 ? manual : hooked + manual;
}

static int each_second(struct capture *c, uint64_t now)
{
	int err;

	if (now - c->tended_ns < SECOND_NS)
		return 0;
	c->tended_ns = now;
	err = note_threads(c);
	if (!err && c->manual && c->manual->ops->gone(c->manual) && !process_ended(&c->process))
		err = capture_close_manual(c);
	return err ? err : capture_writer_flush(c->writer);
}

static bool ended(struct capture *c)
{
	return c->options->command ? launch_ended(&c->launch) : process_ended(&c->process);
}

static void pause_for(const struct capture *c, uint64_t ns)
{
	struct pollfd waited[] = {{.fd = c->signals, .events = POLLIN},
				  {.fd = c->process.pidfd, .events = POLLIN}};
	struct timespec time = {.tv_sec = (time_t)(ns / SECOND_NS), .tv_nsec = (long)(ns % SECOND_NS)};

	ppoll(waited, 2, &time, NULL);
}

static uint64_t next_pause(const struct capture *c, uint64_t last, ssize_t drained)
{
	uint64_t longest =
		c->manual || c->options->command ? LONGEST_SLEEP_MANUAL_NS : LONGEST_SLEEP_HOOKED_NS;

	if (drained || last * 2 < SHORTEST_SLEEP_NS)
		return SHORTEST_SLEEP_NS;
	return last * 2 < longest ? last * 2 : longest;
}

int capture_run(struct capture *c)
{
	uint64_t pause = SHORTEST_SLEEP_NS;

	for (;;) {
		/* Asked before the drain, so that what an ended process left is still taken. */
		bool last = signalled(c) || ended(c);
		uint64_t now = io_now_ns();
		ssize_t drained = drain(c);
		int err = drained < 0 ? (int)drained : look_for_segment(c, now);

		if (!err)
			err = each_second(c, now);
		if (err)
			return err;
		if (last || (c->options->duration_ns && now - c->start_ns >= c->options->duration_ns))
			return note_threads(c);
		pause = next_pause(c, pause, drained);
		pause_for(c, pause);
	}
}
