/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is kept in memory of a capture file: everything but its scopes and manual events, which are
 * read again, region by region, whenever lanes are visited. Purpose: what lanes are planned from
 * and filled with; only timeline/ sees it. Owner: the timeline. Invariants once it is loaded: every
 * name and function id is in range, hooked times are below 2^63.
 *
 * A region is a stretch of the file with a limited number of scopes and manual events. When a
 * thread's first record of a region comes, a bound is set in its time: what began before it belongs
 * to the regions before. Records behind it that began earlier (outer calls, which end late) are
 * carried: they are kept in memory, and told when the region is read in whose time they began.
 * There are few of them: about as many as scopes are open where regions meet.
 */
#ifndef SCOPETRACE_TIMELINE_TRACE_INDEX_H
#define SCOPETRACE_TIMELINE_TRACE_INDEX_H

#include "base/hash.h"
#include "file/chunk.h"
#include "timeline/clock.h"
#include "timeline/starts.h"
#include "timeline/timeline.h"

#define CLOCKS (CLOCK_ID_CNTVCT + 1)

/* A call or a COMPLETE record: a scope whose start and end came in one record. */
struct raw_call {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t sp;	    /* hooked: as in its record */
	uint32_t id;	    /* hooked: function; COMPLETE: name */
	uint32_t order;	    /* position of the record among its thread's */
	uint32_t start_tid; /* hooked, migrated: where it began; else 0 */
	uint16_t flags;	    /* enum scope_flag; COMPLETE: as `inside` below */
};

struct raw_manual {
	uint64_t time; /* ns; COMPLETE: of its start */
	/* START, STOP: the scope id; COMPLETE: the time at its end; else as event.h says */
	uint64_t value;
	uint32_t name;
	uint32_t order; /* position of the record among its thread's manual events */
	uint32_t place; /* the same after late records were put back */
	uint8_t kind;
	uint8_t ring;
	/* COMPLETE: events of its thread between start and end; MANUAL_INSIDE_MAX: or more */
	uint16_t inside;
};

#define RAW_MANUAL_TOLD UINT32_MAX /* order of a COMPLETE that stands for its end alone */

/* Manual events of one thread up to its next THREAD_START: of one clock. */
struct manual_run {
	uint32_t first; /* order of the first of them */
	uint32_t count;
	uint32_t clock; /* enum clock_id; 0: the process had not told */
	uint32_t scopes, marks;
	uint64_t first_ns, last_ns; /* of its first record, and the latest */
	uint64_t earliest_ns;
	size_t source; /* index of its lane in trace_index.lanes; SIZE_MAX: it has none */
	bool headless; /* does not begin with a THREAD_START */
	bool usable;   /* its clock can be converted: else none of it is shown */
	uint8_t ring;
};

/*
 * The end of a scope that its region does not tell: a stop that lies in a later one; or, of a scope
 * that is never stopped, the start at which it is cut as its name begins anew.
 */
struct late_stop {
	uint32_t start, stop; /* their orders */
	/* by the next of its name: the scope may end earlier with its parent */
	bool is_cut;
	uint64_t time_ns;
};

/* The end of an unwound call that is only met in a later region. */
struct late_end {
	uint32_t order;
	uint64_t end_ns;
};

/* A name that a thread gave itself. */
struct own_name {
	uint64_t time_ns;
	uint32_t name;
	uint32_t order;
};

/* A region in which the thread has records. */
struct thread_mark {
	uint32_t region;
	bool in_doubt; /* manual events may lie before the bound */
	uint64_t bound_ns;
};

/* What is before a moment at which a tid may have gone from one thread to the next. */
struct turn_count {
	uint64_t time_ns;
	uint64_t before; /* calls that start before it */
	/* the latest end of those that start between the moment before and this one */
	uint64_t latest;
};

/*
 * All records of one (pid, tid): of one thread, or of several one after another when the tid was
 * recycled.
 */
struct thread_events {
	uint32_t pid;
	uint32_t tid;
	uint32_t call_count, manual_count;
	uint64_t first_call_ns, last_call_ns; /* starts */
	uint64_t latest_call_ns, latest_manual_ns;
	uint64_t reached_ns; /* a hit of a call, the latest */
	bool any_unwound;
	struct thread_mark *marks;
	size_t mark_count, mark_capacity;
	struct manual_run *runs;
	size_t run_count, run_capacity;
	struct thread_info *infos;
	size_t info_count, info_capacity;
	struct own_name *names;
	size_t name_count, name_capacity;
	struct late_stop *stops; /* by start */
	size_t stop_count, stop_capacity;
	struct late_end *ends; /* by order */
	size_t end_count, end_capacity;
	struct turn_count *turns; /* by time */
	size_t turn_count;
	size_t first_lane, lane_end; /* its lanes in trace_index.lanes */
	/* While the file is first read: */
	struct starts starts;
	struct clock_cursor cursor;
	bool in_doubt;
	bool has_called, has_written; /* since the last mark */
};

/* A record that is told in an earlier region than its own. */
struct carried {
	uint32_t region;
	uint32_t thread;
	bool is_call;
	union {
		struct raw_call call;
		struct raw_manual manual;
	};
};

/* Where a region begins: at a record of a chunk. */
struct region {
	uint64_t offset;
	uint32_t record;
};

/* One half of an async slice. */
struct async_half {
	uint64_t time_ns;
	uint64_t id;
	size_t order; /* in which it was met */
	uint32_t pid;
	uint32_t name;
	bool begins;
};

/* The time in which calls were lost. */
struct interval {
	uint64_t first_ns;
	uint64_t last_ns;
};

/* A lane's place in its thread. */
struct lane_source {
	uint64_t begin_ns, end_ns; /* calls that start from here, and before there, belong to it */
	uint64_t last_ns;	   /* what is still open ends here; nothing of it is later */
	uint32_t run;		   /* its manual events; UINT32_MAX: it has none */
	size_t lane;		   /* index into timeline.lanes; SIZE_MAX: nothing of it is shown */
};

/* What the file holds of a segment, to compare with its account. */
struct segment_tally {
	uint32_t pid;
	uint32_t segment;
	uint64_t events;
	uint64_t lost; /* also those written off */
};

struct trace_index {
	/* names, processes, functions, losses and the header go straight here */
	struct timeline *timeline;
	struct scope_file *file;
	size_t name_capacity, process_capacity, change_capacity, function_capacity, loss_capacity;
	struct thread_events *threads;
	size_t thread_count, thread_capacity;
	uint32_t *by_name;	      /* threads by pid and tid */
	struct hash_map thread_index; /* pid << 32 | tid -> index into threads */
	size_t latest;		      /* thread of the latest event: events come in runs */
	/* pid -> latest process of it, index into timeline.processes */
	struct hash_map process_index;
	struct hash_map clock_index; /* pid -> its last clock */
	struct clock_anchor *anchors;
	size_t anchor_count, anchor_capacity;
	struct clock_line clocks[CLOCKS];
	struct segment_accounting *segments;
	size_t segment_count, segment_capacity;
	struct segment_tally *tallies; /* of segments that are told apart */
	size_t tally_count, tally_capacity;
	struct hash_map tally_by_segment; /* pid << 32 | segment -> index into tallies */
	/* pid -> that of its present segment, index into tallies */
	struct hash_map tally_index;
	uint32_t tally_pid; /* of the latest event, and what the index says of it */
	uint32_t tally_latest;
	uint64_t records[CHUNK_FOOTER]; /* by chunk type, as in the footer */
	struct region *regions;
	size_t region_count, region_capacity;
	uint64_t region_records; /* so many are in a region */
	uint64_t region_left;	 /* so many more are in the one at hand */
	struct carried *carried; /* by region and thread */
	size_t carried_count, carried_capacity;
	struct async_half *halves;
	size_t half_count, half_capacity;
	struct lane_source *lanes; /* by thread in order of pid and tid, then as they lived */
	size_t lane_count, lane_capacity;
	struct loss_event *segment_losses; /* as merge_losses() makes them */
	size_t segment_loss_count;
	struct interval *ring_losses; /* ascending and apart */
	size_t ring_loss_count;
	uint64_t unplaced; /* manual events that no clock can place */
};

/* Frees what it holds. */
void trace_index_clear(struct trace_index *trace);

/*
 * The thread, or NULL if the file was not seen to have it; and made if need be, or NULL when out of
 * memory.
 */
struct thread_events *trace_index_find_thread(struct trace_index *trace, uint32_t pid,
					      uint32_t tid);
struct thread_events *trace_index_thread(struct trace_index *trace, uint32_t pid, uint32_t tid);

/* The line of the run's clock; unusable if it cannot be converted. */
const struct clock_line *trace_index_clock(const struct trace_index *trace, uint32_t clock,
					   uint32_t pid);

/* Checks that hold each time a record is read. NULL, or what is wrong with it. */
const char *hooked_wrong(const struct timeline *timeline, const struct hooked_scope *scope);
const char *manual_wrong(const struct timeline *timeline, const struct manual_event *event);
bool manual_kind_known(uint8_t kind);

/* What is kept of a record that was checked; a manual event's times are converted. */
struct raw_call raw_call_of(const struct hooked_scope *scope, uint32_t order);
struct raw_manual raw_manual_of(const struct manual_event *event, uint32_t order,
				const struct clock_line *line, struct clock_cursor *cursor);

/*
 * Does the event, in the region whose bound it is given, belong to an earlier one? *in_doubt as it
 * was when the thread entered the region; a new run puts the thread in doubt.
 */
bool raw_manual_is_late(const struct raw_manual *event, uint64_t bound_ns, bool *in_doubt);

/* When the record was written: COMPLETE at its end. */
static inline uint64_t raw_manual_time(const struct raw_manual *event)
{
	return event->kind == MANUAL_COMPLETE ? event->value : event->time;
}

#endif
