// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "program/selector.h"
#include "source/bpf_source.h"
#include "record/flight.h"
#include "record/trigger.h"

/* What was over when a snapshot was asked for has come out of the rings by then. */
#define SETTLE_NS 100000000ull

/* ---- opening and closing ---- */

/* Of the hooked functions a trigger means those that -f would mean. */
static int watch_functions(struct capture *c, const struct capture_trigger *asked, size_t watched)
{
	char *name = strndup(asked->name, asked->length);
	struct selector *selector = name ? selector_parse(name) : NULL;
	int err = selector ? 0 : -errno;
	size_t found = 0;

	for (size_t i = 0; i < c->plan.count && !err; i++) {
		if (!selector_matches(selector, c->plan.functions[i]))
			continue;
		err = trigger_watch_function(c->flight.trigger, (uint32_t)i, watched);
		found++;
	}
	if (!err && !found)
		log_info(
			"--trigger '%s': no hooked function is called so; it waits for a manual scope of that name",
			asked->text);
	selector_destroy(selector);
	free(name);
	return err;
}

static int open_triggers(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err = 0;

	if (!o->trigger_count)
		return 0;
	c->flight.trigger = trigger_create(flight_output(c->flight.recorder));
	if (!c->flight.trigger)
		return -ENOMEM;
	for (size_t i = 0; i < o->trigger_count && !err; i++) {
		const struct capture_trigger *asked = &o->triggers[i];

		err = trigger_watch(c->flight.trigger, asked->name, asked->length,
				    asked->longer_than_ns);
		if (!err)
			err = watch_functions(c, asked, i);
	}
	return err;
}

int capture_open_flight(struct capture *c)
{
	const struct capture_options *o = c->options;
	int err;

	if (!o->flight_ns)
		return 0;
	c->flight.recorder = flight_create(o->flight_ns, o->flight_bytes ? o->flight_bytes
									 : FLIGHT_BYTES_DEFAULT);
	if (!c->flight.recorder)
		return -errno;
	err = open_triggers(c);
	if (err == -ENOMEM)
		log_error("no memory for the triggers");
	return err;
}

struct event_output *capture_sink(struct capture *c)
{
	if (c->flight.trigger)
		return trigger_output(c->flight.trigger);
	return c->flight.recorder ? flight_output(c->flight.recorder)
				  : scope_file_writer_output(c->writer);
}

void capture_close_flight(struct capture *c)
{
	trigger_destroy(c->flight.trigger);
	flight_destroy(c->flight.recorder);
	c->flight = (struct capture_flight){0};
}

/* ---- snapshots ---- */

void capture_ask_snapshot(struct capture *c, const char *why)
{
	struct capture_flight *flight = &c->flight;

	/* One that is about to be written holds this moment, too. */
	if (flight->due_ns)
		return;
	flight->asked_ns = io_now_ns();
	flight->due_ns = flight->asked_ns + SETTLE_NS;
	flight_hold(flight->recorder, flight->asked_ns);
	snprintf(flight->why, sizeof(flight->why), "%s", why);
}

static void ask_for_slow(struct capture *c)
{
	struct capture_flight *flight = &c->flight;
	const struct capture_trigger *asked = &c->options->triggers[flight->slow.watched];
	char why[sizeof(flight->why)], more[64] = "";

	if (flight->waiting > 1)
		snprintf(more, sizeof(more), ", and %" PRIu64 " more", flight->waiting - 1);
	snprintf(why, sizeof(why), "%.*s took %.3f ms in thread %u (--trigger '%.100s')%s",
		 asked->length < 100 ? (int)asked->length : 100, asked->name,
		 (double)flight->slow.ns / 1e6, flight->slow.tid, asked->text, more);
	capture_ask_snapshot(c, why);
	flight->slow_asked = true;
}

/*
 * A slow call asks for one; if another did within the last window it waits, and then it is still in
 * it.
 */
static void look_at_triggers(struct capture *c, uint64_t now)
{
	struct capture_flight *flight = &c->flight;
	struct trigger_call call;
	uint64_t count;

	if (!flight->trigger)
		return;
	if (trigger_take(flight->trigger, &call, &count)) {
		if (!flight->waiting)
			flight->slow = call;
		flight->waiting += count;
	}
	if (!flight->waiting || flight->due_ns || now < flight->quiet_until_ns)
		return;
	flight->quiet_until_ns = now + c->options->flight_ns;
	ask_for_slow(c);
}

/*
 * Those that wait are in the file. If there is none they ask again, while they are in the window.
 */
static void end_waiting(struct capture *c, bool written, uint64_t now)
{
	struct capture_flight *flight = &c->flight;

	if (written) {
		flight->unheeded += flight->waiting - flight->slow_asked;
		flight->waiting = 0;
	} else if (flight->waiting) {
		flight->quiet_until_ns = now + c->options->flight_ns / 2;
	}
	flight->slow_asked = false;
}

/*
 * While one is written others come in; if there is no memory for them they wait, or are lost, in
 * front.
 */
static int take_meanwhile(void *context)
{
	struct capture *c = context;
	int taken = flight_is_full(c->flight.recorder) ? 0 : capture_take(c);

	return taken < 0 ? taken : 0;
}

static uint64_t calls_in(const struct capture *c, const struct scope_file_writer *writer)
{
	uint64_t calls = 0;

	for (size_t i = 0; i < c->plan.count; i++) {
		struct scopes_in_file in_file = scope_file_writer_in_file(writer, (uint32_t)i);

		calls += in_file.completed + in_file.unwound + in_file.instants;
	}
	return calls;
}

/* `length_ns`: shorter than asked for while the capture is. */
static void say_written(const struct capture *c, const struct scope_file_writer *writer,
			const char *why, const char *path, uint64_t length_ns)
{
	log_info("%s: the last %g s are in %s: %" PRIu64 " calls, %" PRIu64 " manual events", why,
		 (double)(length_ns / 1000000) / 1e3, path, calls_in(c, writer),
		 scope_file_writer_manual_in_file(writer));
}

/* From when on, for a window that ends at `end_ns`. */
static uint64_t window_start(const struct capture *c, uint64_t end_ns)
{
	uint64_t window = c->options->flight_ns, since = end_ns > window ? end_ns - window : 0;

	return since > c->start_ns ? since : c->start_ns;
}

static int write_snapshot(struct capture *c, const char *path)
{
	struct capture_flight *flight = &c->flight;
	struct flight_writing how = {.since_ns = window_start(c, flight->asked_ns),
				     .between = take_meanwhile,
				     .context = c};
	struct scope_file_writer_options options = {.level = c->options->compress};
	struct scope_file_writer *writer =
		scope_file_writer_create_with(path, &options, c->options->argc, c->options->argv);
	struct hooked_scope *running = NULL;
	int err = 0, finished;

	if (!writer)
		return -errno;
	scope_file_writer_set_stalled(writer, capture_while_stalled, c);
	if (c->hooked)
		err = bpf_source_open_calls(c->hooked, io_now_ns(), &running, &how.open_count);
	how.open = running;
	if (!err)
		err = flight_write(flight->recorder, writer, &how);
	free(running);
	if (!err)
		err = scope_file_writer_flush(writer);
	if (!err)
		say_written(c, writer, flight->why, path, flight->asked_ns - how.since_ns);
	finished = scope_file_writer_finish(writer, how.since_ns, io_now_ns(), 0);
	return err ? err : finished;
}

/*
 * The next number that is free: what an earlier capture has left stays, and is not taken for ours.
 */
static char *snapshot_path(struct capture *c)
{
	char *path = NULL;
	bool taken;

	do {
		free(path);
		if (asprintf(&path, "%s.%u", c->options->output, ++c->flight.snapshots) < 0)
			return NULL;
		taken = access(path, F_OK) == 0;
	} while (taken && c->flight.snapshots < UINT_MAX);
	return path;
}

static void visit_relays(void *context, intern_visitor visit, void *visited)
{
	struct capture *c = context;

	relay_visit_names(c->events.relay, visit, visited);
	if (c->calls.relay)
		relay_visit_names(c->calls.relay, visit, visited);
	if (c->flight.trigger)
		trigger_visit_names(c->flight.trigger, visit, visited);
}

int capture_tend_flight(struct capture *c, uint64_t now)
{
	struct capture_flight *flight = &c->flight;
	char *path;
	int err;

	if (!flight->recorder)
		return 0;
	look_at_triggers(c, now);
	if (!flight->due_ns || now < flight->due_ns) {
		flight_expire(flight->recorder);
		flight_collect_names(flight->recorder, visit_relays, c);
		return 0;
	}
	path = snapshot_path(c);
	if (!path)
		return -ENOMEM;
	err = write_snapshot(c, path);
	if (err)
		log_warning("%s: there is no whole file of it in %s; the flight recorder goes on",
			    flight->why, path);
	free(path);
	end_waiting(c, !err, now);
	flight->due_ns = 0;
	flight_hold(flight->recorder, 0);
	return 0;
}

uint64_t capture_flight_pause_ns(const struct capture *c, uint64_t now, uint64_t longest)
{
	uint64_t quiet = c->flight.waiting ? c->flight.quiet_until_ns : 0;
	uint64_t due = c->flight.due_ns ? c->flight.due_ns : quiet,
		 left = due > now ? due - now : 0;

	return due && left < longest ? left : longest;
}

/* ---- the end ---- */

void capture_hold_flight(struct capture *c)
{
	if (c->flight.recorder && !c->flight.due_ns)
		flight_hold(c->flight.recorder, io_now_ns());
}

static void say_why(const struct capture *c, char *text, size_t size)
{
	int status = c->launch.status;

	if (c->options->command && !c->launch.pid && WIFSIGNALED(status))
		snprintf(text, size, "the command was ended by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else if (c->options->command && !c->launch.pid)
		snprintf(text, size, "the command has ended with exit status %d",
			 WEXITSTATUS(status));
	else if (c->opened && process_ended(&c->process))
		snprintf(text, size, "process %d has ended", c->process.pid);
	else
		snprintf(text, size, c->time_is_up ? "the time is up" : "the capture was ended");
}

static void say_what_was_missed(const struct capture *c)
{
	uint64_t shortest = flight_shortest_ns(c->flight.recorder);

	if (c->flight.unheeded)
		log_info("slow calls without a file of their own: %" PRIu64
			 "; each is in the next one that was written",
			 c->flight.unheeded);
	if (shortest)
		log_warning(
			"more came than the flight recorder's memory holds: the window was down to %.3f s at times. Try a larger --flight-size (it is 256M by default)",
			(double)shortest / 1e9);
	for (size_t i = 0; i < c->options->trigger_count; i++)
		if (!trigger_seen(c->flight.trigger, i))
			log_warning(
				"--trigger '%s': no such call was seen. It wants the name of a hooked "
				"function (-f) or of a manual scope",
				c->options->triggers[i].text);
}

int capture_write_flight(struct capture *c, uint64_t *start_ns, uint64_t end_ns)
{
	struct flight_writing how = {.last = true};
	char why[sizeof(c->flight.why)];
	int err;

	if (!c->flight.recorder)
		return 0;
	/* What has come while the sources were closed. */
	look_at_triggers(c, end_ns);
	if (c->flight.due_ns)
		log_info("%s: it is in what follows", c->flight.why);
	end_waiting(c, true, end_ns);
	*start_ns = how.since_ns = window_start(c, end_ns);
	err = flight_write(c->flight.recorder, c->writer, &how);
	if (err)
		return err;
	say_why(c, why, sizeof(why));
	say_written(c, c->writer, why, c->options->output, end_ns - how.since_ns);
	say_what_was_missed(c);
	return 0;
}

uint64_t capture_expired_calls(const struct capture *c, uint32_t function)
{
	return c->flight.recorder ? flight_expired_calls(c->flight.recorder, function) : 0;
}

void capture_share_expired_events(struct capture *c)
{
	uint64_t left = c->flight.recorder ? flight_expired_events(c->flight.recorder) : 0;

	/* They went in the order in which they came: those of the first segment first. */
	for (size_t i = 0; i < c->segments.done_count; i++) {
		struct segment_accounting *terms = &c->segments.done[i];

		terms->expired = left < terms->events ? left : terms->events;
		terms->events -= terms->expired;
		left -= terms->expired;
	}
}
