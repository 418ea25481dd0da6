// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "source/pace.h"
#include "source/shm_source.h"

#define SECOND_NS 1000000000ull

/*
 * How long the drain loops sleep while nothing comes: the kernel's ring is larger than a segment's,
 * it takes 60 ms of some 2 M calls/s to fill. Each wake-up of an idle virtual machine costs 50 to
 * 100 us.
 */
#define LONGEST_SLEEP_MANUAL_NS 4000000ull
#define LONGEST_SLEEP_HOOKED_NS 25000000ull
#define LONGEST_SLEEP_FOLLOW_NS 50000000ull /* with no segment to drain */

/*
 * True when a signal asks for the end of the capture; from the first one on, the next ends us at
 * once, as the user then wants. With a command it is the command that a signal ends.
 */
static bool signalled(struct capture *c)
{
	struct signalfd_siginfo info;

	if (read(c->signals, &info, sizeof(info)) != sizeof(info))
		return false;
	if (info.ssi_signo == LEASE_SIGNAL) {
		c->rewritten = capture_lost_lease(c);
		return c->rewritten;
	}
	if (info.ssi_signo == SIGUSR1) {
		if (c->flight.recorder)
			capture_ask_snapshot(c, "SIGUSR1");
		else
			log_warning(
				"SIGUSR1 asks for a file of the last seconds, which wants --flight");
		return false;
	}
	capture_unblock_signals(c);
	if (!c->options->command)
		return true;
	/* A terminal sends Ctrl-C to the command itself. */
	if (info.ssi_code != SI_KERNEL && c->launch.pid)
		kill(c->launch.pid, (int)info.ssi_signo);
	return false;
}

/* ---- the threads that drain, and the one that watches ---- */

static int drain_calls(void *context, struct pace *pace, uint64_t *pause_ns)
{
	struct capture *c = context;
	uint64_t now = io_now_ns();
	ssize_t drained;

	relay_begin(c->calls.relay, now);
	drained = c->hooked->ops->drain(c->hooked, relay_output(c->calls.relay));
	relay_end(c->calls.relay);
	/* Hits come no faster than the kernel's ring can hold for a millisecond. */
	*pause_ns = pace_next(pace, now, drained > 0 ? 1 : 0, 0, LONGEST_SLEEP_HOOKED_NS);
	return drained < 0 ? (int)drained : 0;
}

/* What becomes of the process: programs it runs, segments. */
static int follow(struct capture *c, uint64_t now)
{
	int err = capture_follow_lifecycle(c);

	if (!err)
		err = capture_follow_segment(c);
	if (err || now - c->followed_ns < SECOND_NS)
		return err;
	c->followed_ns = now;
	return capture_watch_program(c);
}

/*
 * It must not wait for a disk either with following, and tells the file of what it finds in the
 * same way.
 */
static int drain_events(void *context, struct pace *pace, uint64_t *pause_ns)
{
	struct capture *c = context;
	struct source *segment = c->segments.source;
	uint64_t now = io_now_ns(), slots = segment ? shm_source_slots(segment) : 0;
	ssize_t drained;
	int err;

	relay_begin(c->events.relay, now);
	drained = segment ? segment->ops->drain(segment, relay_output(c->events.relay)) : 0;
	err = drained < 0 ? (int)drained : follow(c, now);
	relay_end(c->events.relay);
	*pause_ns = pace_next(pace, now, drained > 0 ? (uint64_t)drained : 0, slots,
			      segment || c->options->command ? LONGEST_SLEEP_MANUAL_NS
							     : LONGEST_SLEEP_FOLLOW_NS);
	/* A command waits for us with its first scopes, and then may have many at once. */
	if (c->segments.source != segment)
		*pause_ns = pace_hurry(pace);
	return err;
}

/* Drains nothing, and may take its time. */
static int watch(void *context, struct pace *pace, uint64_t *pause_ns)
{
	(void)pace;
	*pause_ns = SECOND_NS;
	return capture_watch_modules(context);
}

static int start_threads(struct capture *c)
{
	int err;

	relay_start(c->events.relay);
	err = drainer_start(&c->events.drainer, drain_events, c);
	if (err || !c->hooked)
		return err;
	relay_start(c->calls.relay);
	err = drainer_start(&c->calls.drainer, drain_calls, c);
	return err ? err : drainer_start(&c->watcher, watch, c);
}

/* ---- the thread that writes ---- */

int capture_take(struct capture *c)
{
	struct relay *relays[] = {c->calls.relay, c->events.relay};
	int some = 0;

	for (size_t i = 0; i < 2; i++) {
		int taken = relays[i] ? relay_take(relays[i]) : 0;

		if (taken < 0)
			return taken;
		some |= taken;
	}
	return some;
}

static int each_second(struct capture *c, uint64_t now)
{
	if (now - c->tended_ns < SECOND_NS)
		return 0;
	c->tended_ns = now;
	return scope_file_writer_flush(c->writer);
}

static bool ended(struct capture *c)
{
	return c->options->command ? launch_ended(&c->launch) : process_ended(&c->process);
}

/* Until there is something to take, or to do. */
static void sleep_until_woken(const struct capture *c, uint64_t now)
{
	uint64_t ns = c->tended_ns + SECOND_NS - now,
		 left = c->start_ns + c->options->duration_ns - now;
	struct pollfd waited[] = {
		{.fd = c->signals, .events = POLLIN},
		{.fd = c->process.pidfd, .events = POLLIN},
		{.fd = drainer_fd(&c->calls.drainer), .events = POLLIN},
		{.fd = drainer_fd(&c->events.drainer), .events = POLLIN},
		{.fd = drainer_fd(&c->watcher), .events = POLLIN},
		{.fd = relay_fd(c->events.relay), .events = POLLIN},
		{.fd = c->calls.relay ? relay_fd(c->calls.relay) : -1, .events = POLLIN}};
	struct timespec time;

	if (c->options->duration_ns && left < ns)
		ns = left;
	ns = capture_flight_pause_ns(c, now, ns);
	time = (struct timespec){.tv_sec = (time_t)(ns / SECOND_NS),
				 .tv_nsec = (long)(ns % SECOND_NS)};
	if (relay_sleep(c->events.relay) && (!c->calls.relay || relay_sleep(c->calls.relay)))
		ppoll(waited, sizeof(waited) / sizeof(waited[0]), &time, NULL);
}

/* True from the first reason on for which the capture ends. */
static bool is_over(struct capture *c, uint64_t now)
{
	/* What an ended process left is taken by the end of the sources. */
	c->over |= signalled(c) || ended(c) || drainer_failed(&c->calls.drainer) ||
		   drainer_failed(&c->events.drainer) || drainer_failed(&c->watcher);
	c->time_is_up |= c->options->duration_ns && now - c->start_ns >= c->options->duration_ns;
	c->over |= c->time_is_up;
	return c->over;
}

void capture_while_stalled(void *context)
{
	struct capture *c = context;
	bool was_over = c->over;

	if (!is_over(c, io_now_ns()) || was_over)
		return;
	log_info("the capture has ended; what is left waits for %s to take it, or for a signal",
		 c->options->output);
	capture_unblock_signals(c);
	capture_stop(c);
}

int capture_run(struct capture *c)
{
	int taken = start_threads(c);
	uint64_t now;

	scope_file_writer_set_stalled(c->writer, capture_while_stalled, c);
	while (taken >= 0 && !c->over) {
		now = io_now_ns();
		is_over(c, now);
		taken = each_second(c, now);
		if (!taken && !c->over)
			taken = capture_tend_flight(c, now);
		if (!taken)
			taken = capture_take(c);
		if (!taken && !c->over)
			sleep_until_woken(c, now);
	}
	return taken < 0 ? taken : 0;
}
