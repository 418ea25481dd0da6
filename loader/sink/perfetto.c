// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/perfetto.h"

#include <errno.h>
#include <stdlib.h>

#include "sink/escape.h"
#include "sink/output.h"
#include "sink/perfetto_trace.h"

static bool is_utf8(const char *text)
{
	uint32_t code = 0;

	while (*text && code != ESCAPE_INVALID)
		text += escape_decode(text, &code);
	return code != ESCAPE_INVALID;
}

/* Protobuf strings are UTF-8: a reader may refuse the whole packet otherwise. */
static int writer_names(struct perfetto_writer *writer)
{
	const struct timeline *timeline = writer->timeline;

	writer->names = calloc(timeline->name_count, sizeof(*writer->names));
	writer->interned = calloc(timeline->name_count, sizeof(*writer->interned));
	if (!writer->names || !writer->interned)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->name_count; i++) {
		writer->names[i] = timeline->names[i];
		if (!is_utf8(timeline->names[i]))
			writer->names[i] = escape_utf8(timeline->names[i]);
		if (!writer->names[i])
			return -ENOMEM;
	}
	return 0;
}

static void writer_free(struct perfetto_writer *writer)
{
	for (size_t i = 0; writer->names && i < writer->timeline->name_count; i++) {
		if (writer->names[i] != writer->timeline->names[i])
			free(writer->names[i]);
	}
	free(writer->names);
	free(writer->interned);
	free(writer->buffer);
	hash_map_clear(&writer->named);
	hash_map_clear(&writer->processes);
	hash_map_clear(&writer->lost);
	hash_map_clear(&writer->counters);
}

/* A process that was renamed (exec) has several entries: its last name counts. */
static int put_processes(struct perfetto_writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	uint32_t uuid;
	int err = 0;

	for (size_t i = 0; i < timeline->process_count && !err; i++) {
		if (timeline->processes[i].name)
			err = hash_map_put(&writer->named, timeline->processes[i].pid, (uint32_t)i);
	}
	for (size_t i = 0; i < timeline->process_count && !err; i++)
		err = perfetto_process_track(writer, timeline->processes[i].pid, &uuid);
	return err;
}

/* A track has one name, its last: where that changed there is an instant. */
static int put_process_names(struct perfetto_writer *writer, struct perfetto_event *event)
{
	const struct timeline *timeline = writer->timeline;
	int err = 0;

	for (size_t i = 1; i < timeline->process_change_count && !err; i++) {
		const struct process_change *change = &timeline->process_changes[i];
		uint32_t track;

		if (change->process != change[-1].process)
			continue;
		err = perfetto_process_track(writer, timeline->processes[change->process].pid,
					     &track);
		if (!err)
			err = perfetto_put_name(writer, event, change->time_ns, change->name,
						change->command, track);
	}
	return err;
}

struct drawn_lanes {
	struct perfetto_writer *writer;
	struct perfetto_event *event;
	struct perfetto_position **positions; /* of each lane that is not complete */
};

static int put_part(void *context, const struct lane_part *part)
{
	struct drawn_lanes *drawn = context;
	size_t lane = (size_t)(part->lane - drawn->writer->timeline->lanes);

	return perfetto_put_part(drawn->writer, drawn->event, part, &drawn->positions[lane]);
}

static int put_lanes(struct perfetto_writer *writer, struct perfetto_event *event)
{
	const struct timeline *timeline = writer->timeline;
	struct drawn_lanes drawn = {writer, event,
				    calloc(timeline->lane_count + 1, sizeof(*drawn.positions))};
	int err = drawn.positions ? timeline_visit(timeline, put_part, &drawn) : -ENOMEM;

	for (size_t i = 0; drawn.positions && i < timeline->lane_count; i++)
		perfetto_position_destroy(drawn.positions[i]);
	free(drawn.positions);
	return err;
}

static int put_timeline(struct perfetto_writer *writer)
{
	const struct timeline *timeline = writer->timeline;
	struct perfetto_event event = {.annotations = NULL};
	int err = perfetto_put_start(writer);

	if (!err)
		err = perfetto_put_clocks(writer);
	if (!err)
		err = put_processes(writer);
	if (!err)
		err = perfetto_event_init(&event);
	if (!err)
		err = put_process_names(writer, &event);
	if (!err)
		err = put_lanes(writer, &event);
	if (!err)
		err = perfetto_put_asyncs(writer, &event);
	for (size_t i = 0; i < timeline->loss_count && !err; i++)
		err = perfetto_put_loss(writer, &event, &timeline->losses[i]);
	perfetto_event_clear(&event);
	return err ? err : perfetto_flush(writer);
}

int perfetto_write(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct perfetto_writer writer = {.timeline = timeline, .out = out};
	int err;

	(void)options;
	errno = 0;
	err = writer_names(&writer);
	if (!err)
		err = put_timeline(&writer);
	writer_free(&writer);
	return err ? err : output_result(out);
}
