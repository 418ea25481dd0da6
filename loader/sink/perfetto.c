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
	for (size_t i = 0; i < timeline->lane_count && !err; i++)
		err = perfetto_put_lane(writer, &event, &timeline->lanes[i]);
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
