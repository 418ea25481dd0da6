// SPDX-License-Identifier: GPL-2.0-or-later
#include "event/accounting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define NAME_SHOWN 80 /* bytes of a function's name: the words must fit behind it */

void accounting_begin(struct accounting_total *total)
{
	memset(total, 0, sizeof(*total));
	total->balanced = true;
}

void accounting_fail(struct accounting_total *total, const char *format, ...)
{
	va_list arguments;

	if (!total->balanced)
		return;
	total->balanced = false;
	va_start(arguments, format);
	vsnprintf(total->imbalance, sizeof(total->imbalance), format, arguments);
	va_end(arguments);
}

static void judge(struct accounting_total *total, const char *name, const char *left, uint64_t have,
		  const char *right, uint64_t want)
{
	if (have != want)
		accounting_fail(total, "%.*s: %s is %" PRIu64 ", but %s is %" PRIu64,
				(int)name_cut(name, NAME_SHOWN), name, left, have, right, want);
}

void accounting_add_function(struct accounting_total *total, const struct function_accounting *t,
			     struct scopes_in_file in_file, const char *name)
{
	/* All terms are uint64_t in a row, asserted by the size in event.h. */
	const uint64_t *term = (const uint64_t *)t;
	uint64_t *sum = (uint64_t *)&total->sum;

	for (size_t i = 0; i < sizeof(*t) / sizeof(*term); i++)
		sum[i] += term[i];
	total->in_file += in_file.completed;
	total->functions++;
	judge(total, name, "entries", t->entries,
	      "not_a_call + too_deep + filtered + map_full + chain_full + opened + instants",
	      t->not_a_call + t->too_deep + t->filtered + t->map_full + t->chain_full + t->opened +
		      t->instants);
	judge(total, name, "opened", t->opened, "completed + discarded + unwound + unfinished",
	      t->completed + t->discarded + t->unwound + t->unfinished);
	judge(total, name, "returns", t->returns, "completed + not_a_return + orphans",
	      t->completed + t->not_a_return + t->orphans);
	judge(total, name,
	      t->unwound + t->instants ? "completed + unwound + instants" : "completed",
	      t->completed + t->unwound + t->instants,
	      t->expired ? "below_minimum + ring_lost + handoff_lost + expired + in_file"
			 : "below_minimum + ring_lost + handoff_lost + in_file",
	      t->below_minimum + t->ring_lost + t->handoff_lost + t->expired + in_file.completed +
		      in_file.unwound + in_file.instants);
}

void accounting_add_segment(struct accounting_total *total, const struct segment_accounting *s)
{
	total->segment_delivered += s->delivered;
	total->segment_events += s->events;
	total->segment_lost += s->lost;
	total->segment_written_off += s->written_off;
	total->segment_holes += s->holes;
	judge(total, "segment", "cursor", s->cursor, "delivered + lost + written_off + holes",
	      s->delivered + s->lost + s->written_off + s->holes);
	total->segment_handoff_lost += s->handoff_lost;
	total->segment_expired += s->expired;
	judge(total, "segment", "delivered", s->delivered,
	      s->expired ? "events + continuations + handoff_lost + expired"
			 : "events + continuations + handoff_lost",
	      s->events + s->continuations + s->handoff_lost + s->expired);
}

/* Found by a later reader in one place or the other. */
static void move_found(struct segment_accounting *counts, uint64_t found)
{
	uint64_t lapped = found < counts->lost ? found : counts->lost;

	counts->events += found;
	counts->delivered += found;
	counts->lost -= lapped;
	counts->written_off -= found - lapped;
}

void accounting_add_shared_segment(struct accounting_total *total,
				   const struct segment_accounting *counts, uint64_t events,
				   uint64_t lost)
{
	struct segment_accounting sum = *counts;
	uint64_t all = counts->lost + counts->written_off;

	if (events > counts->events && events - counts->events <= all)
		move_found(&sum, events - counts->events);
	judge(total, "segment", "events", sum.events, "its manual events in the files", events);
	judge(total, "segment", "lost + written_off", sum.lost + sum.written_off,
	      "its losses in the files", lost);
	accounting_add_segment(total, &sum);
}

void accounting_judge_events(struct accounting_total *total, uint64_t in_file)
{
	judge(total, "segments", "events", total->segment_events, "manual events in the file",
	      in_file);
}
