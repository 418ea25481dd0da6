// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/accounting.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sink/escape.h"
#include "sink/sink.h"

#define TERM(name)                                                \
	{                                                         \
#name, offsetof(struct function_accounting, name) \
	}

const struct accounting_term accounting_terms[] = {
	TERM(entries),	    TERM(returns),  TERM(completed),  TERM(discarded),	   TERM(duplicates),
	TERM(orphans),	    TERM(too_deep), TERM(unfinished), TERM(unwound),	   TERM(not_a_call),
	TERM(not_a_return), TERM(map_full), TERM(chain_full), TERM(below_minimum), TERM(ring_lost),
	TERM(handoff_lost), TERM(filtered), TERM(opened),     TERM(instants),	   TERM(expired),
	{NULL, 0},
};

static_assert(sizeof(accounting_terms) / sizeof(accounting_terms[0]) - 1 ==
		      sizeof(struct function_accounting) / sizeof(uint64_t),
	      "every term has a name");

uint64_t accounting_value(const struct function_accounting *accounting,
			  const struct accounting_term *term)
{
	return *(const uint64_t *)((const char *)accounting + term->offset);
}

/* A line that grows in a buffer, and is cut where the buffer ends. */
struct line {
	char *text;
	size_t size;
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
line_add(struct line *line, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line->text + line->used, line->size - line->used, format, arguments);
	va_end(arguments);
	if (length > 0)
		line->used += (size_t)length;
	if (line->used >= line->size)
		line->used = line->size - 1;
}

/* What is usually nothing is told only when it is something. */
static void line_add_rare(struct line *line, uint64_t count, const char *words)
{
	if (count)
		line_add(line, ", %" PRIu64 " %s", count, words);
}

static void line_add_verdict(struct line *line, const struct accounting_total *total)
{
	char *reason;

	if (total->balanced) {
		line_add(line, total->open
				       ? "; the capture goes on, and its account comes with its end"
				       : "; balanced");
		return;
	}
	reason = escape_text(total->imbalance);
	line_add(line, "; NOT BALANCED: %s",
		 reason && *reason ? reason : "the numbers do not add up");
	free(reason);
}

static void line_add_hooked(struct line *line, const struct accounting_total *total)
{
	const struct function_accounting *sum = &total->sum;

	line_add(line,
		 "%" PRIu64 " calls; %" PRIu64 " duplicate entries, %" PRIu64
		 " entries with no return discarded, %" PRIu64
		 " returns with no entry dropped, %" PRIu64 " lost in the ring, %" PRIu64
		 " too deep, %" PRIu64 " unfinished",
		 total->in_file, sum->duplicates, sum->discarded, sum->orphans, sum->ring_lost,
		 sum->too_deep, sum->unfinished);
	line_add_rare(line, sum->unwound, "unwound");
	line_add_rare(line, sum->instants, "entries alone");
	line_add_rare(line, sum->handoff_lost, "lost in the hand-off");
	line_add_rare(line, sum->expired, "before the window");
	line_add_rare(line, sum->below_minimum, "below the minimum");
	line_add_rare(line, sum->filtered, "filtered");
	line_add_rare(line, sum->not_a_call, "entries that were no call");
	line_add_rare(line, sum->not_a_return, "exits that were no return");
	line_add_rare(line, sum->map_full, "not opened (map full)");
	line_add_rare(line, sum->chain_full, "not opened (chain full)");
	line_add_rare(line, total->recursion_misses, "hits skipped by the kernel");
}

static void line_add_manual(struct line *line, const struct accounting_total *total)
{
	line_add(line, "%" PRIu64 " manual events, %" PRIu64 " lost", total->segment_delivered,
		 total->segment_lost);
	line_add_rare(line, total->segment_handoff_lost, "lost in the hand-off");
	line_add_rare(line, total->segment_expired, "before the window");
	line_add_rare(line, total->segment_written_off, "written off");
	line_add_rare(line, total->segment_holes, "holes");
	line_add_rare(line, total->manual_unstopped, "scopes never stopped");
	line_add_rare(line, total->manual_orphans, "stops without a start");
}

void accounting_line(const struct accounting_total *total, char *text, size_t size)
{
	bool manual = total->segment_delivered || total->segment_lost || total->segment_written_off;
	/* What was not asked for is not told of; what was, even if it is nothing. */
	bool hooked = total->functions || total->sum.entries || total->sum.returns || !manual;
	struct line line = {text, size, 0};

	if (!size)
		return;
	if (hooked)
		line_add_hooked(&line, total);
	if (hooked && manual)
		line_add(&line, "; ");
	if (manual)
		line_add_manual(&line, total);
	line_add_verdict(&line, total);
}
