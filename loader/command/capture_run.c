// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "command/pace.h"
#include "source/shm_source.h"

#define SECOND_NS 1000000000ull

/* How long the drain loop sleeps while nothing comes: the kernel's ring is larger than a segment's. */
#define LONGEST_SLEEP_MANUAL_NS 4000000ull
#define LONGEST_SLEEP_HOOKED_NS 16000000ull

/*
 * True when a signal asks for the end of the capture; from the first one on, the next ends us at once, as the
 * user then wants. With a command it is the command that a signal ends.
 */
static bool signalled(struct capture *c)
{
	struct signalfd_siginfo info;

	if (read(c->signals, &info, sizeof(info)) != sizeof(info))
		return false;
	capture_unblock_signals(c);
	if (!c->options->command)
		return true;
	/* A terminal sends Ctrl-C to the command itself. */
	if (info.ssi_code != SI_KERNEL && c->launch.pid)
		kill(c->launch.pid, (int)info.ssi_signo);
	return false;
}

/* Number of events, or -errno; *manual: those of the segment. */
static ssize_t drain(struct capture *c, ssize_t *manual)
{
	struct event_output *output = capture_writer_output(c->writer);
	struct source *sources[] = {c->hooked, c->segments.source};
	ssize_t sum = 0;

	for (size_t i = 0; i < 2; i++) {
		ssize_t drained = sources[i] ? sources[i]->ops->drain(sources[i], output) : 0;

		if (drained < 0)
			return drained;
		sum += drained;
		*manual = drained;
	}
	return sum;
}

static int each_second(struct capture *c, uint64_t now)
{
	if (now - c->tended_ns < SECOND_NS)
		return 0;
	c->tended_ns = now;
	return capture_writer_flush(c->writer);
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

static uint64_t next_pause(const struct capture *c, struct pace *pace, uint64_t now, ssize_t drained,
			   ssize_t manual)
{
	bool segment = c->segments.source || c->options->command;
	uint64_t longest = segment ? LONGEST_SLEEP_MANUAL_NS : LONGEST_SLEEP_HOOKED_NS;

	/* Hits alone come no faster than the kernel's ring can hold for a millisecond. */
	if (drained && !manual)
		return pace_next(pace, now, 1, 0, longest);
	return pace_next(pace, now, (uint64_t)manual,
			 c->segments.source ? shm_source_slots(c->segments.source) : 0, longest);
}

int capture_run(struct capture *c)
{
	struct pace pace;
	uint64_t now, pause;
	ssize_t drained, manual = 0;
	bool last;
	int err;

	pace_begin(&pace, io_now_ns());
	do {
		/* Asked before the drain, so that what an ended process left is still taken. */
		last = signalled(c) || ended(c);
		now = io_now_ns();
		c->time_is_up = c->options->duration_ns && now - c->start_ns >= c->options->duration_ns;
		drained = drain(c, &manual);
		err = drained < 0 ? (int)drained : capture_follow_segment(c);
		if (!err)
			err = each_second(c, now);
		if (err)
			return err;
		pause = next_pause(c, &pace, now, drained, manual);
		if (!last && !c->time_is_up)
			pause_for(c, pause);
	} while (!last && !c->time_is_up);
	return 0;
}
