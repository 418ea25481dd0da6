// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/capture.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "sink/sink.h"
#include "source/bpf_source.h"
#include "source/shm_source.h"
#include "timeline/accounting.h"

/*
 * Ends both streams at the same moment, manual scopes first, as closing the probes takes tens of
 * milliseconds; then takes what remains. The accounts stand still only when no probe is left.
 */
static int end_sources(struct capture *c, uint64_t *end_ns)
{
	int err = 0, finished = 0;

	if (c->manual)
		err = capture_close_manual(c);
	*end_ns = io_now_ns();
	if (c->session)
		probe_session_detach(c->session);
	if (c->hooked)
		finished = c->hooked->ops->finish(c->hooked, capture_writer_output(c->writer));
	return err ? err : finished;
}

static int declare_process(struct capture *c)
{
	struct event_output *output = capture_writer_output(c->writer);
	const char *command = c->process.command ? c->process.command : "";
	struct process_info info = {
		.start_ns = c->process.start_ns, .pid = (uint32_t)c->process.pid, .clock = c->clock};
	int err = output->string(output, c->process.comm, strlen(c->process.comm), &info.name);

	if (!err)
		err = output->string(output, command, strlen(command), &info.command);
	return err ? err : capture_writer_process(c->writer, &info);
}

static int write_accounts(struct capture *c, struct accounting_total *total)
{
	int err = 0;

	accounting_begin(total);
	for (size_t i = 0; i < c->function_count && !err; i++) {
		struct function_accounting terms = bpf_source_accounting(c->hooked, (uint32_t)i);

		accounting_add_function(total, &terms, capture_writer_in_file(c->writer, (uint32_t)i),
					c->functions[i]->demangled);
		err = capture_writer_function_accounting(c->writer, (uint32_t)i, &terms);
	}
	for (size_t i = 0; i < c->segment_count && !err; i++) {
		accounting_add_segment(total, &c->segments[i]);
		err = capture_writer_segment_accounting(c->writer, &c->segments[i]);
	}
	total->recursion_misses = c->session ? probe_session_recursion_misses(c->session) : 0;
	return err;
}

static void say_closing(const struct capture *c, const struct accounting_total *total, uint64_t bytes)
{
	char line[1024];

	accounting_line(total, line, sizeof(line));
	log_info("%s", line);
	log_info("%s: %.1f MB; see it with `scopetrace report%s%s`", c->options->output, (double)bytes / 1e6,
		 strcmp(c->options->output, "scopetrace.scope") ? " " : "",
		 strcmp(c->options->output, "scopetrace.scope") ? c->options->output : "");
}

static void print_json(const struct accounting_total *total)
{
	report_accounting_json(total, stdout);
	putchar('\n');
}

int capture_finish(struct capture *c)
{
	struct accounting_total total;
	uint64_t end_ns, bytes;
	int err, finished;

	if (!c->writer)
		return 0;
	err = end_sources(c, &end_ns);
	if (!err)
		err = declare_process(c);
	if (!err)
		err = write_accounts(c, &total);
	bytes = capture_writer_bytes(c->writer);
	finished = capture_writer_finish(c->writer, c->start_ns, end_ns, err ? 0 : total.recursion_misses);
	c->writer = NULL;
	if (err || finished)
		return err ? err : finished;
	say_closing(c, &total, bytes);
	if (c->options->json)
		print_json(&total);
	if (!total.balanced) {
		log_error("the numbers of this capture do not add up, which is a bug of scopetrace: %s",
			  total.imbalance);
		return -EBADMSG;
	}
	return 0;
}
