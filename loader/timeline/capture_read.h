/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A capture file in memory, sorted by thread and otherwise as it was written. Purpose: what merge and lanes
 * are made from; only timeline/ sees it. Owner: timeline_open(), until the lanes are built. Invariants once
 * it is loaded: every name and function id is in range, hooked times are below 2^63 and in order, each
 * thread's events stand in the order of the file.
 */
#ifndef SCOPETRACE_TIMELINE_CAPTURE_READ_H
#define SCOPETRACE_TIMELINE_CAPTURE_READ_H

#include "base/hash.h"
#include "timeline/capture_format.h"
#include "timeline/timeline.h"

/* A call or a COMPLETE record: a scope whose start and end came in one record. */
struct raw_call {
	uint64_t start_ns;
	uint64_t end_ns;
	uint32_t id;	/* hooked: function; COMPLETE: name */
	uint32_t order; /* position of the record among its thread's */
	uint16_t flags; /* enum scope_flag */
};

struct raw_manual {
	uint64_t time;	/* ticks, and after clock conversion ns */
	uint64_t value; /* START, STOP: the scope id; COMPLETE: the time at its end; else as event.h says */
	uint32_t name;
	uint8_t kind;
	uint8_t ring;
	uint16_t
		inside; /* COMPLETE: events of its thread between start and end; MANUAL_INSIDE_MAX: or more */
};

/* From manual event `first` on, ticks are of this clock. */
struct clock_run {
	size_t first;
	uint32_t clock; /* enum clock_id; 0: the process has not told */
};

/* All events of one (pid, tid): of one thread, or of several one after another when the tid was recycled. */
struct thread_events {
	uint32_t pid;
	uint32_t tid;
	struct raw_call *calls;
	size_t call_count, call_capacity;
	struct raw_manual *manual;
	size_t manual_count, manual_capacity;
	struct clock_run *runs;
	size_t run_count, run_capacity;
	struct thread_info *infos;
	size_t info_count, info_capacity;
};

struct capture {
	struct timeline *timeline; /* names, processes, functions, losses and the header go straight here */
	size_t name_capacity, process_capacity, function_capacity, loss_capacity;
	struct thread_events *threads;
	size_t thread_count, thread_capacity;
	struct hash_map thread_index;  /* pid << 32 | tid -> index into threads */
	size_t latest;		       /* thread of the latest event: events come in runs */
	struct hash_map process_index; /* pid -> latest process of it, index into timeline.processes */
	struct clock_anchor *anchors;
	size_t anchor_count, anchor_capacity;
	struct segment_accounting *segments;
	size_t segment_count, segment_capacity;
	uint64_t records[CHUNK_FOOTER]; /* by chunk type, as in the footer */
};

/*
 * Reads the file into *capture, whose timeline is given and otherwise zero. 0 or -errno as timeline_open()
 * has it, said; what was read so far is freed by capture_clear() and timeline_close().
 */
int capture_load(const char *path, struct capture *capture);
void capture_clear(struct capture *capture);
void thread_events_clear(struct thread_events *thread);

#endif
