/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the segment of another process. Purpose: the tools' side of libscope (Linux: it uses /proc). One
 * thread owns a reader. Never synchronises with the writers: it maps the rings read-only and writes only the
 * control page. The writer is taken to be hostile, buggy, mid-crash or another build.
 */
#ifndef SCOPE_READER_H
#define SCOPE_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "segment.h"

struct scope_reader;

/*
 * Finds and opens the segment of process `pid` (through /proc/PID/task/TID/fd, then map_files), takes its
 * lock, and starts where the last reader stopped. NULL with errno: ENOENT no segment, EAGAIN half initialised
 * (try again), EBUSY another reader has it, EPROTO another major version, EBADMSG a header that does not add
 * up, ESRCH, EACCES, ENOMEM.
 */
struct scope_reader *scope_reader_open(pid_t pid);

/* After EPROTO: which version that segment is of. Ours is SCOPE_ABI_MAJOR, any minor. 0 or -errno. */
int scope_reader_refused_version(pid_t pid, uint16_t *major, uint16_t *minor);

/*
 * True if the rings belong to this capture: it was on when the reader was opened (the process opened it
 * itself), or the last reader died. Otherwise they hold what was left over when an earlier capture had ended.
 */
bool scope_reader_resumes(const struct scope_reader *reader);

/* Turns capture on, or keeps it on, until `ns` from now have passed; 0 turns it off. Call it at least each
 * second. Right after opening it sleeps for a millisecond, to learn how fast the clock runs. */
void scope_reader_capture(struct scope_reader *reader, uint64_t ns);

/* Why events are missing. */
enum scope_gap_reason { SCOPE_GAP_LAPPED = 1, SCOPE_GAP_WRITTEN_OFF = 2 };

struct scope_reader_events {
	void *context;
	/* A record, in its thread's own order. 0 to go on, else the drain stops and returns it; the record
	 * was taken. */
	int (*record)(void *context, uint32_t ring, const struct scope_record *record);
	/* `count` events of this ring are lost here. */
	int (*gap)(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count);
};

/*
 * Delivers what is published, at most `limit` records of each ring (0: all there was at the call). Returns
 * the number of records delivered, or the non-zero answer of a callback. Never waits.
 */
int64_t scope_reader_drain(struct scope_reader *reader, const struct scope_reader_events *events,
			   uint64_t limit);

/* True when no writer is left: the process has ended, or exec replaced its memory. Then one more drain takes
 * the rest. */
bool scope_reader_gone(struct scope_reader *reader);

/* With the writers gone: holes that will never be filled are written off (told as gaps). */
int scope_reader_write_off(struct scope_reader *reader, const struct scope_reader_events *events);

/*
 * Within the record callback: the claim of that record in its ring; within the gap callback, that of the
 * first of those that are lost, which follow each other. A reader that is killed between the callback's
 * effect and its return leaves that one record to be delivered again, though perhaps after others and by a
 * reader after the next; who must be exact over that keeps (ring, claim) with its data, and passes over what
 * it has.
 */
uint64_t scope_reader_claim(const struct scope_reader *reader);

/*
 * From now on what is delivered counts as taken, for the next reader, only with scope_reader_commit: a reader
 * that dies has it delivered again. For who must have written it down first. Closing commits nothing.
 */
void scope_reader_hold(struct scope_reader *reader);
void scope_reader_commit(struct scope_reader *reader);

/*
 * Counts what is delivered and lost from here on, or from where a reader of the same capture (a number of the
 * caller's, not 0) has begun to: over all those who hold, and are killed. Together with scope_reader_hold,
 * before the first drain.
 */
void scope_reader_account(struct scope_reader *reader, uint64_t capture);

/* These and the holes are all that was claimed since. */
struct scope_reader_account {
	uint64_t events;
	uint64_t continuations;
	uint64_t lost;
	uint64_t written_off;
	uint64_t holes;
};
struct scope_reader_account scope_reader_accounted(const struct scope_reader *reader);

/* The number of the capture whose reader last counted so; 0: none has. */
uint64_t scope_reader_accounts_of(const struct scope_reader *reader);

struct scope_reader_counts {
	uint64_t
		cursor; /* claims made: = delivered + lost + written_off + holes, since the segment's start */
	uint64_t delivered;
	uint64_t lost;
	uint64_t written_off;
	uint64_t holes;
	uint64_t backlog; /* claims not looked at yet; part of cursor, 0 after a drain of a quiet segment */
	uint64_t overwritten; /* of the backlog: lost already, and told as a gap by the next drain */
};
struct scope_reader_counts scope_reader_counts(const struct scope_reader *reader);

/* The claims made in one ring so far: the next event there has this one. 0 if there is no such ring. */
uint64_t scope_reader_cursor(const struct scope_reader *reader, uint32_t ring);

/* The clock of the records' ticks (enum scope_clock of segment.h), and one reading of that clock now. */
uint32_t scope_reader_clock(const struct scope_reader *reader);
uint64_t scope_reader_ticks(const struct scope_reader *reader);

/* How many events each ring holds. */
uint32_t scope_reader_slots(const struct scope_reader *reader);

/* The inode of its memory, which tells the segment from all others while it is there. */
uint64_t scope_reader_inode(const struct scope_reader *reader);

/* The process id that the segment's header gives (in the process's own pid namespace). */
pid_t scope_reader_pid(const struct scope_reader *reader);

/* As if it had died: capture stays on until its time has passed, and the next reader resumes. Takes NULL. */
void scope_reader_leave(struct scope_reader *reader);

/* Turns capture off, leaves its positions for the next reader, unlocks, unmaps. Takes NULL. */
void scope_reader_close(struct scope_reader *reader);

#endif
