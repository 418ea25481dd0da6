/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the sources deliver and the capture file keeps: plain fixed-width records, the same in
 * memory and on disk (little endian; a big-endian reader refuses the file). Purpose: the one
 * vocabulary between source/, timeline/ and sink/. Invariants: every time is CLOCK_MONOTONIC in ns,
 * but for the raw `ticks` of manual events, which anchors convert; pid and tid are those of the
 * loader's pid namespace; names are ids of the capture's string table (0: no name).
 *
 * Enums reach the disk: explicit values, append only.
 */
#ifndef SCOPETRACE_EVENT_EVENT_H
#define SCOPETRACE_EVENT_EVENT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Flags of a hooked or manual scope; joined by `|` in the CSV export, under the names given here.
 */
enum scope_flag {
	SCOPE_FLAG_UNFINISHED =
		1 << 0, /* "unfinished": still open when the capture (or its thread) ended */
	/*
	 * "unwound": left by an exception or a jump, not by a return; on disk its end is only an
	 * upper bound
	 */
	SCOPE_FLAG_UNWOUND = 1 << 1,
	/* "cut": never stopped; ends with the scope around it, or where its name begins anew */
	SCOPE_FLAG_CUT = 1 << 2,
	SCOPE_FLAG_LOST =
		1
		<< 3, /* "lost": events of its thread (hooked: of any) were lost while it was open */
	SCOPE_FLAG_MIGRATED =
		1 << 4, /* "migrated": began on another thread, start_tid, than it ended on */
	SCOPE_FLAG_INSTANT =
		1 << 5, /* "instant": only its entry was seen (--returns=none); end == start */
};

/*
 * A hooked call, as the kernel completed it. Records of one thread need not come in the order of
 * their ends.
 */
struct hooked_scope {
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t sp; /* the caller's stack pointer: two hits of one frame agree on it */
	uint32_t pid;
	uint32_t tid;
	uint32_t function; /* id of a struct function_info */
	uint16_t cpu;	   /* where it ended */
	uint16_t flags;	   /* enum scope_flag */
	/* since version 1.1 of the file */
	uint32_t start_tid; /* MIGRATED: the thread on which it began; else 0 */
	/*
	 * where its record ended in the kernel's ring, in units of 8 bytes, the low half
	 * (output->span() tells the rest); 0: it did not come from there
	 */
	uint32_t position;
};
static_assert(sizeof(struct hooked_scope) == 48, "on disk");

/*
 * Kinds of manual events: the values of libscope's record kinds, which they must equal
 * (libscope/segment.h).
 */
enum manual_kind {
	MANUAL_START = 1,
	MANUAL_STOP = 2,
	/* 3 is a continuation of a name, which the source joins to its record */
	MANUAL_COMPLETE = 4, /* ticks: start; value: ticks at its end */
	MANUAL_INSTANT = 5,
	MANUAL_COUNTER_INT = 6,	   /* value: int64_t */
	MANUAL_COUNTER_DOUBLE = 7, /* value: the bits of a double */
	MANUAL_ASYNC_START = 8,	   /* value: the id the program gave */
	MANUAL_ASYNC_STOP = 9,
	/* a thread's first record; a new lane where the tid was seen before */
	MANUAL_THREAD_START = 10,
	MANUAL_THREAD_NAME = 11,
	MANUAL_FRAME = 12,
	/* name: the key; value: int64_t; belongs to the innermost open scope */
	MANUAL_ARGUMENT = 13,
	MANUAL_FLOW = 14, /* value: the id that ties scopes together */
};

/*
 * One record of a segment, its name interned. A thread's events stand in the order in which it
 * wrote them.
 */
struct manual_event {
	uint64_t ticks; /* of the segment's clock: convert by the anchors of that clock */
	/*
	 * equal in START and STOP of one scope of one thread; in all others the claim of the record
	 * in its ring
	 */
	uint64_t scope_id;
	uint64_t value; /* as the kind says; STOP: the claim of its record */
	uint32_t pid;
	uint32_t tid;
	uint32_t name;
	uint8_t kind; /* enum manual_kind */
	uint8_t ring;
	/*
	 * COMPLETE: events of its thread between start and end, at most MANUAL_INSIDE_MAX; else 0
	 */
	uint16_t flags;
};
#define MANUAL_INSIDE_MAX 0x7fff /* so many, or more */
static_assert(sizeof(struct manual_event) == 40, "on disk");

enum thread_change {
	THREAD_SEEN = 1,   /* known to have existed; start_ns if known, else 0 */
	THREAD_NAMED = 2,  /* has this name from time_ns on */
	THREAD_EXITED = 3, /* at time_ns */
};

struct thread_info {
	/*
	 * CLOCK_MONOTONIC at the thread's creation; tells a recycled tid from its predecessor; 0:
	 * unknown
	 */
	uint64_t start_ns;
	uint64_t time_ns;
	uint32_t pid;
	uint32_t tid;
	uint32_t name;
	uint32_t change; /* enum thread_change */
};
static_assert(sizeof(struct thread_info) == 32, "on disk");

enum clock_id {
	CLOCK_ID_MONOTONIC = 1, /* ticks are ns of CLOCK_MONOTONIC: no conversion */
	CLOCK_ID_TSC = 2,	/* x86 rdtsc */
	CLOCK_ID_CNTVCT = 3,	/* arm64 cntvct_el0 */
};

/*
 * One pair of readings of a segment's clock and of CLOCK_MONOTONIC, the best of several brackets.
 */
struct clock_anchor {
	uint64_t ticks;
	uint64_t ns;
	uint32_t clock;	   /* enum clock_id */
	uint32_t width_ns; /* width of the bracket: an upper bound of the pair's error */
};
static_assert(sizeof(struct clock_anchor) == 24, "on disk");

enum loss_place {
	LOSS_KERNEL_RING = 1, /* index: the cpu */
	LOSS_SEGMENT_LAP = 2, /* index: the ring; a writer lapped the reader */
	LOSS_WRITTEN_OFF = 3, /* index: the ring; claimed, never published */
	/*
	 * the file was written too slowly; pid 0: hooked scopes; else manual events, index: the
	 * ring
	 */
	LOSS_HANDOFF = 4,
};

/* Events that happened and are not in the file. */
struct loss_event {
	uint64_t first_ns;
	uint64_t last_ns;
	uint64_t count;
	uint32_t pid;	/* 0: unknown, any of the traced */
	uint16_t place; /* enum loss_place */
	uint16_t index;
	/* since version 1.1 of the file */
	/* of a segment: that of the first, plus 1, if they follow each other; 0: unknown */
	uint64_t claim;
};
static_assert(sizeof(struct loss_event) == 40, "on disk");

/* Of manual events, of the ring `index` of process `pid`; else of hooked scopes. */
static inline int loss_is_manual(const struct loss_event *loss)
{
	return loss->place == LOSS_SEGMENT_LAP || loss->place == LOSS_WRITTEN_OFF ||
	       (loss->place == LOSS_HANDOFF && loss->pid);
}

/* Why a function that was asked for is not hooked: nothing is known of its calls. */
enum not_hooked {
	NOT_HOOKED_SITE = 1,	/* the kernel takes no probe on an instruction of it */
	NOT_HOOKED_RETURNS = 2, /* where it returns cannot be told */
	NOT_HOOKED_TEXT = 3,	/* its probe is not in the memory of the process */
};

/*
 * A function to hook. Ids are given by the loader, from 0, and are the same in every record of the
 * capture.
 */
struct function_info {
	uint64_t address; /* virtual address in its module's file */
	uint32_t id;
	uint32_t name;	 /* raw symbol */
	uint32_t module; /* base name of the file it is in */
	/* since version 1.2 of the file: enum not_hooked; 0: it is hooked (before: or is not) */
	uint32_t not_hooked;
};
static_assert(sizeof(struct function_info) == 24, "on disk");

struct process_info {
	uint64_t start_ns; /* of the process; 0: unknown */
	uint32_t pid;
	uint32_t name;	  /* comm */
	uint32_t command; /* command line, arguments joined by blanks */
	uint32_t clock;	  /* enum clock_id of its manual events; 0: it has none */
	/* since version 1.1 of the file */
	/* this has been so from here on (an exec, a new name); 0: since its start */
	uint64_t time_ns;
	uint32_t parent;  /* pid; 0: unknown */
	uint32_t segment; /* tells the segments of the process's manual events apart; 0: unknown */
};
static_assert(sizeof(struct process_info) == 40, "on disk");

/*
 * The accounting identity, once per hooked function and, summed up, for the capture:
 *   entries   = not_a_call + too_deep + filtered + map_full + chain_full + opened + instants
 *   opened    = completed + discarded + unwound + unfinished
 *   returns   = completed + not_a_return + orphans
 *   completed + unwound + instants = below_minimum + ring_lost + handoff_lost + expired + (scopes in the
 * file, but for unfinished ones) An unwound scope is one whose record is sent when it is found
 * gone; one that is found gone at the return of a function that it had jumped to is discarded. The
 * scopes of `unfinished` are in the file, too, as the loader reads them from the kernel.
 */
struct function_accounting {
	uint64_t entries;
	uint64_t returns;
	uint64_t opened;
	uint64_t completed;
	uint64_t discarded;
	uint64_t unwound;
	uint64_t unfinished;
	uint64_t duplicates;
	uint64_t orphans;
	uint64_t too_deep;
	uint64_t not_a_call;
	uint64_t not_a_return;
	uint64_t filtered;
	uint64_t map_full;
	uint64_t chain_full;
	uint64_t below_minimum;
	uint64_t ring_lost;
	uint64_t handoff_lost;
	/* since version 1.1 of the file */
	uint64_t instants; /* entries of functions whose returns are not hooked */
	uint64_t expired;  /* scopes that a flight recorder let go of, as they were too old */
};
static_assert(sizeof(struct function_accounting) == 20 * 8, "on disk");

/* Hooked scopes that a file holds, but for the unfinished ones. */
struct scopes_in_file {
	uint64_t completed;
	uint64_t unwound;
	uint64_t instants;
};

static inline void scopes_in_file_add(struct scopes_in_file *in_file, uint16_t flags)
{
	if (flags & SCOPE_FLAG_UNFINISHED)
		return;
	in_file->unwound += flags & SCOPE_FLAG_UNWOUND ? 1 : 0;
	in_file->instants +=
		(flags & (SCOPE_FLAG_UNWOUND | SCOPE_FLAG_INSTANT)) == SCOPE_FLAG_INSTANT;
	in_file->completed += !(flags & (SCOPE_FLAG_UNWOUND | SCOPE_FLAG_INSTANT));
}

/*
 * What was claimed in a segment and what became of it, summed over its rings:
 *   cursor    = delivered + lost + written_off + holes
 *   delivered = events + continuations + handoff_lost + expired     events: manual events in the file
 */
struct segment_accounting {
	uint64_t cursor;
	uint64_t delivered;
	uint64_t events;
	uint64_t continuations; /* records that only held more of a name */
	uint64_t lost;
	uint64_t written_off;
	uint64_t holes;
	uint32_t pid;
	/* As it is declared with the process, if these are the numbers of several files, from the capture's
	 * beginning on: what one of them had written and the next one lost stands in both. 0: of this file
	 * alone. */
	uint32_t segment;
	/* since version 1.1 of the file */
	/* events that were read, but not written as the file took too long */
	uint64_t handoff_lost;
	uint64_t expired; /* that a flight recorder let go of, as they were too old */
};
static_assert(sizeof(struct segment_accounting) == 80, "on disk");

/*
 * Where sources put what they drained: implemented by the capture writer, by the relay before it,
 * later also by live output. Each call returns 0 or -errno of the write; the arrays are the
 * caller's again on return.
 */
struct event_output {
	/* Interns a name; *id stays valid for the whole capture. Bytes are data: any bytes, not
	 * NUL-terminated. */
	int (*string)(struct event_output *output, const char *bytes, size_t length, uint32_t *id);
	int (*hooked)(struct event_output *output, const struct hooked_scope *scopes, size_t count);
	int (*manual)(struct event_output *output, const struct manual_event *events, size_t count);
	int (*thread)(struct event_output *output, const struct thread_info *thread);
	int (*anchor)(struct event_output *output, const struct clock_anchor *anchor);
	int (*loss)(struct event_output *output, const struct loss_event *loss);
	/* Optional, NULL where nobody asks: the hooked scopes that follow came from between these positions
	 * of the kernel's ring (bytes), until the next call. */
	void (*span)(struct event_output *output, uint64_t first, uint64_t last);
	/*
	 * Declares a process, as scope_file_writer_process does. For those who follow it; no source
	 * calls it.
	 */
	int (*process)(struct event_output *output, const struct process_info *process);
};

#endif
