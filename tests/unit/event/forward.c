// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>

#include "event/forward.h"

/* Notes what was called, and the names that came. */
struct noted {
	struct event_output output;
	size_t calls;
	size_t events;
	uint32_t names[1000];
	size_t name_count;
};

static struct noted *of(struct event_output *output)
{
	return (struct noted *)output;
}

static int note_string(struct event_output *output, const char *bytes, size_t length, uint32_t *id)
{
	(void)bytes;
	*id = (uint32_t)length;
	of(output)->calls++;
	return 1;
}

static int note_hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	(void)scopes;
	of(output)->events += count;
	of(output)->calls++;
	return 2;
}

static int note_manual(struct event_output *output, const struct manual_event *events, size_t count)
{
	for (size_t i = 0; i < count; i++)
		of(output)->names[of(output)->name_count++] = events[i].name;
	of(output)->calls++;
	return 0;
}

static int note_thread(struct event_output *output, const struct thread_info *thread)
{
	of(output)->names[of(output)->name_count++] = thread->name;
	of(output)->calls++;
	return 4;
}

static int note_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	(void)anchor;
	of(output)->calls++;
	return 5;
}

static int note_loss(struct event_output *output, const struct loss_event *loss)
{
	(void)loss;
	of(output)->calls++;
	return 6;
}

static void note_span(struct event_output *output, uint64_t first, uint64_t last)
{
	(void)first, (void)last;
	of(output)->calls++;
}

static int note_process(struct event_output *output, const struct process_info *process)
{
	of(output)->names[of(output)->name_count++] = process->name;
	of(output)->names[of(output)->name_count++] = process->command;
	of(output)->calls++;
	return 7;
}

static struct noted noted_init(void)
{
	return (struct noted){.output = {.string = note_string,
					 .hooked = note_hooked,
					 .manual = note_manual,
					 .thread = note_thread,
					 .anchor = note_anchor,
					 .loss = note_loss,
					 .span = note_span,
					 .process = note_process}};
}

Test(forward, all_of_it_is_passed_on)
{
	struct noted noted = noted_init();
	struct forward forward;
	struct event_output *output = &forward.output;
	uint32_t id = 0;

	forward_init(&forward, &noted.output);
	cr_assert_eq(output->string(output, "abc", 3, &id), 1);
	cr_assert_eq(id, 3);
	cr_assert_eq(output->hooked(output, NULL, 9), 2);
	cr_assert_eq(noted.events, 9);
	cr_assert_eq(output->manual(output, &(struct manual_event){.name = 8}, 1), 0);
	cr_assert_eq(output->thread(output, &(struct thread_info){0}), 4);
	cr_assert_eq(output->anchor(output, &(struct clock_anchor){0}), 5);
	cr_assert_eq(output->loss(output, &(struct loss_event){0}), 6);
	output->span(output, 1, 2);
	cr_assert_eq(output->process(output, &(struct process_info){0}), 7);
	cr_assert_eq(noted.calls, 8);
}

Test(forward, nobody_is_asked_for_spans_that_nobody_wants)
{
	struct noted noted = noted_init();
	struct forward forward;

	noted.output.span = NULL;
	forward_init(&forward, &noted.output);
	cr_assert_null(forward.output.span);
}

/* A name that there is not, and the others under other numbers. */
static int plus_hundred(struct renaming *renaming, uint32_t *id)
{
	(void)renaming;
	if (*id == 66)
		return -EBADMSG;
	*id += 100;
	return 0;
}

Test(forward, names_are_the_next_outputs)
{
	struct noted noted = noted_init();
	struct renaming renaming = {&noted.output, plus_hundred};
	struct manual_event *events = calloc(900, sizeof(*events));

	for (size_t i = 0; i < 900; i++)
		events[i].name = (uint32_t)(i + 1000);
	cr_assert_eq(renaming_manual(&renaming, events, 900), 0);
	cr_assert_eq(noted.name_count, 900, "however many fit in at a time");
	for (size_t i = 0; i < 900; i++)
		cr_assert_eq(noted.names[i], i + 1100);
	cr_assert_eq(events[899].name, 1899, "the caller's stay as they are");
	cr_assert_eq(renaming_thread(&renaming, &(struct thread_info){.name = 1}), 4);
	cr_assert_eq(renaming_process(&renaming, &(struct process_info){.name = 2, .command = 3}),
		     7);
	cr_assert_eq(noted.names[900], 101);
	cr_assert_eq(noted.names[901], 102);
	cr_assert_eq(noted.names[902], 103);
	free(events);
}

Test(forward, what_has_no_name_is_not_put)
{
	struct noted noted = noted_init();
	struct renaming renaming = {&noted.output, plus_hundred};

	cr_assert_eq(renaming_manual(&renaming, &(struct manual_event){.name = 66}, 1), -EBADMSG);
	cr_assert_eq(renaming_thread(&renaming, &(struct thread_info){.name = 66}), -EBADMSG);
	cr_assert_eq(renaming_process(&renaming, &(struct process_info){.command = 66}), -EBADMSG);
	cr_assert_eq(noted.calls, 0);
}
