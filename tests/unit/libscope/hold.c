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

/* What was not committed does not count, nor what another capture's reader takes. */
Test(hold, accounts_go_on_over_readers)
{
	static const char long_name[] = "a name of more than thirty-two bytes goes on in another record";
	struct scope_reader_account account;
	struct log log = {0};

	start_capture(&log, 1, 64);
	scope_reader_hold(log.reader);
	scope_reader_account(log.reader, 5);
	write_scopes("counted", 3);
	write_scopes(long_name, 1);
	drain(&log);
	scope_reader_commit(log.reader);
	write_scopes("again", 2);
	drain(&log);
	account = scope_reader_accounted(log.reader);
	cr_assert_eq(account.continuations, 1);
	cr_assert_geq(account.events, 6);

	replace_reader(&log);
	write_scopes("lapped", 100);
	scope_reader_hold(log.reader);
	scope_reader_account(log.reader, 5);
	drain(&log);
	account = scope_reader_accounted(log.reader);
	cr_assert_eq(account.events + account.continuations + account.lost,
		     scope_reader_counts(log.reader).cursor);
	cr_assert_eq(account.lost, scope_reader_counts(log.reader).lost);
	cr_assert_gt(account.lost, 0);
	scope_reader_commit(log.reader);

	replace_reader(&log);
	write_scopes("of nobody", 5);
	drain(&log);
	replace_reader(&log);
	scope_reader_hold(log.reader);
	scope_reader_account(log.reader, 5);
	cr_assert_eq(scope_reader_accounted(log.reader).events, account.events);
	replace_reader(&log);
	scope_reader_hold(log.reader);
	scope_reader_account(log.reader, 6);
	cr_assert_eq(scope_reader_accounted(log.reader).events, 0);
	finish(&log);
}
