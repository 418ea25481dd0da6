// SPDX-License-Identifier: GPL-2.0-or-later
/* What waits comes back by stream, in whole records, however much of it is read at once. */
#include "sink/spill.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <criterion/criterion.h>

enum { STREAMS = 3, RECORDS = 60000, LONGEST = 40 };

/* Each record: its length, then bytes that tell its stream and its number. */
static size_t make_record(unsigned char *to, size_t stream, uint32_t number)
{
	size_t length = 6 + number * 7 % (LONGEST - 6);

	memset(to, (int)stream, length);
	to[0] = (unsigned char)length;
	memcpy(to + 1, &number, sizeof(number));
	return length;
}

struct taken {
	size_t stream;
	uint32_t next, step;
	int err;
};

static ssize_t take(void *context, const unsigned char *bytes, size_t length)
{
	struct taken *taken = context;
	unsigned char wanted[LONGEST];
	size_t at = 0;

	for (; at < length && at + bytes[at] <= length; taken->next += taken->step) {
		size_t size = make_record(wanted, taken->stream, taken->next);

		cr_assert_eq(bytes[at], size);
		cr_assert(!memcmp(bytes + at, wanted, size), "record %u", taken->next);
		at += size;
	}
	return taken->err ? taken->err : (ssize_t)at;
}

/* The first stream in one piece, the others in turns. */
static struct spill *make_spill(void)
{
	struct spill *spill = spill_create(STREAMS);
	unsigned char bytes[LONGEST];

	cr_assert(spill);
	for (uint32_t i = 0; i < RECORDS; i++)
		cr_assert(!spill_add(spill, 0, bytes, make_record(bytes, 0, i)));
	for (uint32_t i = 0; i < RECORDS; i++)
		cr_assert(!spill_add(spill, 1 + i % 2, bytes, make_record(bytes, 1 + i % 2, i)));
	return spill;
}

Test(spill, whole_records_in_their_order)
{
	struct spill *spill = make_spill();

	for (size_t stream = 0; stream < STREAMS; stream++) {
		struct taken taken = {
			.stream = stream, .next = stream == 2, .step = stream ? 2 : 1};

		cr_assert(!spill_take(spill, stream, take, &taken));
		cr_assert_eq(taken.next, RECORDS + (stream == 2));
		cr_assert(!spill_take(spill, stream, take, &taken), "once");
		cr_assert_eq(taken.next, RECORDS + (stream == 2));
	}
	spill_destroy(spill);
}

Test(spill, who_takes_may_fail)
{
	struct spill *spill = make_spill();
	struct taken taken = {.step = 1, .err = -ENOSPC};

	cr_assert_eq(spill_take(spill, 0, take, &taken), -ENOSPC);
	cr_assert_lt(taken.next, RECORDS);
	spill_destroy(spill);
}
