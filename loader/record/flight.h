/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A flight recorder: the last seconds of a capture, in memory. Purpose: it stands where the file
 * stands, keeps what came within a window of time, and puts that into a file when somebody asks.
 * Owner: the thread that writes files.
 *
 * Invariants: what is let go of is counted, so that an account stays exact: scopes of each
 * function, manual events in all. They go in the order in which they came. Functions, what
 * processes and threads are called (65,536 of them at most) and the starts of manual scopes that
 * are still open outlive the window; of the clock's anchors the last before it are kept. The memory
 * of everything else has a bound; where it is reached the window becomes shorter, which is told.
 * Names are kept as long as something bears them.
 */
#ifndef SCOPETRACE_RECORD_FLIGHT_H
#define SCOPETRACE_RECORD_FLIGHT_H

#include <stdbool.h>

#include "event/event.h"
#include "base/intern.h"

#define FLIGHT_BYTES_DEFAULT (256u << 20)
#define FLIGHT_BYTES_LEAST \
	(8u << 20) /* the blocks of the window fit in it, however few records they hold \
		    */

struct flight;
struct scope_file_writer;

/* Keeps what came in the last `window_ns`, in at most `bytes`. NULL with errno (logged). */
struct flight *flight_create(uint64_t window_ns, size_t bytes);
void flight_destroy(struct flight *flight); /* takes NULL */

/* Tells the time instead of CLOCK_MONOTONIC: for tests. */
void flight_set_clock(struct flight *flight, uint64_t (*now)(void));

/*
 * Where events are put; span is not there, as files of a flight recorder are not parts of one
 * another.
 */
struct event_output *flight_output(struct flight *flight);

/* Declares a hooked function, as scope_file_writer_function does. 0 or -errno (logged). */
int flight_function(struct flight *flight, const struct function_info *function);

/* Lets go of what is too old by now. Every event that comes does it as well. */
void flight_expire(struct flight *flight);

/* The window ends at `ns` and moves no further, until this is called with 0. */
void flight_hold(struct flight *flight, uint64_t ns);

/*
 * Forgets the names that nothing bears any more, if that is worth it, and numbers the others anew.
 * `others` visits all ids that those who put have; it is called twice. Without memory all stays as
 * it is.
 */
void flight_collect_names(struct flight *flight,
			  void (*others)(void *context, intern_visitor visit, void *visited),
			  void *context);

/* How many names are kept. */
size_t flight_names(const struct flight *flight);

/* True when all memory is in use by what is being written: nothing should be put for now. */
bool flight_is_full(const struct flight *flight);

struct flight_writing {
	uint64_t since_ns; /* hooked calls that ended before are left out */
	bool last;	   /* these are let go of, and counted */
	/*
	 * Calls that were running a moment ago, to be written as well but for those that have
	 * ended.
	 */
	const struct hooked_scope *open;
	size_t open_count;
	/*
	 * Called every now and then; may put more, which is not written now. NULL: none. 0 or
	 * -errno.
	 */
	int (*between)(void *context);
	void *context;
};

/*
 * Puts what is kept into a file in the order in which it came, declarations first. 0, -errno of the
 * file, or of `between`.
 */
int flight_write(struct flight *flight, struct scope_file_writer *writer,
		 const struct flight_writing *writing);

/*
 * Let go of so far: of a function, those that are in its account as completed, unwound or instant.
 */
uint64_t flight_expired_calls(const struct flight *flight, uint32_t function);
uint64_t flight_expired_events(const struct flight *flight);

/* How short the window has been for want of memory; 0: never shorter than asked for. */
uint64_t flight_shortest_ns(const struct flight *flight);

/* Bytes in use, of those that are bounded by what flight_create() was told. */
size_t flight_bytes(const struct flight *flight);

/* Threads that are known from before the window. */
size_t flight_known_threads(const struct flight *flight);

#endif
