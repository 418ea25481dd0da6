// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/trigger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "event/forward.h"

#define THREADS_APART 64u /* threads share a list of open calls with every so manieth other */
#define OPEN_MOST     64u /* in a list: the oldest one goes, as its stop has been lost */
#define CLOCKS	      4u  /* enum clock_id is smaller */

struct watch {
	char *name;
	size_t length;
	uint64_t longer_than_ns;
	uint32_t id; /* of the name in the next output; 0: it has not come yet */
	uint64_t seen;
};

/* Of one function of several names that are watched. */
struct watched_function {
	uint32_t function;
	uint32_t watched;
};

struct open_call {
	uint64_t scope_id;
	uint64_t ticks;
	uint32_t pid, tid;
	uint32_t name;
};

struct open_list {
	struct open_call calls[OPEN_MOST];
	size_t count;
};

/* How fast a clock runs, by its first and its latest reading. */
struct pair {
	struct clock_anchor first, last;
};

struct trigger {
	struct forward forward;
	struct watch *watches;
	size_t watch_count, watch_capacity;
	struct watched_function *functions;
	size_t function_count, function_capacity;
	struct open_list open[THREADS_APART];
	struct pair clocks[CLOCKS];
	uint32_t clock; /* of the manual events that come */
	struct trigger_call first;
	uint64_t count; /* since it was asked */
};

static struct trigger *of(struct event_output *output)
{
	return (struct trigger *)((char *)output - offsetof(struct trigger, forward.output));
}

static void judge(struct trigger *trigger, uint32_t watched, uint64_t ns, uint32_t pid,
		  uint32_t tid)
{
	trigger->watches[watched].seen++;
	if (ns <= trigger->watches[watched].longer_than_ns)
		return;
	if (!trigger->count++)
		trigger->first = (struct trigger_call){watched, ns, pid, tid};
}

/* ---- hooked calls ---- */

static void look_at_call(struct trigger *trigger, const struct hooked_scope *scope)
{
	/* The end of one that was unwound is when it was found gone, which may be long after. */
	if (scope->flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_INSTANT | SCOPE_FLAG_UNWOUND))
		return;
	for (size_t i = 0; i < trigger->function_count; i++)
		if (trigger->functions[i].function == scope->function)
			judge(trigger, trigger->functions[i].watched,
			      scope->end_ns - scope->start_ns, scope->pid, scope->tid);
}

static int output_hooked(struct event_output *output, const struct hooked_scope *scopes,
			 size_t count)
{
	struct trigger *trigger = of(output);
	int err = trigger->forward.next->hooked(trigger->forward.next, scopes, count);

	for (size_t i = 0; i < count && !err && trigger->function_count; i++)
		look_at_call(trigger, &scopes[i]);
	return err;
}

/* ---- manual scopes ---- */

/* True with *ns. A counter that was read once tells nothing yet. */
static bool ticks_to_ns(const struct trigger *trigger, uint64_t ticks, uint64_t *ns)
{
	const struct pair *pair = &trigger->clocks[trigger->clock % CLOCKS];
	double slope;

	*ns = ticks;
	if (trigger->clock == CLOCK_ID_MONOTONIC)
		return true;
	if (pair->last.ticks <= pair->first.ticks || pair->last.ns <= pair->first.ns)
		return false;
	slope = (double)(pair->last.ns - pair->first.ns) /
		(double)(pair->last.ticks - pair->first.ticks);
	*ns = (uint64_t)((double)ticks * slope);
	return true;
}

/* Several may watch one name, for different lengths. */
static void judge_ticks(struct trigger *trigger, uint32_t name, uint64_t start, uint64_t stop,
			const struct manual_event *event)
{
	uint64_t ns;

	if (stop < start || !ticks_to_ns(trigger, stop - start, &ns))
		return;
	for (size_t i = 0; i < trigger->watch_count; i++)
		if (trigger->watches[i].id == name)
			judge(trigger, (uint32_t)i, ns, event->pid, event->tid);
}

static bool is_watched(const struct trigger *trigger, uint32_t name)
{
	size_t i = 0;

	while (i < trigger->watch_count && trigger->watches[i].id != name)
		i++;
	return name && i < trigger->watch_count;
}

static struct open_list *list_of(struct trigger *trigger, const struct manual_event *event)
{
	return &trigger->open[event->tid % THREADS_APART];
}

static void remove_call(struct open_list *list, size_t i)
{
	list->count--;
	memmove(&list->calls[i], &list->calls[i + 1], (list->count - i) * sizeof(list->calls[0]));
}

static void open_call(struct trigger *trigger, const struct manual_event *event)
{
	struct open_list *list = list_of(trigger, event);

	if (list->count == OPEN_MOST)
		remove_call(list, 0);
	list->calls[list->count++] = (struct open_call){event->scope_id, event->ticks, event->pid,
							event->tid, event->name};
}

static void close_call(struct trigger *trigger, const struct manual_event *event)
{
	struct open_list *list = list_of(trigger, event);

	for (size_t i = list->count; i-- > 0;) {
		const struct open_call call = list->calls[i];

		if (call.scope_id != event->scope_id || call.tid != event->tid ||
		    call.pid != event->pid)
			continue;
		remove_call(list, i);
		judge_ticks(trigger, call.name, call.ticks, event->ticks, event);
		return;
	}
}

static void look_at_event(struct trigger *trigger, const struct manual_event *event)
{
	if (event->kind == MANUAL_STOP)
		close_call(trigger, event);
	else if (event->kind == MANUAL_START && is_watched(trigger, event->name))
		open_call(trigger, event);
	else if (event->kind == MANUAL_COMPLETE && is_watched(trigger, event->name))
		judge_ticks(trigger, event->name, event->ticks, event->value, event);
}

static int output_manual(struct event_output *output, const struct manual_event *events,
			 size_t count)
{
	struct trigger *trigger = of(output);
	int err = trigger->forward.next->manual(trigger->forward.next, events, count);

	for (size_t i = 0; i < count && !err; i++)
		look_at_event(trigger, &events[i]);
	return err;
}

/* ---- what else comes ---- */

static int output_string(struct event_output *output, const char *bytes, size_t length,
			 uint32_t *id)
{
	struct trigger *trigger = of(output);
	int err = trigger->forward.next->string(trigger->forward.next, bytes, length, id);

	for (size_t i = 0; i < trigger->watch_count && !err; i++) {
		struct watch *watch = &trigger->watches[i];

		if (watch->length == length && memcmp(watch->name, bytes, length) == 0)
			watch->id = *id;
	}
	return err;
}

static int output_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	struct trigger *trigger = of(output);
	struct pair *pair = &trigger->clocks[anchor->clock % CLOCKS];

	/* It went back: another machine, or a suspended one. */
	if (!pair->first.ns || anchor->ticks < pair->last.ticks)
		pair->first = *anchor;
	pair->last = *anchor;
	return trigger->forward.next->anchor(trigger->forward.next, anchor);
}

static int output_process(struct event_output *output, const struct process_info *process)
{
	struct trigger *trigger = of(output);

	if (process->clock)
		trigger->clock = process->clock;
	return trigger->forward.next->process(trigger->forward.next, process);
}

/* ---- the trigger ---- */

struct event_output *trigger_output(struct trigger *trigger)
{
	return &trigger->forward.output;
}

int trigger_watch(struct trigger *trigger, const char *name, size_t length, uint64_t longer_than_ns)
{
	struct watch watch = {.length = length, .longer_than_ns = longer_than_ns};

	if (vec_grow(&trigger->watches, &trigger->watch_capacity, trigger->watch_count))
		return -ENOMEM;
	watch.name = strndup(name, length);
	if (!watch.name)
		return -ENOMEM;
	trigger->watches[trigger->watch_count++] = watch;
	return 0;
}

int trigger_watch_function(struct trigger *trigger, uint32_t function, size_t watched)
{
	if (vec_grow(&trigger->functions, &trigger->function_capacity, trigger->function_count))
		return -ENOMEM;
	trigger->functions[trigger->function_count++] =
		(struct watched_function){function, (uint32_t)watched};
	return 0;
}

bool trigger_take(struct trigger *trigger, struct trigger_call *first, uint64_t *count)
{
	*first = trigger->first;
	*count = trigger->count;
	trigger->count = 0;
	return *count;
}

uint64_t trigger_seen(const struct trigger *trigger, size_t watched)
{
	return trigger->watches[watched].seen;
}

void trigger_visit_names(struct trigger *trigger, intern_visitor visit, void *context)
{
	for (size_t i = 0; i < trigger->watch_count; i++)
		visit(context, &trigger->watches[i].id);
	for (size_t i = 0; i < THREADS_APART; i++)
		for (size_t j = 0; j < trigger->open[i].count; j++)
			visit(context, &trigger->open[i].calls[j].name);
}

void trigger_destroy(struct trigger *trigger)
{
	if (!trigger)
		return;
	for (size_t i = 0; i < trigger->watch_count; i++)
		free(trigger->watches[i].name);
	free(trigger->watches);
	free(trigger->functions);
	free(trigger);
}

struct trigger *trigger_create(struct event_output *next)
{
	struct trigger *trigger = calloc(1, sizeof(*trigger));
	struct event_output *output;

	if (!trigger)
		return NULL;
	forward_init(&trigger->forward, next);
	output = &trigger->forward.output;
	output->string = output_string;
	output->hooked = output_hooked;
	output->manual = output_manual;
	output->anchor = output_anchor;
	output->process = output_process;
	return trigger;
}
