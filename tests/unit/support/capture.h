/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Captures made in a test. Purpose: a few words per event, through the real writer, and read back
 * by the real reader. Each test runs in a process of its own (Criterion), in a directory of its own
 * that is removed when it ends.
 */
#ifndef SCOPETRACE_TESTS_TIMELINE_SUPPORT_H
#define SCOPETRACE_TESTS_TIMELINE_SUPPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "file/format.h"
#include "file/writer.h"
#include "timeline/timeline.h"

struct maker {
	char directory[64];
	char path[96];
	struct scope_file_writer *writer;
	struct event_output *output;
	uint64_t end_ns;
	uint32_t functions;
	struct scopes_in_file hooked[64]; /* per function */
	bool whole_only; /* records that were delivered late are put back within a region alone */
};

/* A new capture in a new directory; stderr goes to a file there, for said(). */
void make_begin(struct maker *maker);
uint32_t make_name(struct maker *maker, const char *name);
/* Declares the next function. Its id. */
uint32_t make_function(struct maker *maker, const char *name, const char *module);
void make_process(struct maker *maker, uint32_t pid, const char *name, uint32_t clock);
void make_call(struct maker *maker, uint32_t pid, uint32_t tid, uint32_t function, uint64_t start,
	       uint64_t end, uint16_t flags);
/* With a stack pointer of its own; what migrated began on MAKE_START_TID. */
void make_call_at(struct maker *maker, uint32_t pid, uint32_t tid, uint32_t function,
		  uint64_t start, uint64_t end, uint64_t sp, uint16_t flags);
#define MAKE_START_TID 77
void make_event(struct maker *maker, uint32_t pid, uint32_t tid, enum manual_kind kind,
		uint64_t ticks, uint64_t id, uint64_t value, const char *name);
/* With so many events of its thread inside. */
void make_complete(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t start, uint64_t end,
		   uint16_t inside, const char *name);
void make_start(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t ticks, uint64_t id,
		const char *name);
void make_stop(struct maker *maker, uint32_t pid, uint32_t tid, uint64_t ticks, uint64_t id);
void make_thread(struct maker *maker, enum thread_change change, uint32_t pid, uint32_t tid,
		 uint64_t start, uint64_t time, const char *name);
void make_anchor(struct maker *maker, uint32_t clock, uint64_t ticks, uint64_t ns);
/* Accounts for every function as if nothing was lost, finishes the file. */
void make_end(struct maker *maker, uint64_t start_ns, uint64_t end_ns);
/* make_end(), then timeline_open(), which must succeed, with every lane well formed and in memory; and the
 * same in small regions. */
struct timeline *make_open(struct maker *maker, uint64_t end_ns);
/* The same of the finished file, in regions of so many records. */
struct timeline *make_open_in_regions(struct maker *maker, uint64_t region_records);
/* Asserts that the same capture came out the same. */
void expect_same_timeline(const struct timeline *whole, const struct timeline *parts);
/* Reads the lanes of a timeline into memory. */
void make_lanes(struct timeline *timeline);
void make_remove(struct maker *maker);

/* One part of the summary; malloc'ed, the caller frees. 0. */
int timeline_statistics(const struct timeline *timeline, struct function_statistics **statistics,
			size_t *count);
int timeline_frames(const struct timeline *timeline, struct frame_statistics **statistics,
		    size_t *count);
int timeline_numbers(const struct timeline *timeline, struct number_statistics **statistics,
		     size_t *count);

/* What was written to stderr since the last call (or make_begin()). */
const char *said(struct maker *maker);

/* Whole files. */
unsigned char *file_read(const char *path, size_t *length);
void file_write(const char *path, const void *bytes, size_t length);

/* Position of the n-th (from 0) chunk of the type in the file; `length` if there is none. */
size_t chunk_at(const unsigned char *bytes, size_t length, uint32_t type, size_t n);
/* Makes the checksum of the chunk right again, after it was tampered with. */
void chunk_sign(unsigned char *bytes, size_t at);

/* Asserts what must hold for every lane whatever its events were. */
void check_lane(const struct lane *lane);
const struct lane *lane_of(const struct timeline *timeline, uint32_t pid, uint32_t tid, size_t n);
/* The scope's "name start-end @depth", with sub-lane and flags if there are any, one per line, indented by
 * depth. */
const char *lane_text(const struct timeline *timeline, const struct lane *lane);

#endif
