// SPDX-License-Identifier: GPL-2.0-or-later
/* A reader that writes down what it takes before it counts as taken. */
#include <string.h>
#include <unistd.h>

#include "helper.h"

/* The reader ends as if killed, and another one takes its place. */
static void replace_reader(struct log *log)
{
	scope_reader_leave(log->reader);
	log->reader = scope_reader_open(getpid());
	cr_assert_not_null(log->reader);
	log->count = 0;
}

static void write_scopes(const char *name, size_t count)
{
	for (size_t i = 0; i < count; i++)
		scope_instant_if_enabled(name, strlen(name));
}

static size_t count_of(const struct log *log, const char *name)
{
	size_t count = 0;

	for (size_t i = 0; i < log->count; i++)
		count += name_is(&log->records[i].record, name);
	return count;
}

Test(hold, what_was_not_committed_comes_again)
{
	struct log log = {0};

	start_capture(&log, 1, 1024);
	scope_reader_hold(log.reader);
	write_scopes("committed", 5);
	drain(&log);
	cr_assert_eq(count_of(&log, "committed"), 5);
	scope_reader_commit(log.reader);
	write_scopes("held", 7);
	drain(&log);
	cr_assert_eq(count_of(&log, "held"), 7);
	drain(&log);
	cr_assert_eq(count_of(&log, "held"), 7, "the same reader does not take them twice");

	replace_reader(&log);
	cr_assert(scope_reader_resumes(log.reader));
	drain(&log);
	cr_assert_eq(count_of(&log, "committed"), 0);
	cr_assert_eq(count_of(&log, "held"), 7);
	finish(&log);
}

Test(hold, leaving_keeps_the_capture_on)
{
	struct log log = {0};

	start_capture(&log, 1, 1024);
	write_scopes("before", 1);
	drain(&log);
	replace_reader(&log);
	write_scopes("after", 3);
	drain(&log);
	cr_assert_eq(count_of(&log, "before"), 0);
	cr_assert_eq(count_of(&log, "after"), 3);
	finish(&log);
}
