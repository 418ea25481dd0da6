// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/log.h"
#include "sink/sink.h"
#include "source/bpf_source.h"
#include "source/shm_source.h"
#include "event/accounting.h"

static void keep_first(int *err, int later)
{
	if (!*err)
		*err = later;
}

static void say_lost_threads(const struct relay *relay)
{
	uint64_t lost = relay ? relay_lost_threads(relay) : 0;

	if (lost)
		log_warning(
			"%llu starts, ends or renames of threads came while nothing could be written, and were "
			"discarded: their lanes may lack names",
			(unsigned long long)lost);
}

/*
 * Ends both streams at the same moment, manual scopes first, as closing the probes takes tens of
 * milliseconds: until then the kernel's ring is drained.
 */
int capture_stop(struct capture *c)
{
	if (c->stopped)
		return c->stop_error;
	c->stopped = true;
	c->stop_error = drainer_stop(&c->watcher);
	keep_first(&c->stop_error, drainer_stop(&c->events.drainer));
	if (c->segments.source)
		shm_source_stop(c->segments.source);
	c->end_ns = io_now_ns();
	capture_end_lifecycle(c);
	if (c->session)
		probe_session_detach(c->session);
	leases_release(&c->leases);
	keep_first(&c->stop_error, drainer_stop(&c->calls.drainer));
	return c->stop_error;
}

/*
 * Takes what remains, now without a thread that must not wait: nothing more is discarded. The
 * accounts stand still only when no probe is left.
 */
static int end_sources(struct capture *c)
{
	int err = capture_stop(c);

	if (c->calls.relay)
		keep_first(&err, relay_settle(c->calls.relay));
	keep_first(&err, relay_settle(c->events.relay));
	say_lost_threads(c->calls.relay);
	say_lost_threads(c->events.relay);
	if (c->segments.source)
		keep_first(&err, capture_close_segment(c));
	if (c->hooked)
		keep_first(&err, c->hooked->ops->finish(c->hooked, relay_output(c->calls.relay)));
	keep_first(&err, capture_follow_lifecycle(c));
	return err;
}

static int write_accounts(struct capture *c, struct accounting_total *total)
{
	int err = 0;

	accounting_begin(total);
	for (size_t i = 0; i < c->plan.count && !err; i++) {
		struct function_accounting terms = bpf_source_accounting(c->hooked, (uint32_t)i);

		terms.handoff_lost = relay_lost_calls(c->calls.relay, (uint32_t)i);
		terms.expired = capture_expired_calls(c, (uint32_t)i);
		accounting_add_function(total, &terms,
					scope_file_writer_in_file(c->writer, (uint32_t)i),
					c->plan.functions[i]->demangled);
		err = scope_file_writer_function_accounting(c->writer, (uint32_t)i, &terms);
	}
	capture_share_expired_events(c);
	for (size_t i = 0; i < c->segments.done_count && !err; i++) {
		accounting_add_segment(total, &c->segments.done[i]);
		err = scope_file_writer_segment_accounting(c->writer, &c->segments.done[i]);
	}
	accounting_judge_events(total, scope_file_writer_manual_in_file(c->writer));
	total->recursion_misses = c->session ? probe_session_recursion_misses(c->session) : 0;
	return err;
}

/* A loss must not stand unseen in the middle of the closing line, and has a cure. */
static void say_losses(const struct accounting_total *total, uint64_t overwritten)
{
	uint64_t lost = total->segment_lost + total->segment_written_off - overwritten;
	uint64_t unwritten = total->sum.handoff_lost + total->segment_handoff_lost;

	if (unwritten)
		log_warning(
			"%" PRIu64
			" calls and manual events were lost because the file was written too slowly: scopes may be missing or cut. Try a faster place with -o, or a larger --buffer (16M is the default)",
			unwritten);

	if (total->sum.ring_lost)
		log_warning(
			"%" PRIu64
			" calls were lost because the kernel's ring was full: scopes around or in them may be missing. Hook less, or try a larger --ring-size (8M is the default)",
			total->sum.ring_lost);
	if (total->sum.too_deep)
		log_warning(
			"%" PRIu64
			" calls were nested too deep to be followed (64 in a thread with uretprobes, some 16,000 otherwise): they are counted, and not on the timeline. Try --returns=instruction, or hook fewer functions",
			total->sum.too_deep);
	if (overwritten)
		log_warning(
			"%" PRIu64
			" manual events were lost before this capture began, as nobody read them: scopes of that time may be missing or cut",
			overwritten);
	if (lost)
		log_warning(
			"%" PRIu64
			" manual events were lost because the program wrote faster than they were read: scopes may be missing or cut. Try more SCOPE_SLOTS in the program's environment (8192 by default)",
			lost);
}

static void say_forks(const struct capture *c)
{
	uint64_t forks = c->lifecycle.forks;

	if (forks)
		log_info("%" PRIu64
			 " process%s forked; what %s called is not in this capture (-p traces one)",
			 forks, forks == 1 ? " was" : "es were", forks == 1 ? "it" : "they");
}

static void say_file(const char *output, uint64_t bytes)
{
	bool named = strcmp(output, "scopetrace.scope") != 0, large = bytes >= 1000000;
	double size = (double)bytes / (large ? 1e6 : 1e3);
	const char *unit = large ? "MB" : "kB";
	struct stat status;

	if (strcmp(output, "-") == 0)
		return;
	if (!stat(output, &status) && S_ISREG(status.st_mode))
		log_info("%s: %.1f %s; see it with `scopetrace report%s%s`", output, size, unit,
			 named ? " " : "", named ? output : "");
	else /* a pipe or a device is not read again */
		log_info("%s: %.1f %s", output, size, unit);
}

static void say_closing(const struct capture *c, const struct accounting_total *total,
			uint64_t bytes)
{
	char line[1024];

	accounting_line(total, line, sizeof(line));
	log_info("%s", line);
	say_losses(total, c->segments.overwritten);
	say_forks(c);
	if (!c->session && !c->segments.done_count)
		log_warning(
			"the command has shown no libscope segment by its end, and no -f was given: "
			"nothing was captured");
	say_file(c->options->output, bytes);
}

static void print_json(const struct accounting_total *total)
{
	report_accounting_json(total, stdout);
	putchar('\n');
}

/* Without its account it must not read as a good one. A failed write has said as much. */
static void give_up(struct capture *c)
{
	if (!scope_file_writer_abandon(c->writer))
		log_warning(
			"the capture has failed: what came before is in %s, which has no account",
			c->options->output);
	c->writer = NULL;
}

int capture_finish(struct capture *c)
{
	struct accounting_total total;
	uint64_t start_ns = c->start_ns, bytes;
	int err;

	if (!c->writer)
		return 0;
	capture_hold_flight(c);
	err = end_sources(c);
	/* What the window holds is most wanted when something has gone wrong. */
	keep_first(&err, capture_write_flight(c, &start_ns, c->end_ns));
	if (!err)
		err = write_accounts(c, &total);
	if (!err)
		err = scope_file_writer_flush(c->writer);
	if (err) {
		give_up(c);
		return err;
	}
	bytes = scope_file_writer_bytes(c->writer);
	err = scope_file_writer_finish(c->writer, start_ns, c->end_ns, total.recursion_misses);
	c->writer = NULL;
	if (err)
		return err;
	say_closing(c, &total, bytes);
	if (c->options->json)
		print_json(&total);
	if (!total.balanced) {
		log_error(
			"the numbers of this capture do not add up, which is a bug of scopetrace: %s",
			total.imbalance);
		return -EBADMSG;
	}
	return 0;
}
