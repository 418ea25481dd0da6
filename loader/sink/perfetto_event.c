// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "sink/words.h"

#define ANNOTATIONS 4 /* of one event, besides the arguments of a scope */

/* Room for so many annotations and flow ids. */
static int event_reserve(struct perfetto_event *event, size_t annotations, size_t flows)
{
	if (vec_reserve((void **)&event->flows, &event->flow_capacity, flows,
			sizeof(*event->flows)))
		return -ENOMEM;
	if (annotations > event->annotation_capacity) {
		Perfetto__DebugAnnotation **list =
			realloc(event->annotation_list, annotations * sizeof(*list));

		if (!list)
			return -ENOMEM;
		event->annotation_list = list;
		if (vec_reserve((void **)&event->annotations, &event->annotation_capacity,
				annotations, sizeof(*event->annotations)))
			return -ENOMEM;
		for (size_t i = 0; i < annotations; i++)
			list[i] = &event->annotations[i];
		event->annotation_capacity = annotations;
	}
	event->track_event.debug_annotations = event->annotation_list;
	event->track_event.flow_ids = event->flows;
	return 0;
}

int perfetto_event_init(struct perfetto_event *event)
{
	memset(event, 0, sizeof(*event));
	perfetto__trace_packet__init(&event->packet);
	perfetto__track_event__init(&event->track_event);
	perfetto__interned_data__init(&event->interned);
	perfetto__event_name__init(&event->name);
	event->name_list[0] = &event->name;
	event->interned.n_event_names = 1;
	event->interned.event_names = event->name_list;
	event->name.has_iid = 1;
	event->packet.has_timestamp = 1;
	event->packet.has_sequence_flags = 1;
	event->packet.sequence_flags = PERFETTO__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE;
	event->packet.track_event = &event->track_event;
	event->track_event.category_iids = &event->category;
	event->track_event.has_type = 1;
	event->track_event.has_track_uuid = 1;
	return event_reserve(event, ANNOTATIONS, 1);
}

void perfetto_event_clear(struct perfetto_event *event)
{
	free(event->annotations);
	free(event->annotation_list);
	free(event->flows);
}

/* Makes `event` a bare one: no name, category or annotation yet. */
void perfetto_event_start(struct perfetto_event *event, Perfetto__TrackEvent__Type type,
			  uint64_t time, uint32_t track)
{
	event->packet.timestamp = time;
	event->packet.interned_data = NULL;
	event->track_event.type = type;
	event->track_event.track_uuid = track;
	event->track_event.has_name_iid = 0;
	event->track_event.name = NULL;
	event->track_event.n_category_iids = 0;
	event->track_event.n_debug_annotations = 0;
	event->track_event.n_flow_ids = 0;
	event->track_event.has_counter_value = 0;
	event->track_event.has_double_counter_value = 0;
}

void perfetto_event_category(struct perfetto_event *event, enum perfetto_category category)
{
	event->category = category;
	event->track_event.n_category_iids = 1;
}

/* Names the event by reference; the name itself goes with the first event that has it. */
void perfetto_event_name(struct perfetto_writer *writer, struct perfetto_event *event,
			 uint32_t name)
{
	event->track_event.has_name_iid = 1;
	event->track_event.name_iid = (uint64_t)name + 1;
	if (writer->interned[name])
		return;
	writer->interned[name] = true;
	event->name.iid = (uint64_t)name + 1;
	event->name.name = writer->names[name];
	event->packet.interned_data = &event->interned;
}

Perfetto__DebugAnnotation *perfetto_event_annotation(struct perfetto_event *event,
						     enum perfetto_key key)
{
	Perfetto__DebugAnnotation *annotation =
		&event->annotations[event->track_event.n_debug_annotations++];

	perfetto__debug_annotation__init(annotation);
	annotation->has_name_iid = 1;
	annotation->name_iid = key;
	return annotation;
}

void perfetto_event_uint(struct perfetto_event *event, enum perfetto_key key, uint64_t value)
{
	Perfetto__DebugAnnotation *annotation = perfetto_event_annotation(event, key);

	annotation->has_uint_value = 1;
	annotation->uint_value = value;
}

/* Ids are the process's own: two processes that count from 1 are not tied. */
static void event_flow(struct perfetto_event *event, uint32_t pid, uint64_t id)
{
	event->flows[event->track_event.n_flow_ids++] = id ^ pid * 0x9E3779B97F4A7C15ull;
}

static void event_argument(struct perfetto_writer *writer, struct perfetto_event *event,
			   const struct mark *mark)
{
	Perfetto__DebugAnnotation *annotation =
		&event->annotations[event->track_event.n_debug_annotations++];

	perfetto__debug_annotation__init(annotation);
	annotation->name = writer->names[mark->name];
	annotation->has_int_value = 1;
	annotation->int_value = (int64_t)mark->value;
}

/* The arguments and flows of a scope, in the order in which they were given; the first and each one's next
 * are known. */
int perfetto_event_marks(struct perfetto_writer *writer, struct perfetto_event *event,
			 const struct lane_part *part, uint32_t first, const uint32_t *next)
{
	size_t arguments = 0, flows = 0;

	for (uint32_t i = first; i != PERFETTO_NO_MARK; i = next[i]) {
		arguments += part->marks[i].kind == MANUAL_ARGUMENT;
		flows += part->marks[i].kind == MANUAL_FLOW;
	}
	if (event_reserve(event, ANNOTATIONS + arguments, flows + 1))
		return -ENOMEM;
	for (uint32_t i = first; i != PERFETTO_NO_MARK; i = next[i]) {
		if (part->marks[i].kind == MANUAL_ARGUMENT)
			event_argument(writer, event, &part->marks[i]);
		else
			event_flow(event, part->lane->pid, part->marks[i].value);
	}
	return 0;
}

/* Ready to be put, once its arguments and flows are there. */
void perfetto_begin_event(struct perfetto_writer *writer, struct perfetto_event *event,
			  const struct scope *scope, uint32_t track, char *flags)
{

	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN, scope->start_ns,
			     track);
	perfetto_event_category(event,
				scope->kind == SCOPE_HOOKED ? CATEGORY_HOOKED : CATEGORY_MANUAL);
	perfetto_event_name(writer, event, scope->name);
	if (scope->module)
		perfetto_event_annotation(event, KEY_MODULE)->string_value =
			writer->names[scope->module];
	if (scope->flags)
		perfetto_event_annotation(event, KEY_FLAGS)->string_value =
			(char *)words_flags(scope->flags, flags);
	if (scope->start_tid)
		perfetto_event_uint(event, KEY_START_TID, scope->start_tid);
}

static int put_counter(struct perfetto_writer *writer, struct perfetto_event *event,
		       const struct lane *lane, const struct mark *mark)
{
	uint32_t track;
	int err = perfetto_counter_track(writer, lane->pid, mark->name, &track);

	if (err)
		return err;
	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_COUNTER, mark->time_ns,
			     track);
	if (mark->kind == MANUAL_COUNTER_DOUBLE) {
		event->track_event.has_double_counter_value = 1;
		memcpy(&event->track_event.double_counter_value, &mark->value, sizeof(mark->value));
	} else {
		event->track_event.has_counter_value = 1;
		event->track_event.counter_value = (int64_t)mark->value;
	}
	return perfetto_put_packet(writer, &event->packet);
}

/* Instants and frame marks; arguments and flows outside of any scope. */
static int put_instant(struct perfetto_writer *writer, struct perfetto_event *event,
		       const struct lane *lane, const struct mark *mark, uint32_t track)
{
	char *kind = (char *)words_mark(mark->kind);
	Perfetto__DebugAnnotation *value;

	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, mark->time_ns,
			     track);
	perfetto_event_category(event, CATEGORY_MANUAL);
	if (mark->name)
		perfetto_event_name(writer, event, mark->name);
	else
		event->track_event.name = kind;
	perfetto_event_annotation(event, KEY_KIND)->string_value = kind;
	if (mark->kind == MANUAL_ARGUMENT) {
		value = perfetto_event_annotation(event, KEY_VALUE);
		value->has_int_value = 1;
		value->int_value = (int64_t)mark->value;
	} else if (mark->kind == MANUAL_FLOW) {
		event_flow(event, lane->pid, mark->value);
	}
	return perfetto_put_packet(writer, &event->packet);
}

int perfetto_put_mark(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct lane *lane, const struct mark *mark, uint32_t track)
{
	switch (mark->kind) {
	case MANUAL_COUNTER_INT:
	case MANUAL_COUNTER_DOUBLE:
		return put_counter(writer, event, lane, mark);
	case MANUAL_ASYNC_START:
	case MANUAL_ASYNC_STOP:
		return 0; /* drawn as slices */
	case MANUAL_ARGUMENT:
	case MANUAL_FLOW:
		if (mark->scope != MARK_NO_SCOPE)
			return 0; /* went out with its scope */
		break;
	}
	return put_instant(writer, event, lane, mark, track);
}

int perfetto_put_loss(struct perfetto_writer *writer, struct perfetto_event *event,
		      const struct loss_event *loss)
{
	char name[64], place[64];
	uint32_t track;
	int err = perfetto_lost_track(writer, loss->pid, &track);

	if (err)
		return err;
	words_loss(loss, place, sizeof(place));
	snprintf(name, sizeof(name), "%" PRIu64 " lost", loss->count);
	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, loss->first_ns,
			     track);
	perfetto_event_category(event, CATEGORY_LOST);
	event->track_event.name = name;
	perfetto_event_uint(event, KEY_COUNT, loss->count);
	perfetto_event_annotation(event, KEY_PLACE)->string_value = place;
	perfetto_event_uint(event, KEY_LAST_NS, loss->last_ns);
	return perfetto_put_packet(writer, &event->packet);
}

int perfetto_put_name(struct perfetto_writer *writer, struct perfetto_event *event,
		      uint64_t time_ns, uint32_t name, uint32_t command, uint32_t track)
{
	perfetto_event_start(event, PERFETTO__TRACK_EVENT__TYPE__TYPE_INSTANT, time_ns, track);
	perfetto_event_category(event, CATEGORY_NAME);
	perfetto_event_name(writer, event, name);
	if (command)
		perfetto_event_annotation(event, KEY_COMMAND)->string_value =
			writer->names[command];
	return perfetto_put_packet(writer, &event->packet);
}
