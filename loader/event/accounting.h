/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The accounting identity, judged. Purpose: one place that says whether a capture's numbers add up:
 * used by the recorder as it closes and by the reader of the file. Stateless; the total is the
 * caller's.
 */
#ifndef SCOPETRACE_EVENT_ACCOUNTING_H
#define SCOPETRACE_EVENT_ACCOUNTING_H

#include <stdbool.h>

#include "event/event.h"

/* Why the numbers of a capture may not add up; 0 terms mean nothing was lost. */
struct accounting_total {
	struct function_accounting sum;
	uint64_t functions; /* that were hooked */
	uint64_t in_file;   /* completed hooked scopes in the file */
	uint64_t recursion_misses;
	uint64_t segment_delivered;
	uint64_t segment_events; /* of the delivered: events, the others only went on with a name */
	uint64_t segment_lost;
	uint64_t segment_handoff_lost;
	uint64_t segment_expired; /* let go of by a flight recorder */
	uint64_t segment_written_off;
	uint64_t segment_holes;
	uint64_t manual_orphans;   /* stops without a start in the file */
	uint64_t manual_unstopped; /* starts without a stop in the file */
	/*
	 * the file has no accounting: it was drained from a capture that goes on; nothing to judge
	 */
	bool open;
	/* every identity of event.h holds, per function and in all, and the file is whole */
	bool balanced;
	char imbalance[256]; /* if not: the first identity that fails, in words */
};

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
