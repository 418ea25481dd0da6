// SPDX-License-Identifier: GPL-2.0-or-later
#include "command/durable.h"

static struct event_output *below(struct event_output *output)
{
	return capture_writer_output(((struct durable *)output)->writer);
}

static int write_out(struct event_output *output, int err)
{
	return err ? err : capture_writer_flush(((struct durable *)output)->writer);
}

/* Written with the first record that has it. */
static int string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	return below(output)->string(below(output), bytes, length, id);
}

static int hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	return write_out(output, below(output)->hooked(below(output), scopes, count));
}

static int manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	return below(output)->manual(below(output), events, count);
}

static int thread(struct event_output *output, const struct thread_info *info)
{
	return write_out(output, below(output)->thread(below(output), info));
}

static int anchor(struct event_output *output, const struct clock_anchor *taken)
{
	return below(output)->anchor(below(output), taken);
}

static int loss(struct event_output *output, const struct loss_event *event)
{
	return write_out(output, below(output)->loss(below(output), event));
}

static void span(struct event_output *output, uint64_t first, uint64_t last)
{
	if (below(output)->span)
		below(output)->span(below(output), first, last);
}

void durable_init(struct durable *durable, struct capture_writer *writer)
{
	durable->writer = writer;
	durable->output = (struct event_output){
		.string = string,
		.hooked = hooked,
		.manual = manual,
		.thread = thread,
		.anchor = anchor,
		.loss = loss,
		.span = span,
	};
}

int durable_flush(struct durable *durable)
{
	return capture_writer_flush(durable->writer);
}
