/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words for what event.h numbers. Purpose: every sink says the same. Stateless.
 */
#ifndef SCOPETRACE_SINK_WORDS_H
#define SCOPETRACE_SINK_WORDS_H

#include <stddef.h>

#include "timeline/timeline.h"

#define WORDS_FLAGS_SIZE 64 /* all flags joined, and the NUL */

/* "hooked" or "manual". */
const char *words_kind(unsigned kind);

/*
 * The flags' names joined by `|`; "" without any. Returns `text`, which has WORDS_FLAGS_SIZE bytes.
 */
const char *words_flags(unsigned flags, char *text);

/* What a mark is: "instant", "counter", "frame" ... */
const char *words_mark(unsigned kind);

/* Why a function is not hooked (enum not_hooked), behind its name and a colon. */
const char *words_not_hooked(uint32_t why);

/* Where events were lost, with its index: "kernel ring of cpu 3". */
void words_loss(const struct loss_event *loss, char *text, size_t size);

#endif
