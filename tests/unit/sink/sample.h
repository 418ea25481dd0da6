/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small timeline built by hand, with every awkward shape that a sink must draw. Purpose: the
 * golden files are of it.
 */
#ifndef TESTS_UNIT_SINK_SAMPLE_H
#define TESTS_UNIT_SINK_SAMPLE_H

#include <stddef.h>

#include "sink/sink.h"

/* Invalid: ff, and a surrogate. */
#define HOSTILE_NAME "evil<\"a\",b>\n\x1b[31m\\\t\xc2\x9b\xe2\x80\xae\xff\xed\xa0\x80"

enum sample_name {
	NAME_NONE,
	NAME_MAIN,
	NAME_UPDATE,
	NAME_RENDER,
	NAME_PHYSICS,
	NAME_WORKER,
	NAME_DEMO,
	NAME_HOSTILE,
	NAME_COMMAND,
	NAME_IDLE,
	NAME_LONG,
	NAME_TICK,
	SAMPLE_NAMES
};

/* Static: the same at each call, nothing to free. */
const struct timeline *sample_timeline(void);

/* Nothing in it at all, as of a capture that caught nothing. */
const struct timeline *empty_timeline(void);

/* What a sink wrote: malloc'ed, NUL-terminated. Fails the test if the sink failed. */
char *written(int (*write)(const struct timeline *, FILE *, const struct sink_options *),
	      const struct timeline *timeline, const struct sink_options *options, size_t *length);

/* The text is that of tests/golden/NAME; otherwise the test fails, and the difference is shown. */
void expect_golden(const char *text, const char *name);

#endif
