// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/deflate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "file/format.h"

struct deflater {
	z_stream stream;
	size_t room; /* of the payload in `chunk` */
	unsigned char *chunk;
};

struct deflater *deflater_create(int level, size_t longest)
{
	struct deflater *deflater = calloc(1, sizeof(*deflater));

	if (!deflater)
		return NULL;
	if (deflateInit(&deflater->stream, level) != Z_OK) {
		free(deflater);
		return NULL;
	}
	/*
	 * No more than the payload itself is wanted, so what zlib may need at worst does not
	 * matter.
	 */
	deflater->room = longest;
	deflater->chunk = malloc(sizeof(struct chunk_header) + longest + 8);
	if (!deflater->chunk) {
		deflater_destroy(deflater);
		return NULL;
	}
	return deflater;
}

void deflater_destroy(struct deflater *deflater)
{
	if (!deflater)
		return;
	deflateEnd(&deflater->stream);
	free(deflater->chunk);
	free(deflater);
}

unsigned char *deflater_pack(struct deflater *deflater, const void *payload, uint32_t length,
			     uint32_t *packed)
{
	unsigned char *to = deflater->chunk + sizeof(struct chunk_header);
	z_stream *stream = &deflater->stream;

	if (length <= sizeof(length) || length > deflater->room)
		return NULL;
	deflateReset(stream);
	memcpy(to, &length, sizeof(length));
	stream->next_in = (Bytef *)payload;
	stream->avail_in = length;
	stream->next_out = to + sizeof(length);
	stream->avail_out = length - (uInt)sizeof(length);
	if (deflate(stream, Z_FINISH) != Z_STREAM_END)
		return NULL;
	*packed = (uint32_t)(stream->next_out - to);
	return deflater->chunk;
}

uint32_t inflated_length(const void *payload, uint32_t length)
{
	uint32_t inflated;

	if (length <= sizeof(inflated))
		return 0;
	memcpy(&inflated, payload, sizeof(inflated));
	return inflated <= SCOPE_FILE_CHUNK_MAX ? inflated : 0;
}

int inflate_payload(const void *payload, uint32_t length, void *inflated)
{
	uLongf have = inflated_length(payload, length);
	uLong wanted = have, used = length - sizeof(uint32_t);
	int result = uncompress2(inflated, &have, (const Bytef *)payload + sizeof(uint32_t), &used);

	if (result == Z_MEM_ERROR)
		return -ENOMEM;
	return result == Z_OK && have == wanted && used == length - sizeof(uint32_t) ? 0 : -EBADMSG;
}
