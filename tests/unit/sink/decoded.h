/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A Perfetto trace as `protoc --decode` prints it. Purpose: what a reader that shares no code with
 * our writer finds.
 */
#ifndef TESTS_UNIT_SINK_DECODED_H
#define TESTS_UNIT_SINK_DECODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum decoded_type { DECODED_NONE, DECODED_BEGIN, DECODED_END, DECODED_INSTANT, DECODED_COUNTER };

struct decoded_event {
	uint64_t time;
	uint64_t track;
	uint64_t name_iid;
	uint64_t category;
	double counter;	  /* of either kind */
	uint64_t flow[2]; /* the first two */
	size_t flows;
	size_t annotations;
	enum decoded_type type;
	char name[256];	       /* not interned */
	bool named_before_use; /* its name_iid was sent with it or earlier */
};

struct decoded_track {
	uint64_t uuid;
	uint64_t parent;
	uint64_t pid;
	uint64_t tid;
	bool counts;
	char name[256]; /* of track, process or thread */
};

struct decoded {
	struct decoded_event *events;
	size_t event_count, event_capacity;
	struct decoded_track *tracks;
	size_t track_count, track_capacity;
	uint64_t *iids; /* of event names, as they were sent */
	size_t iid_count, iid_capacity;
	size_t packets;
	size_t of_sequence_1;
	size_t clears; /* packets that clear the incremental state */
};

/* Decodes with perfetto.proto; the test fails if protoc does. */
void decode(struct decoded *decoded, const char *trace, size_t length);
void decoded_free(struct decoded *decoded);

/*
 * What the command, with `input` on its stdin, prints: malloc'ed. The test fails if the command
 * does.
 */
char *output_of(const char *command, const char *input, size_t length);

#define PROTOC_DECODE "protoc --decode=perfetto.Trace --proto_path=loader/sink perfetto.proto"

#endif
