// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define LONGEST_NAME 1024
/* Threads that wait at a time; events that wait behind one name. */
#define MOST_QUEUES 128
#define MOST_EVENTS 64

struct partial_name {
	size_t length;
	char bytes[LONGEST_NAME];
};

struct held_event {
	struct manual_event event;
	struct partial_name *name; /* NULL: it is whole */
};

struct held_queue {
	uint32_t tid;
	size_t count;
	struct held_event events[MOST_EVENTS];
};

static struct held_queue *find_queue(const struct held *held, uint32_t tid)
{
	for (size_t i = 0; i < held->count; i++) {
		if (held->queues[i]->tid == tid)
			return held->queues[i];
	}
	return NULL;
}

static void remove_queue(struct held *held, struct held_queue *queue)
{
	for (size_t i = 0; i < held->count; i++) {
		if (held->queues[i] == queue)
			held->queues[i] = held->queues[--held->count];
	}
	free(queue);
}

static int make_whole(struct held *held, struct held_event *waiting)
{
	int err = held->output.name(held->output.context, waiting->name->bytes,
				    waiting->name->length, &waiting->event.name);

	free(waiting->name);
	waiting->name = NULL;
	return err;
}

/* Lets go what is whole at the head of the queue; an empty queue is removed. */
static int release(struct held *held, struct held_queue *queue)
{
	size_t ready = 0;
	int err = 0;

	while (ready < queue->count && !queue->events[ready].name && !err)
		err = held->output.event(held->output.context, &queue->events[ready++].event);
	queue->count -= ready;
	memmove(queue->events, queue->events + ready, queue->count * sizeof(queue->events[0]));
	if (!queue->count)
		remove_queue(held, queue);
	return err;
}

/* Waits no longer for the name at the head. */
static int cut_head(struct held *held, struct held_queue *queue)
{
	int err = make_whole(held, &queue->events[0]);

	return err ? err : release(held, queue);
}

static int append(struct held *held, struct held_queue *queue, const struct manual_event *event,
		  struct partial_name *name)
{
	uint32_t tid = queue->tid;
	int err = queue->count == MOST_EVENTS ? cut_head(held, queue) : 0;

	if (err)
		return err;
	/* Everything may have left, and the queue with it. */
	queue = find_queue(held, tid);
	if (!queue && !name)
		return held->output.event(held->output.context, event);
	if (!queue) {
		if (vec_grow(&held->queues, &held->capacity, held->count))
			return -ENOMEM;
		queue = calloc(1, sizeof(*queue));
		if (!queue)
			return -ENOMEM;
		queue->tid = tid;
		held->queues[held->count++] = queue;
	}
	queue->events[queue->count++] = (struct held_event){*event, name};
	return 0;
}

int held_begin(struct held *held, const struct manual_event *event, const char *name, size_t length)
{
	struct held_queue newcomer = {.tid = event->tid}, *queue = find_queue(held, event->tid);
	struct partial_name *partial;
	int err = 0;

	if (!queue && held->count == MOST_QUEUES)
		err = cut_head(held, held->queues[0]);
	if (err)
		return err;
	partial = malloc(sizeof(*partial));
	if (!partial)
		return -ENOMEM;
	partial->length = length < LONGEST_NAME ? length : LONGEST_NAME;
	memcpy(partial->bytes, name, partial->length);
	err = append(held, queue ? queue : &newcomer, event, partial);
	if (err)
		free(partial);
	return err;
}

int held_continue(struct held *held, uint32_t tid, uint64_t scope_id, const char *name,
		  size_t length, bool last)
{
	struct held_queue *queue = find_queue(held, tid);
	struct held_event *waiting = NULL;
	struct partial_name *partial;
	int err;

	for (size_t i = 0; queue && i < queue->count; i++) {
		if (queue->events[i].name && queue->events[i].event.scope_id == scope_id)
			waiting = &queue->events[i];
	}
	if (!waiting)
		return 0;
	partial = waiting->name;
	if (length > LONGEST_NAME - partial->length)
		length = LONGEST_NAME - partial->length;
	memcpy(partial->bytes + partial->length, name, length);
	partial->length += length;
	if (!last)
		return 0;
	err = make_whole(held, waiting);
	return err ? err : release(held, queue);
}

int held_put(struct held *held, const struct manual_event *event)
{
	struct held_queue *queue = held->count ? find_queue(held, event->tid) : NULL;

	if (!queue)
		return held->output.event(held->output.context, event);
	return append(held, queue, event, NULL);
}

int held_finish(struct held *held)
{
	int err = 0;

	while (held->count && !err)
		err = cut_head(held, held->queues[0]);
	return err;
}

void held_clear(struct held *held)
{
	for (size_t i = 0; i < held->count; i++) {
		for (size_t j = 0; j < held->queues[i]->count; j++)
			free(held->queues[i]->events[j].name);
		free(held->queues[i]);
	}
	free(held->queues);
	held->queues = NULL;
	held->count = held->capacity = 0;
}
