// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/spill.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"

#define COPY_AT_ONCE (256 * 1024)

struct piece {
	uint64_t offset;
	uint64_t length;
	size_t next; /* of the same stream: index + 1; 0: none */
};

struct spill {
	int fd;
	uint64_t end;
	struct piece *pieces;
	size_t count, capacity;
	size_t *first, *last; /* of each stream: index + 1 */
	unsigned char *buffer;
};

static int said(int err, const char *doing)
{
	log_error(
		"cannot %s a temporary file in %s: %s; make room there, or set TMPDIR to another directory",
		doing, io_temporary_directory(), strerror(-err));
	return -EBADMSG;
}

struct spill *spill_create(size_t streams)
{
	struct spill *spill = calloc(1, sizeof(*spill));

	if (!spill)
		return NULL;
	spill->first = calloc(streams + 1, sizeof(*spill->first));
	spill->last = calloc(streams + 1, sizeof(*spill->last));
	spill->buffer = malloc(COPY_AT_ONCE);
	spill->fd = -ENOMEM;
	if (spill->first && spill->last && spill->buffer)
		spill->fd = io_open_unnamed();
	if (spill->fd < 0) {
		int err = said(spill->fd, "make");

		spill_destroy(spill);
		errno = -err;
		return NULL;
	}
	return spill;
}

void spill_destroy(struct spill *spill)
{
	if (!spill)
		return;
	if (spill->fd >= 0)
		close(spill->fd);
	free(spill->pieces);
	free(spill->first);
	free(spill->last);
	free(spill->buffer);
	free(spill);
}

int spill_add(struct spill *spill, size_t stream, const void *bytes, size_t length)
{
	size_t *last = &spill->last[stream];
	int err = io_write_all(spill->fd, bytes, length);

	if (err)
		return said(err, "write to");
	/* What was written last is often of the same stream. */
	if (*last && *last == spill->count) {
		spill->pieces[*last - 1].length += length;
		spill->end += length;
		return 0;
	}
	if (vec_grow(&spill->pieces, &spill->capacity, spill->count))
		return -ENOMEM;
	spill->pieces[spill->count++] = (struct piece){spill->end, length, 0};
	if (*last)
		spill->pieces[*last - 1].next = spill->count;
	else
		spill->first[stream] = spill->count;
	*last = spill->count;
	spill->end += length;
	return 0;
}

static int take_piece(struct spill *spill, const struct piece *piece, spill_taker take,
		      void *context)
{
	uint64_t done = 0;
	size_t kept = 0; /* the beginning of a record whose end comes next */

	while (done < piece->length) {
		size_t room = COPY_AT_ONCE - kept;
		size_t wanted = piece->length - done < room ? piece->length - done : room;
		ssize_t have = pread(spill->fd, spill->buffer + kept, wanted,
				     (off_t)(piece->offset + done));
		ssize_t taken;

		if (have < 0 && errno == EINTR)
			continue;
		if (have <= 0)
			return said(have ? -errno : -EIO, "read from");
		done += (uint64_t)have;
		kept += (size_t)have;
		taken = take(context, spill->buffer, kept);
		if (taken < 0)
			return (int)taken;
		kept -= (size_t)taken;
		memmove(spill->buffer, spill->buffer + taken, kept);
	}
	return 0;
}

int spill_take(struct spill *spill, size_t stream, spill_taker take, void *context)
{
	int err = 0;

	for (size_t at = spill->first[stream]; at && !err; at = spill->pieces[at - 1].next)
		err = take_piece(spill, &spill->pieces[at - 1], take, context);
	spill->first[stream] = spill->last[stream] = 0;
	return err;
}
