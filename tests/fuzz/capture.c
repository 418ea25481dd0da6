// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * timeline_open on any bytes: libFuzzer target. The checksums of the chunks are put right first, or the input
 * would be refused before anything of it was looked at; with an odd last byte they are left as they are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "timeline/capture_format.h"
#include "timeline/timeline.h"

static void mend_chunks(uint8_t *data, size_t size)
{
	size_t at = 0;

	while (size - at >= sizeof(struct chunk_header)) {
		struct chunk_header header;
		size_t room = size - at - sizeof(header);

		memcpy(&header, data + at, sizeof(header));
		header.magic = CAPTURE_CHUNK_MAGIC;
		if (header.length > room || chunk_padded(header.length) > room)
			header.length = (uint32_t)(room & ~(size_t)7);
		header.crc = chunk_crc(&header, data + at + sizeof(header));
		memcpy(data + at, &header, sizeof(header));
		at += sizeof(header) + chunk_padded(header.length);
	}
}

/* What any reader of a timeline may rely on. */
static void check(const struct timeline *timeline)
{
	for (size_t i = 0; i < timeline->lane_count; i++) {
		const struct lane *lane = &timeline->lanes[i];

		if (lane->name >= timeline->name_count)
			abort();
		for (size_t j = 0; j < lane->scope_count; j++) {
			const struct scope *scope = &lane->scopes[j];

			if (scope->name >= timeline->name_count || scope->module >= timeline->name_count ||
			    scope->end_ns < scope->start_ns ||
			    (scope->kind == SCOPE_HOOKED && scope->function >= timeline->function_count))
				abort();
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int descriptor = -1;
	struct timeline *timeline;
	uint8_t *copy = malloc(size + 1);
	char path[64];

	if (descriptor < 0)
		descriptor = memfd_create("capture", MFD_CLOEXEC);
	if (!copy || descriptor < 0)
		exit(2);
	memcpy(copy, data, size);
	if (!size || !(data[size - 1] & 1))
		mend_chunks(copy, size);
	if (ftruncate(descriptor, 0) != 0 || pwrite(descriptor, copy, size, 0) != (ssize_t)size)
		exit(2);
	free(copy);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", descriptor);
	timeline = timeline_open(path);
	if (timeline)
		check(timeline);
	timeline_close(timeline);
	return 0;
}
