/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of libscope share. Purpose: real segments, of this process or of a child, read by the real
 * reader, and a log of what it delivers. Criterion runs each test in a process of its own, which has a fresh
 * segment.
 */
#ifndef TESTS_LIBSCOPE_HELPER_H
#define TESTS_LIBSCOPE_HELPER_H

#include <criterion/criterion.h>

#include "reader.h"
#include "scope.h"

#define LONG_CAPTURE_NS 3600000000000ull

struct log_record {
	struct scope_record record;
	uint32_t ring;
	uint64_t claim;
};

/* Everything a drain told, in its order. */
struct log {
	struct scope_reader *reader;
	struct log_record *records;
	size_t count;	/* a test may start anew with 0 */
	uint64_t total; /* all that was ever delivered */
	size_t room;
	uint64_t lapped;
	uint64_t written_off;
	uint64_t gaps;
	int answer; /* of the callbacks */
	void (*hook)(struct log *log, const struct scope_record *record);
	void *hook_context;
};

/* Replaces this process's segment, still unused, by one of these sizes; opens a reader of it and turns
 * capture on. */
void start_capture(struct log *log, uint32_t rings, uint32_t slots);
struct scope_reader_events log_events(struct log *log);
int64_t drain(struct log *log);
/* Drains, and checks that the counters and the log, kept from the segment's start, add up. */
void drain_and_check(struct log *log);
void finish(struct log *log);

/* This process's own segment. */
struct scope_header *own_header(void);
struct scope_ring *own_ring(uint32_t index);
struct scope_slot *own_slot(uint32_t ring, uint64_t claim);
struct scope_control *own_control(void);

/* A writer by hand: claims a slot; publishes a record there. */
uint64_t forge_claim(uint32_t ring);
struct scope_record forge_record(uint32_t tid, uint64_t claim, const char *name);
void forge_publish(uint32_t ring, uint64_t claim, const struct scope_record *record);

bool name_is(const struct scope_record *record, const char *name);

/* A child: runs `body` with two pipes, to and from the parent, and exits. */
struct child {
	pid_t pid;
	int to;
	int from;
};
typedef void (*child_body)(int from_parent, int to_parent);
typedef pid_t (*fork_function)(void);
struct child start_child_by(fork_function how, child_body body);
struct child start_child(child_body body);
/* One byte through a pipe: a step that the other side waits for. */
void step(int descriptor);
void wait_step(int descriptor);
/* Kills if need be, and reaps. Returns the wait status. */
int end_child(struct child *child, int signal);

/*
 * Becomes this binary, run again as `role` (see roles.c) with the environment of this process: a real start,
 * constructors and all.
 */
void become_role(const char *role, int from_parent, int to_parent);
struct child start_role(const char *role);

/* True as soon as `condition` is; false after ten seconds. */
bool wait_until(bool (*condition)(void *context), void *context);

#endif
