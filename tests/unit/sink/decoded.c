// SPDX-License-Identifier: GPL-2.0-or-later
#include "decoded.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/vec.h"

char *output_of(const char *command, const char *input, size_t length)
{
	char path[] = "/tmp/scopetrace-input-XXXXXX", *line = NULL, *text = NULL, buffer[65536];
	int fd = mkstemp(path);
	size_t size, got;
	FILE *pipe, *all;

	cr_assert_geq(fd, 0);
	cr_assert_eq(io_write_all(fd, input, length), 0);
	unlink(path); /* nothing is left, whatever fails */
	cr_assert_geq(asprintf(&line, "{ %s; } < /proc/%d/fd/%d", command, (int)getpid(), fd), 0);
	pipe = popen(line, "r");
	all = open_memstream(&text, &size);
	while ((got = fread(buffer, 1, sizeof(buffer), pipe)) > 0)
		fwrite(buffer, 1, got, all);
	fclose(all);
	cr_assert_eq(pclose(pipe), 0, "%s failed", command);
	close(fd);
	free(line);
	return text;
}

/*
 * Where the decoder is: the names of the open blocks, joined by dots; and what the packet holds so
 * far.
 */
struct place {
	char path[256];
	struct decoded_event event;
	struct decoded_track track;
	bool has_track;
};

static void copy_string(char *to, size_t size, const char *quoted)
{
	size_t length = strlen(quoted);

	cr_assert(length >= 2 && length - 2 < size);
	memcpy(to, quoted + 1, length - 2);
	to[length - 2] = '\0';
}

static void read_event(struct place *place, const char *key, const char *value)
{
	struct decoded_event *event = &place->event;

	if (strcmp(key, "type") == 0)
		event->type = strcmp(value, "TYPE_SLICE_BEGIN") == 0 ? DECODED_BEGIN
			      : strcmp(value, "TYPE_SLICE_END") == 0 ? DECODED_END
			      : strcmp(value, "TYPE_COUNTER") == 0   ? DECODED_COUNTER
								     : DECODED_INSTANT;
	else if (strcmp(key, "counter_value") == 0 || strcmp(key, "double_counter_value") == 0)
		event->counter = strtod(value, NULL);
	else if (strcmp(key, "flow_ids") == 0 && event->flows < 2)
		event->flow[event->flows++] = strtoull(value, NULL, 10);
	else if (strcmp(key, "track_uuid") == 0)
		event->track = strtoull(value, NULL, 10);
	else if (strcmp(key, "name_iid") == 0)
		event->name_iid = strtoull(value, NULL, 10);
	else if (strcmp(key, "category_iids") == 0)
		event->category = strtoull(value, NULL, 10);
	else if (strcmp(key, "name") == 0)
		copy_string(event->name, sizeof(event->name), value);
}

static void read_track(struct place *place, const char *key, const char *value)
{
	struct decoded_track *track = &place->track;

	place->has_track = true;
	if (strcmp(key, "uuid") == 0)
		track->uuid = strtoull(value, NULL, 10);
	else if (strcmp(key, "parent_uuid") == 0)
		track->parent = strtoull(value, NULL, 10);
	else if (strcmp(key, "process.pid") == 0 || strcmp(key, "thread.pid") == 0)
		track->pid = strtoull(value, NULL, 10);
	else if (strcmp(key, "thread.tid") == 0)
		track->tid = strtoull(value, NULL, 10);
	else if (strcmp(key, "name") == 0 || strcmp(key, "process.process_name") == 0 ||
		 strcmp(key, "thread.thread_name") == 0)
		copy_string(track->name, sizeof(track->name), value);
}

static void read_value(struct decoded *decoded, struct place *place, const char *key,
		       const char *value)
{
	char path[512];

	snprintf(path, sizeof(path), "%s.%s", place->path, key);
	if (strcmp(path, ".packet.timestamp") == 0)
		place->event.time = strtoull(value, NULL, 10);
	else if (strcmp(path, ".packet.trusted_packet_sequence_id") == 0)
		decoded->of_sequence_1 += strcmp(value, "1") == 0;
	else if (strcmp(path, ".packet.sequence_flags") == 0)
		decoded->clears += strcmp(value, "1") == 0;
	else if (strncmp(path, ".packet.track_event.", 20) == 0)
		read_event(place, path + 20, value);
	else if (strncmp(path, ".packet.track_descriptor.", 25) == 0)
		read_track(place, path + 25, value);
	else if (strcmp(path, ".packet.interned_data.event_names.iid") == 0) {
		cr_assert_eq(vec_grow(&decoded->iids, &decoded->iid_capacity, decoded->iid_count),
			     0);
		decoded->iids[decoded->iid_count++] = strtoull(value, NULL, 10);
	}
}

static bool iid_sent(const struct decoded *decoded, uint64_t iid)
{
	for (size_t i = 0; i < decoded->iid_count; i++) {
		if (decoded->iids[i] == iid)
			return true;
	}
	return iid == 0;
}

static void end_packet(struct decoded *decoded, struct place *place)
{
	decoded->packets++;
	if (place->event.type) {
		cr_assert_eq(
			vec_grow(&decoded->events, &decoded->event_capacity, decoded->event_count),
			0);
		place->event.named_before_use = iid_sent(decoded, place->event.name_iid);
		decoded->events[decoded->event_count++] = place->event;
	}
	if (place->has_track) {
		cr_assert_eq(
			vec_grow(&decoded->tracks, &decoded->track_capacity, decoded->track_count),
			0);
		decoded->tracks[decoded->track_count++] = place->track;
	}
	memset(place, 0, sizeof(*place));
}

static void read_line(struct decoded *decoded, struct place *place, char *line)
{
	char *colon, *key = line + strspn(line, " ");
	size_t length = strlen(key);

	if (length > 2 && strcmp(key + length - 2, " {") == 0) {
		key[length - 2] = '\0';
		cr_assert_lt(strlen(place->path) + length, sizeof(place->path));
		strcat(strcat(place->path, "."), key);
		place->track.counts |= strcmp(place->path, ".packet.track_descriptor.counter") == 0;
		place->event.annotations +=
			strcmp(place->path, ".packet.track_event.debug_annotations") == 0;
	} else if (strcmp(key, "}") == 0) {
		*strrchr(place->path, '.') = '\0';
		if (!*place->path)
			end_packet(decoded, place);
	} else {
		colon = strstr(key, ": ");
		cr_assert_not_null(colon, "what is this: %s", line);
		*colon = '\0';
		read_value(decoded, place, key, colon + 2);
	}
}

void decode(struct decoded *decoded, const char *trace, size_t length)
{
	char *text = output_of(PROTOC_DECODE, trace, length), *rest = text, *line;
	struct place place = {0};

	memset(decoded, 0, sizeof(*decoded));
	while ((line = strsep(&rest, "\n"))) {
		if (*line)
			read_line(decoded, &place, line);
	}
	free(text);
}

void decoded_free(struct decoded *decoded)
{
	free(decoded->events);
	free(decoded->tracks);
	free(decoded->iids);
}
