// SPDX-License-Identifier: GPL-2.0-or-later
#include "event/forward.h"

#include <string.h>

#define RENAMED_ONCE 256u /* events */

/* ---- passing on ---- */

static struct event_output *next_of(struct event_output *output)
{
	return ((struct forward *)((char *)output - offsetof(struct forward, output)))->next;
}

static int pass_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	struct event_output *next = next_of(output);

	return next->string(next, bytes, length, id);
}

static int pass_hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	struct event_output *next = next_of(output);

	return next->hooked(next, scopes, count);
}

static int pass_manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	struct event_output *next = next_of(output);

	return next->manual(next, events, count);
}

static int pass_thread(struct event_output *output, const struct thread_info *thread)
{
	struct event_output *next = next_of(output);

	return next->thread(next, thread);
}

static int pass_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	struct event_output *next = next_of(output);

	return next->anchor(next, anchor);
}

static int pass_loss(struct event_output *output, const struct loss_event *loss)
{
	struct event_output *next = next_of(output);

	return next->loss(next, loss);
}

static void pass_span(struct event_output *output, uint64_t first, uint64_t last)
{
	struct event_output *next = next_of(output);

	next->span(next, first, last);
}

static int pass_process(struct event_output *output, const struct process_info *process)
{
	struct event_output *next = next_of(output);

	return next->process(next, process);
}

void forward_init(struct forward *forward, struct event_output *next)
{
	forward->next = next;
	forward->output = (struct event_output){
		.string = pass_string,
		.hooked = pass_hooked,
		.manual = pass_manual,
		.thread = pass_thread,
		.anchor = pass_anchor,
		.loss = pass_loss,
		.span = next->span ? pass_span : NULL,
		.process = pass_process,
	};
}

/* ---- under other names ---- */

int renaming_manual(struct renaming *renaming, const struct manual_event *events, size_t count)
{
	struct manual_event renamed[RENAMED_ONCE];
	int err = 0;

	while (count && !err) {
		size_t now = count < RENAMED_ONCE ? count : RENAMED_ONCE;

		memcpy(renamed, events, now * sizeof(*events));
		for (size_t i = 0; i < now && !err; i++)
			err = renaming->rename(renaming, &renamed[i].name);
		if (!err)
			err = renaming->next->manual(renaming->next, renamed, now);
		events += now;
		count -= now;
	}
	return err;
}

int renaming_thread(struct renaming *renaming, const struct thread_info *thread)
{
	struct thread_info renamed = *thread;
	int err = renaming->rename(renaming, &renamed.name);

	return err ? err : renaming->next->thread(renaming->next, &renamed);
}

int renaming_process(struct renaming *renaming, const struct process_info *process)
{
	struct process_info renamed = *process;
	int err = renaming->rename(renaming, &renamed.name);

	if (!err)
		err = renaming->rename(renaming, &renamed.command);
	return err ? err : renaming->next->process(renaming->next, &renamed);
}
