/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One timeline from a capture file: lanes of nested scopes, hooked and manual together. Purpose:
 * what every sink draws. Owner: the command that opened it; const afterwards. Built by
 * load.c (file to events), merge.c (two streams to one lane, depth computed over both kinds
 * together) and statistics.c.
 */
#ifndef SCOPETRACE_TIMELINE_TIMELINE_H
#define SCOPETRACE_TIMELINE_TIMELINE_H

#include <stdbool.h>

#include "event/accounting.h"
#include "event/event.h"

enum scope_kind { SCOPE_HOOKED = 1, SCOPE_MANUAL = 2 };

/* A scope on the timeline, in its place. */
struct scope {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t child_ns;  /* time spent in its direct children: self = end - start - child */
	uint32_t name;	    /* index into timeline.names */
	uint32_t module;    /* index into timeline.names; 0 (empty) for manual scopes */
	uint32_t function;  /* hooked: index into timeline.functions; manual: UINT32_MAX */
	uint16_t depth;	    /* 0 is the outermost */
	uint8_t kind;	    /* enum scope_kind */
	uint8_t sub_lane;   /* 0; scopes that cross others go to 1, 2 ... */
	uint16_t flags;	    /* enum scope_flag */
	uint32_t start_tid; /* migrated: the thread on which it began; else 0 */
};

/*
 * What is not a scope: instants, counters, frame marks, begins and ends of async slices, arguments,
 * flows.
 */
struct mark {
	uint64_t time_ns;
	uint64_t value; /* as the kind says */
	uint32_t name;
	/* of an argument or a flow: number of the scope of its lane that it belongs to; or none */
	uint32_t scope;
	uint32_t scope_name; /* that scope's name */
	uint8_t kind;	     /* enum manual_kind */
};
#define MARK_NO_SCOPE UINT32_MAX

/* What began in one place and ended in another, paired by process, name and id. */
struct async_slice {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t id;
	uint32_t pid;
	uint32_t name;
	uint32_t flags; /* SCOPE_FLAG_UNFINISHED: its end is not in the capture */
};

/*
 * From then on a thread had this name: as the kernel has it, or as it named itself through
 * libscope.
 */
struct name_change {
	uint64_t time_ns; /* when it was named, or first seen with the name; 0: unknown */
	uint32_t name;
	uint32_t order; /* in which it was told */
};

/* From then on a process was this program (exec), or had this name. */
struct process_change {
	uint64_t time_ns; /* 0: since its start */
	uint32_t process; /* index into timeline.processes */
	uint32_t name;
	uint32_t command;
	uint32_t order; /* in which it was told */
};

/*
 * One thread's line, from its start to its end. A recycled tid is another lane; no events, no lane.
 */
struct lane {
	uint32_t pid;
	uint32_t tid;
	uint64_t start_ns; /* of the thread; 0: unknown */
	uint64_t end_ns;   /* 0: was still alive */
	/* the last one; that which it gave itself goes before the kernel's */
	uint32_t name;
	struct name_change *names; /* all of them, by time, no two alike beside each other */
	size_t name_count;
	/* deepest scope; meaningless without scopes, known once they were visited */
	uint32_t max_depth;
	/* if they are in memory: by start ascending, the outer before the inner; or NULL */
	struct scope *scopes;
	size_t scope_count;
	struct mark *marks; /* if they are in memory: by time */
	size_t mark_count;
};

struct function_entry {
	struct function_info info; /* its name and module are indexes into timeline.names */
	struct function_accounting accounting;
	struct scopes_in_file in_file;
	bool accounted; /* the file has its accounting */
};

struct timeline {
	char **names; /* names[0] is "" ; demangled for display where C++ or Rust; valid UTF-8 */
	size_t name_count;
	struct lane *lanes; /* by pid, tid, then as its threads lived one after another */
	size_t lane_count;
	struct async_slice *asyncs; /* by pid, name, start */
	size_t async_count;
	uint64_t async_orphans; /* ends without a begin in the file */
	/* as they were last; names are indexes into timeline.names */
	struct process_info *processes;
	size_t process_count;
	/* by process and time; at least one of each process */
	struct process_change *process_changes;
	size_t process_change_count;
	struct function_entry *functions; /* index = function id */
	size_t function_count;
	struct loss_event *losses; /* by first_ns */
	size_t loss_count;
	struct accounting_total accounting;
	uint64_t start_ns; /* of the capture */
	uint64_t end_ns;
	uint64_t realtime_offset_ns; /* REALTIME - MONOTONIC at the start */
	int64_t boottime_offset_ns;  /* BOOTTIME - MONOTONIC at the start */
	char *host;
	char *kernel;
	char *command;		   /* the command line that recorded it */
	bool truncated;		   /* the file has no footer: it was cut short */
	uint64_t truncated_at;	   /* bytes read up to its last whole chunk */
	uint64_t truncated_rest;   /* bytes behind it, of a chunk that was being written */
	struct trace_index *trace; /* what lanes are read from; NULL: all of them are in memory */
};

/*
 * Reads the capture at `path`, "-" being standard input (hostile: every length, id and kind is
 * checked; names are made valid UTF-8). Returns the timeline, or NULL with errno (EINVAL: not a
 * capture, or another major version; EBADMSG: damaged; ENOENT, EACCES ... of open; ENOMEM), the
 * failure logged. A file cut short is read up to its last whole chunk, and `truncated` is set.
 */
struct timeline *timeline_open(const char *path);

/* The same with regions of so many scopes and manual events (timeline/trace_index.h), which memory grows
 * with. */
struct timeline *timeline_open_with(const char *path, uint64_t region_records);
void timeline_close(struct timeline *timeline);

/*
 * Time that children in this part took of scopes that earlier parts have told: it is not in their
 * child_ns.
 */
struct late_child {
	uint64_t ns;
	uint64_t scope; /* number of the parent in its lane */
	uint32_t name;	/* of the parent, and the next two */
	uint32_t function;
	uint8_t kind;
};

/*
 * Part of a lane: what began within a span of time. The parts of a lane follow one another in time.
 */
struct lane_part {
	struct lane *lane;    /* in timeline.lanes */
	struct scope *scopes; /* by start ascending, the outer before the inner */
	size_t scope_count;
	uint64_t first_scope; /* number of the first of them in its lane */
	struct mark *marks;   /* by time */
	size_t mark_count;
	const struct late_child *late;
	size_t late_count;
	bool last; /* of its lane */
};

/*
 * Reads all lanes, in parts as large as memory allows; a small capture's lanes are a part each, in
 * their order. Lanes of a large one come in turns. `visit` returns 0, or what timeline_visit()
 * shall return at once. 0, or -errno (of reading: logged; -ENOMEM: not logged). Afterwards max_depth of
 * the lanes is known.
 */
typedef int (*timeline_visitor)(void *context, const struct lane_part *part);
int timeline_visit(const struct timeline *timeline, timeline_visitor visit, void *context);

/* Statistics per (name, module, kind), as `report` prints them. */
struct function_statistics {
	uint32_t name;
	uint32_t module;
	uint8_t kind;	     /* enum scope_kind */
	uint32_t function;   /* hooked: index into timeline.functions; manual: UINT32_MAX */
	uint64_t calls;	     /* those of the next three lines included */
	uint64_t unfinished; /* of them: never stopped (flags unfinished, cut) */
	uint64_t unwound;    /* of them: left by an exception or a jump */
	uint64_t instants;   /* of them: only their entry was seen */
	/* wall time from start to end, added up over its calls (recursion counts each) */
	uint64_t total_ns;
	uint64_t self_ns; /* total less the time in scopes directly inside */
	/* percentiles are exact; of many calls they are within 1/256 of the truth */
	bool exact;
	uint64_t min_ns, mean_ns, p50_ns, p90_ns, p99_ns,
		max_ns; /* over calls that are none of these three; 0 if none is */
};

/*
 * Durations of a kind; all 0 where there is none. Percentiles of many are within 1/256 of the
 * truth.
 */
struct duration_statistics {
	bool exact; /* the percentiles are */
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns, mean_ns, p50_ns, p90_ns, p99_ns, max_ns;
};

/* Async slices of one name in one process. */
struct async_statistics {
	uint32_t pid;
	uint32_t name;
	uint64_t unfinished;
	struct duration_statistics finished;
};

struct frame {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t number; /* from 0, in its lane and of its name */
};
#define FRAMES_WORST 5

/* Frames of one name in one lane: from each of its marks to the next. */
struct frame_statistics {
	uint32_t lane; /* index into timeline.lanes */
	uint32_t name;
	uint64_t marks;
	/* frames during which events of the process were lost: no frame may be made up of two */
	uint64_t lost;
	struct duration_statistics frames; /* the others */
	struct frame worst[FRAMES_WORST];  /* the longest first */
	size_t worst_count;
};

/*
 * What was counted of one kind and name in one process: counters, arguments (per scope name too),
 * instants.
 */
struct number_statistics {
	uint32_t pid;
	uint32_t name;
	uint32_t scope; /* of an argument: name of its scope; else 0 */
	/* MANUAL_COUNTER_INT, MANUAL_ARGUMENT or MANUAL_INSTANT, which has no values */
	uint8_t kind;
	/* a counter that ever had a floating-point value: min, max and last are doubles */
	bool is_floating;
	uint64_t samples;
	double mean;
	int64_t min_integer, max_integer, last_integer;
	double min, max, last;
};

/* What all of a capture comes to. */
struct timeline_summary {
	/* One per function or manual name that has scopes, and per hooked function without any (calls 0), by
	 * total_ns descending. */
	struct function_statistics *functions;
	size_t function_count;
	struct frame_statistics *frames; /* by lane and name */
	size_t frame_count;
	struct number_statistics *numbers; /* by kind, process, scope and name */
	size_t number_count;
};

/*
 * Reads the capture once. 0 or -errno, logged unless it is -ENOMEM; summary_clear() frees what it
 * holds.
 */
int timeline_summarise(const struct timeline *timeline, struct timeline_summary *summary);
void timeline_summary_clear(struct timeline_summary *summary);

/* By process and name; malloc'ed, the caller frees. 0 or -ENOMEM. */
int timeline_asyncs(const struct timeline *timeline, struct async_statistics **statistics,
		    size_t *count);

#endif
