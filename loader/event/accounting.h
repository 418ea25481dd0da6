/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The accounting identity, judged. Purpose: one place that says whether a capture's numbers add up:
 * used by the recorder as it closes and by the reader of the file. Stateless; the total is the
 * caller's.
 */
#ifndef SCOPETRACE_EVENT_ACCOUNTING_H
#define SCOPETRACE_EVENT_ACCOUNTING_H

#include "timeline/timeline.h"

/* A total in which nothing is yet wrong. */
void accounting_begin(struct accounting_total *total);

/*
 * Adds one function's terms and judges its identities (event.h). `in_file` are its scopes in the
 * file, `name` is for the words that say what does not add up.
 */
void accounting_add_function(struct accounting_total *total,
			     const struct function_accounting *terms, struct scopes_in_file in_file,
			     const char *name);

/* Adds one segment's counts and judges its identities (event.h). */
void accounting_add_segment(struct accounting_total *total,
			    const struct segment_accounting *counts);

/*
 * The same of a segment that several readers have read, of which `events` and `lost` are in their
 * files together: what one had written and the next one lost is a loss by the account, and in truth
 * an event.
 */
void accounting_add_shared_segment(struct accounting_total *total,
				   const struct segment_accounting *counts, uint64_t events,
				   uint64_t lost);

/*
 * When all segments are added: judges that the file holds as many manual events as they say were
 * put in it.
 */
void accounting_judge_events(struct accounting_total *total, uint64_t in_file);

/* Marks the whole as unbalanced for this reason (printf-like), unless an earlier reason stands. */
void accounting_fail(struct accounting_total *total, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
