// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Begins and ends of plain slices, which nearly all packets of a trace are, put together by hand:
 * protobuf-c takes several times as long for the same bytes. What else a packet may have goes
 * through protobuf-c.
 */
#include "sink/perfetto_trace.h"

#include <errno.h>
#include <string.h>

#include "base/vec.h"

#define VARINT		 0 /* wire types */
#define BYTES		 2
#define TAG(field, type) ((field) << 3 | (type))
#define PACKET_MAX	 128   /* of a plain slice, less its module */
#define MODULE_MAX	 16384 /* of a module that is put by hand */
#define LENGTH_SIZE	 3     /* bytes kept for a length: up to 2^21 */

static uint8_t *put_varint(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)(value | 0x80);
	*at++ = (uint8_t)value;
	return at;
}

static uint8_t *put_field(uint8_t *at, unsigned field, uint64_t value)
{
	return put_varint(put_varint(at, TAG(field, VARINT)), value);
}

static size_t varint_size(uint64_t value)
{
	size_t size = 1;

	for (; value >= 0x80; value >>= 7)
		size++;
	return size;
}

/* TrackEvent.debug_annotations: the module, under its interned key. */
static uint8_t *put_module(uint8_t *at, const char *module)
{
	size_t length = strlen(module), inside = 2 + 1 + varint_size(length) + length;

	*at++ = TAG(4, BYTES);
	at = put_varint(at, inside);
	at = put_field(at, 1, KEY_MODULE);
	*at++ = TAG(6, BYTES);
	at = put_varint(at, length);
	memcpy(at, module, length);
	return at + length;
}

/* The message TrackEvent of a slice's begin (its scope) or end (NULL). */
static uint8_t *put_event(const struct perfetto_writer *writer, uint8_t *at,
			  const struct scope *scope, uint32_t track)
{
	if (scope) {
		at = put_field(at, 3,
			       scope->kind == SCOPE_HOOKED ? CATEGORY_HOOKED : CATEGORY_MANUAL);
		if (scope->module)
			at = put_module(at, writer->names[scope->module]);
		at = put_field(at, 9, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_BEGIN);
		at = put_field(at, 10, (uint64_t)scope->name + 1);
	} else {
		at = put_field(at, 9, PERFETTO__TRACK_EVENT__TYPE__TYPE_SLICE_END);
	}
	return put_field(at, 11, track);
}

/*
 * Puts a length before what was written from `body` on, in the place kept for it. Returns the new
 * end.
 */
static uint8_t *close_length(uint8_t *place, uint8_t *body, uint8_t *end)
{
	size_t length = (size_t)(end - body);
	uint8_t *behind = put_varint(place, length);

	memmove(behind, body, length);
	return behind + length;
}

int perfetto_put_plain(struct perfetto_writer *writer, const struct scope *scope, uint64_t time_ns,
		       uint32_t track)
{
	size_t room =
		PACKET_MAX + (scope && scope->module ? strlen(writer->names[scope->module]) : 0);
	uint8_t *start, *packet, *event, *at;

	if (vec_reserve((void **)&writer->buffer, &writer->capacity, writer->used + room, 1))
		return -ENOMEM;
	start = writer->buffer + writer->used;
	*start = TAG(1, BYTES); /* Trace.packet */
	packet = start + 1 + LENGTH_SIZE;
	at = put_field(packet, 8, time_ns);
	at = put_field(at, 10, PERFETTO_SEQUENCE);
	*at++ = TAG(11, BYTES);
	event = at + LENGTH_SIZE;
	at = close_length(at, event, put_event(writer, event, scope, track));
	at = put_field(at, 13, PERFETTO__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE);
	at = close_length(start + 1, packet, at);
	writer->used = (size_t)(at - writer->buffer);
	return writer->used >= PERFETTO_BUFFER_FULL ? perfetto_flush(writer) : 0;
}

bool perfetto_is_plain(const struct perfetto_writer *writer, const struct scope *scope)
{
	return !scope->flags && !scope->start_tid && writer->interned[scope->name] &&
	       (!scope->module || strlen(writer->names[scope->module]) < MODULE_MAX);
}
