// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/trace_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

#define TIME_MAX ((uint64_t)INT64_MAX)
#define KNOWN_FLAGS                                                                      \
	(SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_UNWOUND | SCOPE_FLAG_CUT | SCOPE_FLAG_LOST | \
	 SCOPE_FLAG_MIGRATED | SCOPE_FLAG_INSTANT)

/* ---- records ---- */

const char *hooked_wrong(const struct timeline *timeline, const struct hooked_scope *scope)
{
	if (scope->function >= timeline->function_count)
		return "a scope of a function that is not in the file";
	if (scope->start_ns > TIME_MAX || scope->end_ns > TIME_MAX)
		return "a scope at an impossible time";
	if (scope->end_ns < scope->start_ns && !(scope->flags & SCOPE_FLAG_UNFINISHED))
		return "a scope that ends before it starts";
	return NULL;
}

bool manual_kind_known(uint8_t kind)
{
	return kind >= MANUAL_START && kind <= MANUAL_FLOW && kind != MANUAL_STOP + 1;
}

const char *manual_wrong(const struct timeline *timeline, const struct manual_event *event)
{
	if (event->name >= timeline->name_count)
		return "a manual event with a name that is not in the file";
	return NULL;
}

struct raw_call raw_call_of(const struct hooked_scope *scope, uint32_t order)
{
	return (struct raw_call){
		.start_ns = scope->start_ns,
		.end_ns = scope->end_ns,
		.sp = scope->sp,
		.id = scope->function,
		.order = order,
		.start_tid = scope->flags & SCOPE_FLAG_MIGRATED ? scope->start_tid : 0,
		.flags = scope->flags & KNOWN_FLAGS,
	};
}

struct raw_manual raw_manual_of(const struct manual_event *event, uint32_t order,
				const struct clock_line *line, struct clock_cursor *cursor)
{
	bool paired = event->kind == MANUAL_START || event->kind == MANUAL_STOP;
	struct raw_manual raw = {.value = paired ? event->scope_id : event->value,
				 .name = event->name,
				 .order = order,
				 .place = order,
				 .kind = event->kind,
				 .ring = event->ring};
	struct clock_cursor start = *cursor;

	/* The record of a COMPLETE stands at its end. */
	if (event->kind == MANUAL_COMPLETE) {
		raw.inside = event->flags;
		raw.value = clock_line_convert(line, cursor, event->value);
		raw.time = clock_line_convert(line, &start, event->ticks);
		if (raw.time > raw.value)
			raw.time = raw.value;
	} else {
		raw.time = clock_line_convert(line, cursor, event->ticks);
	}
	return raw;
}

bool raw_manual_is_late(const struct raw_manual *event, uint64_t bound_ns, bool *in_doubt)
{
	if (event->kind == MANUAL_COMPLETE)
		return event->time < bound_ns;
	if (!*in_doubt)
		return false;
	*in_doubt = event->time < bound_ns;
	return *in_doubt;
}

/* ---- threads ---- */

static struct thread_events *add_thread(struct trace_index *trace, uint64_t key)
{
	struct thread_events *thread;

	if (trace->thread_count >= UINT32_MAX ||
	    vec_grow(&trace->threads, &trace->thread_capacity, trace->thread_count) ||
	    hash_map_put(&trace->thread_index, key, (uint32_t)trace->thread_count))
		return NULL;
	thread = &trace->threads[trace->thread_count];
	memset(thread, 0, sizeof(*thread));
	thread->pid = (uint32_t)(key >> 32);
	thread->tid = (uint32_t)key;
	trace->latest = trace->thread_count++;
	return thread;
}

struct thread_events *trace_index_find_thread(struct trace_index *trace, uint32_t pid, uint32_t tid)
{
	struct thread_events *thread = trace->threads ? &trace->threads[trace->latest] : NULL;
	uint32_t index;

	if (thread && thread->pid == pid && thread->tid == tid)
		return thread;
	if (!hash_map_get(&trace->thread_index, (uint64_t)pid << 32 | tid, &index))
		return NULL;
	trace->latest = index;
	return &trace->threads[index];
}

struct thread_events *trace_index_thread(struct trace_index *trace, uint32_t pid, uint32_t tid)
{
	struct thread_events *thread = trace_index_find_thread(trace, pid, tid);

	return thread ? thread : add_thread(trace, (uint64_t)pid << 32 | tid);
}

/* ---- clocks ---- */

const struct clock_line *trace_index_clock(const struct trace_index *trace, uint32_t clock,
					   uint32_t pid)
{
	if (!clock)
		hash_map_get(&trace->clock_index, pid, &clock);
	if (clock)
		return &trace->clocks[clock];
	for (clock = CLOCK_ID_TSC; clock < CLOCKS; clock++) {
		if (clock_line_usable(&trace->clocks[clock]))
			return &trace->clocks[clock];
	}
	return &trace->clocks[CLOCK_ID_MONOTONIC];
}

static void thread_events_clear(struct thread_events *thread)
{
	free(thread->marks);
	free(thread->runs);
	free(thread->infos);
	free(thread->names);
	free(thread->stops);
	free(thread->ends);
	free(thread->turns);
	starts_clear(&thread->starts);
}

void trace_index_clear(struct trace_index *trace)
{
	for (size_t i = 0; i < trace->thread_count; i++)
		thread_events_clear(&trace->threads[i]);
	for (uint32_t clock = 0; clock < CLOCKS; clock++)
		clock_line_clear(&trace->clocks[clock]);
	free(trace->threads);
	free(trace->by_name);
	hash_map_clear(&trace->thread_index);
	hash_map_clear(&trace->process_index);
	hash_map_clear(&trace->clock_index);
	free(trace->anchors);
	free(trace->segments);
	free(trace->tallies);
	hash_map_clear(&trace->tally_index);
	hash_map_clear(&trace->tally_by_segment);
	free(trace->regions);
	free(trace->carried);
	free(trace->halves);
	free(trace->lanes);
	free(trace->segment_losses);
	free(trace->ring_losses);
	if (trace->file)
		scope_file_close(trace->file);
	memset(trace, 0, sizeof(*trace));
}
