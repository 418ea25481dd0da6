// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/balance.h"

#include <inttypes.h>

#include "base/utf8.h"

/* True if the file has the accounting of some function. */
static bool accounted(const struct timeline *timeline)
{
	size_t i = 0;

	while (i < timeline->function_count && !timeline->functions[i].accounted)
		i++;
	return i < timeline->function_count;
}

/* True if the file has no account at all of what is in it, of functions or else of segments. */
static bool lacks_accounts(const struct trace_index *trace)
{
	if (trace->timeline->function_count)
		return !accounted(trace->timeline);
	return trace->records[CHUNK_MANUAL] && !trace->segment_count;
}

/* All that is known of it: what of it was drained. */
static void count_function(struct accounting_total *total, const struct function_entry *entry)
{
	total->functions++;
	total->in_file += entry->in_file.completed;
	total->sum.unwound += entry->in_file.unwound;
	total->sum.instants += entry->in_file.instants;
}

static const struct segment_tally *find_tally(const struct trace_index *trace,
					      const struct segment_accounting *counts)
{
	static const struct segment_tally none;

	uint32_t i;

	if (hash_map_get(&trace->tally_by_segment, (uint64_t)counts->pid << 32 | counts->segment,
			 &i))
		return &trace->tallies[i];
	return &none;
}

/*
 * True if there is nothing to judge of all together: no segments, or such as several readers have
 * read, one of which may have no account, as nobody drained when its process ended. Of a capture
 * that goes on one file does not hold what the accounts of the others' segments tell.
 */
static bool add_segments(const struct trace_index *trace, struct accounting_total *total)
{
	bool shared = !trace->segment_count;

	for (size_t i = 0; i < trace->segment_count; i++) {
		const struct segment_accounting *counts = &trace->segments[i];
		const struct segment_tally *tally;

		shared |= counts->segment != 0;
		if (!counts->segment) {
			accounting_add_segment(total, counts);
		} else if (!total->open) {
			tally = find_tally(trace, counts);
			accounting_add_shared_segment(total, counts, tally->events, tally->lost);
		}
	}
	return shared;
}

void balance_check(struct trace_index *trace)
{
	const struct timeline *timeline = trace->timeline;
	struct accounting_total *total = &trace->timeline->accounting;

	if (timeline->truncated)
		accounting_fail(
			total,
			"the file was cut short after %" PRIu64
			" bytes, %.6f s after its start: what came later is missing, and its accounting",
			timeline->truncated_at,
			(double)(timeline->end_ns - timeline->start_ns) / 1e9);
	total->open = !timeline->truncated && lacks_accounts(trace);
	for (size_t i = 0; i < timeline->function_count; i++) {
		const struct function_entry *entry = &timeline->functions[i];
		const char *name = timeline->names[entry->info.name];

		if (total->open) {
			count_function(total, entry);
			continue;
		}
		if (!entry->accounted)
			accounting_fail(total, "%.*s: the file has no accounting of it",
					(int)name_cut(name, 80), name);
		accounting_add_function(total, &entry->accounting, entry->in_file, name);
	}
	if (total->open && !trace->segment_count)
		total->segment_delivered = trace->records[CHUNK_MANUAL];
	if (!add_segments(trace, total))
		accounting_judge_events(total, trace->records[CHUNK_MANUAL]);
}
