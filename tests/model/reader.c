// SPDX-License-Identifier: GPL-2.0-or-later
/* libscope/reader.c as it is, with hooks, opened on one ring of the test's own memory. */
#define HOOK_READER
#include "hooks.h"

#include "sides.h"

#ifdef HOLES_MAX
/* As a variable of the test: the bound is met with a few writers. */
#undef SCOPE_HOLES_MAX
#define SCOPE_HOLES_MAX side_holes_max
uint64_t side_holes_max;
#endif

#include "../../libscope/reader.c"

struct scope_reader *side_reader_open(struct side_segment *segment)
{
	static struct scope_reader reader;

	memset(&reader, 0, sizeof(reader));
	reader.segment.header.ring_count = 1;
	reader.segment.header.slots_per_ring = segment->slots;
	reader.segment.header.clock = SCOPE_CLOCK_MONOTONIC;
	reader.ring[0].ring = segment->ring;
	reader.ring[0].saved = segment->saved;
	return load_position(&reader.ring[0]) ? &reader : NULL;
}

const struct scope_position *side_reader_position(const struct scope_reader *reader)
{
	return &reader->ring[0].at;
}
