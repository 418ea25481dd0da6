// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Nobody sweeps: what is kept for threads, stacks and frames that are gone is given up in the
 * kernel itself. Only links are held here; nobody drains, so the ring is soon full, and the
 * accounts must close all the same. SCOPETRACE_LONG=1: a million threads and a hundred thousand
 * stacks.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/io.h"
#include "hooked_run.h"

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FUNCTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define PATIENCE_NS    (1500 * 1000000000ull)
#define LOOK_EVERY_MS  20
/* A look takes a while, in which slots come and go, and so may find more than there ever were. */
#define SLOTS_AT_MOST (4 * MAX_THREAD_KEYS)

TestSuite(unswept, .init = need_root, .timeout = 1800);

static bool is_long(void)
{
	return getenv("SCOPETRACE_LONG") != NULL;
}

/* Runs it without a reader. The most slots that were held at any look. */
static size_t run_unread(struct hooked_run *run, struct target *target,
			 const char *const *arguments, const char *const *functions)
{
	uint64_t deadline = io_now_ns() + PATIENCE_NS;
	size_t most = 0;

	target_start(target, arguments);
	run_open(run, functions, NULL);
	run_attach(run, target);
	target_go(target);
	while (!target_ended(target)) {
		size_t slots = run_slots(run, NULL, NULL);

		most = slots > most ? slots : most;
		cr_assert_lt(io_now_ns(), deadline);
		poll(NULL, 0, LOOK_EVERY_MS);
	}
	cr_assert(WIFEXITED(target->status) && WEXITSTATUS(target->status) == 0, "status %#x",
		  target->status);
	cr_expect_eq(run_slots(run, NULL, NULL), 0, "slots are left when the process is gone");
	run_finish(run);
	run_check(run);
	return most;
}

/* What the program says is what was counted; nothing was refused for want of room. */
static struct function_accounting expect_all(const struct hooked_run *run,
					     const struct target *target, const char *function,
					     uint64_t returned)
{
	struct function_accounting account = run_account(run, function);
	uint64_t entries, returns;

	cr_assert(target_truth(target, function, &entries, &returns), "%s", target->text);
	cr_expect_eq(account.entries, entries, "%s", function);
	cr_expect_eq(account.opened, entries, "%s", function);
	cr_expect_eq(account.completed, returned, "%s: %lu completed", function, account.completed);
	cr_expect_eq(account.map_full, 0, "%s", function);
	cr_expect_eq(account.orphans, 0, "%s", function);
	return account;
}

static void threads_case(const char *program, const char *count)
{
	struct hooked_run run;
	struct target target;
	size_t most = run_unread(&run, &target, ARGUMENTS(program, "threads", count),
				 FUNCTIONS("visit", "leaf"));

	expect_all(&run, &target, "visit", strtoull(count, NULL, 10));
	cr_expect_leq(most, SLOTS_AT_MOST, "%zu slots at a time", most);
	run_close(&run);
}

Test(unswept, short_threads)
{
	threads_case("churn", is_long() ? "1000000" : "10000");
	threads_case("churn.nop5", is_long() ? "100000" : "10000");
}

static void stacks_case(const char *program, const char *count)
{
	struct hooked_run run;
	struct target target;
	size_t most = run_unread(&run, &target, ARGUMENTS(program, "stacks", count),
				 FUNCTIONS("visit", "leaf"));
	struct function_accounting leaf = expect_all(&run, &target, "leaf", 0);

	expect_all(&run, &target, "visit", strtoull(count, NULL, 10));
	cr_expect_eq(leaf.unwound + leaf.unfinished, strtoull(count, NULL, 10));
	cr_expect_leq(most, SLOTS_AT_MOST, "%zu slots at a time", most);
	run_close(&run);
}

Test(unswept, abandoned_stacks)
{
	stacks_case("churn", is_long() ? "100000" : "10000");
	stacks_case("churn.nop5", is_long() ? "100000" : "10000");
}

static void frames_case(const char *program)
{
	struct hooked_run run;
	struct target target;
	size_t most = run_unread(&run, &target, ARGUMENTS(program, "20000"),
				 FUNCTIONS("outer", "visit", "leaf"));

	expect_all(&run, &target, "outer", 1);
	expect_all(&run, &target, "visit", 20000);
	cr_expect_eq(expect_all(&run, &target, "leaf", 0).unwound, 20000);
	cr_expect_leq(most, SLOTS_AT_MOST, "%zu slots at a time", most);
	run_close(&run);
}

Test(unswept, abandoned_frames)
{
	frames_case("abandon");
	frames_case("abandon.nop5");
}
