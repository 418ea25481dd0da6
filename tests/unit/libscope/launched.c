// SPDX-License-Identifier: GPL-2.0-or-later
/* A recorder and its program: names told to each new reader, and the program that waits for the one that
 * launched it. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "helper.h"

static size_t names_told(const struct log *log, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < log->count; i++)
		count += log->records[i].record.kind == SCOPE_KIND_THREAD_NAME &&
			 name_is(&log->records[i].record, name);
	return count;
}

static void reopen(struct log *log)
{
	scope_reader_close(log->reader);
	log->reader = scope_reader_open(getpid());
	cr_assert_not_null(log->reader, "%s", strerror(errno));
	log->count = 0;
	scope_reader_capture(log->reader, LONG_CAPTURE_NS);
}

Test(launched, each_reader_is_told_a_threads_name_once)
{
	struct log log;

	SCOPE_THREAD_NAME("given before anybody reads");
	start_capture(&log, 1, 1024);
	for (int reader = 0; reader < 300; reader++) { /* more than there are epochs */
		SCOPE_INSTANT("one");
		SCOPE_INSTANT("two");
		drain_and_check(&log);
		cr_assert_eq(names_told(&log, "given before anybody reads"), 1, "reader %d", reader);
		cr_assert_eq(log.count, reader == 0 ? 4 : 3);
		/* Before what is recorded under it. */
		cr_assert_eq(log.records[log.count - 3].record.kind, SCOPE_KIND_THREAD_NAME);
		reopen(&log);
	}
	finish(&log);
}

static void *be_named(void *argument)
{
	int *pipes = argument;

	SCOPE_THREAD_NAME("a worker");
	for (int i = 0; i < 2; i++) {
		wait_step(pipes[0]);
		SCOPE_INSTANT("work");
		step(pipes[1]);
	}
	return NULL;
}

Test(launched, a_thread_that_slept_meanwhile_tells_the_next_reader_too)
{
	int down[2], up[2], pipes[2];
	pthread_t thread;
	struct log log;

	cr_assert(pipe(down) == 0 && pipe(up) == 0);
	pipes[0] = down[0];
	pipes[1] = up[1];
	start_capture(&log, 1, 1024);
	cr_assert_eq(pthread_create(&thread, NULL, be_named, pipes), 0);
	for (int i = 0; i < 2; i++) {
		step(down[1]);
		wait_step(up[0]);
		drain_and_check(&log);
		cr_assert_eq(names_told(&log, "a worker"), 1);
		reopen(&log);
	}
	pthread_join(thread, NULL);
	finish(&log);
}

/* Before the reader has seen the clock run, too: a reader that dies soon costs the writers no longer than
 * another. */
Test(launched, a_capture_lasts_as_long_as_asked_from_the_first)
{
	uint64_t wanted, until, now;
	struct log log;

	start_capture(&log, 1, 64);
	reopen(&log);
	scope_reader_capture(log.reader, 3000000000u);
	until = own_control()->capture_until;
	now = clock_ticks(own_header()->clock);
	wanted = scope_clock_ticks_of_ns(own_header()->clock, 3000000000u);
	cr_assert(until - now > wanted / 2 && until - now < wanted / 2 * 3, "%llu ticks instead of %llu",
		  (unsigned long long)(until - now), (unsigned long long)wanted);
	scope_reader_capture(log.reader, UINT64_MAX);
	cr_assert(own_control()->capture_until > until, "for ever is years, and no overflow");
	finish(&log);
}

/* ---- SCOPE_CAPTURE=PID ---- */

static const char *role_to_play;
static int capture_pid; /* 0: its own */

static void become_launched(int from_parent, int to_parent)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", capture_pid ? capture_pid : (int)getpid());
	setenv("SCOPE_CAPTURE", pid, 1);
	become_role(role_to_play, from_parent, to_parent);
}

static struct child launch(const char *role, int pid)
{
	role_to_play = role;
	capture_pid = pid;
	return start_child(become_launched);
}

static bool segment_opens(void *context)
{
	struct log *log = context;

	/* Of the program itself, not of this test from which it was forked. */
	log->reader = scope_reader_open((pid_t)log->total);
	return log->reader != NULL;
}

Test(launched, a_program_waits_for_the_reader_that_launched_it)
{
	struct child child = launch("first scope", 0);
	struct log log = {.total = (uint64_t)child.pid};

	cr_assert(wait_until(segment_opens, &log));
	log.total = 0;
	cr_assert(scope_reader_resumes(log.reader), "its capture is open, and this reader's");
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert(name_is(&log.records[1].record, "first"));
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(launched, without_a_reader_it_goes_on_and_keeps_what_it_wrote)
{
	struct child child = launch("first scope", 0);
	struct log log;

	wait_step(child.from);
	log = (struct log){.reader = scope_reader_open(child.pid)};
	cr_assert_not_null(log.reader);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(launched, a_program_of_another_pid_captures_nothing)
{
	struct child child = launch("first scope", (int)getpid());
	struct log log;

	wait_step(child.from);
	log = (struct log){.reader = scope_reader_open(child.pid)};
	cr_assert_not_null(log.reader);
	cr_assert_not(scope_reader_resumes(log.reader));
	drain_and_check(&log);
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 0);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

/* The role: a scope, then a forked child, which tells its pid, waits and writes one too. */
Test(launched, the_child_of_a_launched_program_captures_nothing)
{
	struct child child = launch("forking", 0);
	struct log parent = {.total = (uint64_t)child.pid}, log;
	pid_t grandchild;

	cr_assert(wait_until(segment_opens, &parent));
	parent.total = 0;
	scope_reader_capture(parent.reader, LONG_CAPTURE_NS);
	cr_assert_eq(read(child.from, &grandchild, sizeof(grandchild)), (ssize_t)sizeof(grandchild));
	log = (struct log){.reader = scope_reader_open(grandchild)};
	cr_assert_not_null(log.reader, "%s", strerror(errno));
	cr_assert_not(scope_reader_resumes(log.reader));
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 0, "and it did not wait for a reader");
	drain_and_check(&parent);
	cr_assert_eq(parent.count, 3);
	finish(&log);
	finish(&parent);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}
