// SPDX-License-Identifier: GPL-2.0-or-later
#include "pinned/durable.h"

static struct event_output *below(struct event_output *output)
{
	return ((struct durable *)output)->forward.next;
}

static int write_out(struct event_output *output, int err)
{
	return err ? err : durable_flush((struct durable *)output);
}

static int hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	return write_out(output, below(output)->hooked(below(output), scopes, count));
}

static int thread(struct event_output *output, const struct thread_info *info)
{
	return write_out(output, below(output)->thread(below(output), info));
}

/*
 * Those of a segment are told again by the next reader, as long as its position is not committed.
 */
static int loss(struct event_output *output, const struct loss_event *event)
{
	int err = below(output)->loss(below(output), event);

	return event->place == LOSS_KERNEL_RING ? write_out(output, err) : err;
}

/* A string is written with the first record that has it. */
void durable_init(struct durable *durable, struct scope_file_writer *writer)
{
	durable->writer = writer;
	forward_init(&durable->forward, scope_file_writer_output(writer));
	durable->forward.output.hooked = hooked;
	durable->forward.output.thread = thread;
	durable->forward.output.loss = loss;
}

int durable_flush(struct durable *durable)
{
	return scope_file_writer_flush(durable->writer);
}
