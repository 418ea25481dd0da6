// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pairing in the real kernel, on real probes: each awkward program of tests/targets against its
 * own truth, exactly.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "bpf/scope_event.h"
#include "hooked_run.h"

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FUNCTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

TestSuite(pairing_kernel, .init = need_root, .timeout = 300);

/* The program says how often; the kernel must have seen exactly that. */
static void expect_truth(const struct hooked_run *run, const struct target *target,
			 const char *function)
{
	struct function_accounting account = run_account(run, function);
	uint64_t entries, returns;

	cr_assert(target_truth(target, function, &entries, &returns), "%s says: %s", target->path,
		  target->text);
	cr_expect_eq(account.entries - account.not_a_call, entries, "%s: %lu entries, truly %lu",
		     function, account.entries - account.not_a_call, entries);
	cr_expect_eq(account.returns - account.not_a_return, returns, "%s: %lu returns, truly %lu",
		     function, account.returns - account.not_a_return, returns);
}

static void longjmp_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("top", "mid", "leaf"), NULL);
	for (size_t i = 0; i < run.function_count; i++)
		expect_truth(&run, &target, run.functions[i]);
	cr_expect_eq(run_account(&run, "top").completed, 1000);
	cr_expect_eq(run_account(&run, "mid").completed, 500);
	cr_expect_eq(run_account(&run, "mid").unwound, 500);
	cr_expect_eq(run_account(&run, "leaf").completed, 500);
	cr_expect_eq(run_account(&run, "leaf").unwound, 500);
	cr_expect_eq(run_account(&run, "leaf").unfinished, 0);
	cr_expect_eq(run.tally.scope_count, 3000);
	run_close(&run);
}

Test(pairing_kernel, longjmp)
{
	longjmp_case("longjmp");
}

Test(pairing_kernel, longjmp_optimised_entries)
{
	longjmp_case("longjmp.nop5");
}

static void recurse_case(const char *program, const char *depth, uint64_t too_deep)
{
	struct hooked_run run;
	struct target target;
	struct function_accounting account;
	uint64_t entries, returns;

	run_whole(&run, &target, ARGUMENTS(program, depth), FUNCTIONS("rec"), NULL);
	account = run_account(&run, "rec");
	cr_assert(target_truth(&target, "rec", &entries, &returns));
	cr_expect_eq(account.entries, entries);
	cr_expect_eq(account.completed, MAX_RETURN_DEPTH);
	cr_expect_eq(account.too_deep, too_deep);
	cr_expect_eq(account.discarded + account.unfinished + account.orphans, 0);
	run_close(&run);
}

Test(pairing_kernel, recursion_70_deep)
{
	recurse_case("recurse", "70", 6);
	recurse_case("recurse.nop5", "70", 6);
}

Test(pairing_kernel, recursion_101_deep)
{
	recurse_case("recurse", "101", 37);
	recurse_case("recurse.nop5", "101", 37);
}

static void tail_call_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("a", "b", "even", "odd"), NULL);
	for (size_t i = 0; i < run.function_count; i++) {
		const char *function = run.functions[i];

		expect_truth(&run, &target, function);
		cr_expect_eq(run_account(&run, function).completed,
			     run_account(&run, function).entries);
		cr_expect_eq(run_account(&run, function).orphans, 0);
	}
	cr_expect_eq(run_account(&run, "a").completed, 1000);
	cr_expect_eq(run_account(&run, "b").completed, 1000);
	cr_expect_eq(run_account(&run, "odd").completed, 3000);
	run_close(&run);
}

Test(pairing_kernel, tail_calls)
{
	tail_call_case("tailcall");
	tail_call_case("tailcall.nop5");
}

/* Twelve frames at one stack pointer: eight are paired, four are counted, and the eight keep their own
 * returns. */
Test(pairing_kernel, chain_too_long)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS("tailcall", "12"), FUNCTIONS("even", "odd"), NULL);
	for (size_t i = 0; i < run.function_count; i++) {
		struct function_accounting account = run_account(&run, run.functions[i]);

		expect_truth(&run, &target, run.functions[i]);
		cr_expect_eq(account.entries, 6000);
		cr_expect_eq(account.completed, 4000);
		cr_expect_eq(account.chain_full, 2000);
		cr_expect_eq(account.orphans, 2000);
	}
	run_close(&run);
}

#if defined(__x86_64__)
static void turns_case(const char *turns, uint64_t false_entries, uint64_t false_returns,
		       uint64_t completed)
{
	struct hooked_run run;
	struct target target;
	struct function_accounting account;

	run_whole(&run, &target, ARGUMENTS("turns", turns), FUNCTIONS("spin"), NULL);
	account = run_account(&run, "spin");
	expect_truth(&run, &target, "spin");
	cr_expect_eq(account.not_a_call, false_entries);
	cr_expect_eq(account.not_a_return, false_returns);
	cr_expect_eq(account.completed, completed);
	cr_expect_eq(account.opened, 10);
	run_close(&run);
}

Test(pairing_kernel, loop_to_the_entry)
{
	turns_case("50", 490, 490, 10);
}

/* Turns use up the kernel's return instances; those beyond the 64th bring none. */
Test(pairing_kernel, loop_to_the_entry_past_the_limit)
{
	turns_case("200", 1990, 630, 10);
}
#endif

static void exit_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("last", "bye", "fin", "steps"),
		  NULL);
	for (size_t i = 0; i < run.function_count; i++)
		expect_truth(&run, &target, run.functions[i]);
	cr_expect_eq(run_delivered(&run, "last", SCOPE_FLAG_UNFINISHED, 0), 1);
	cr_expect_eq(run_delivered(&run, "bye", SCOPE_FLAG_UNFINISHED, 0), 1);
	cr_expect_eq(run_delivered(&run, "fin", 0, SCOPE_FLAG_UNFINISHED), 1);
	cr_expect_eq(run_delivered(&run, "steps", 0, SCOPE_FLAG_UNFINISHED), 100);
	cr_expect_eq(run.tally.scope_count, 103);
	cr_expect_eq(run_threads(&run, THREAD_SEEN), 1);
	cr_expect_eq(run_threads(&run, THREAD_EXITED), 1);
	run_close(&run);
}

Test(pairing_kernel, exit_inside_calls)
{
	exit_case("exitin");
	exit_case("exitin.nop5");
}

/*
 * A child inherits the breakpoints and a pending return, but is not traced. (.nop5 and fork: a
 * known hazard.)
 */
Test(pairing_kernel, fork_inside_a_call)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS("forkin"), FUNCTIONS("forker", "after"), NULL);
	expect_truth(&run, &target, "forker");
	expect_truth(&run, &target, "after");
	cr_expect_eq(run.tally.scope_count, 40);
	cr_expect_eq(run.tally.forks, 20);
	cr_expect_eq(run.tally.fork_parent, (uint32_t)target.pid);
	for (size_t i = 0; i < run.tally.scope_count; i++)
		cr_expect_eq(run.tally.scopes[i].pid, (uint32_t)target.pid);
	run_close(&run);
}

static size_t count_tids(const struct tally *tally)
{
	size_t count = 0;

	for (size_t i = 0; i < tally->scope_count; i++) {
		size_t k = 0;

		while (k < i && tally->scopes[k].tid != tally->scopes[i].tid)
			k++;
		count += k == i;
	}
	return count;
}

static void threads_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program, "16"), FUNCTIONS("fn"), NULL);
	expect_truth(&run, &target, "fn");
	cr_expect_eq(run_account(&run, "fn").completed, 32000);
	cr_expect_eq(run_delivered(&run, "fn", 0, 0), 32000);
	cr_expect_eq(run_threads(&run, THREAD_SEEN), 32);
	cr_expect_eq(run_threads(&run, THREAD_EXITED), 32);
	cr_expect_eq(count_tids(&run.tally), 32);
	for (size_t i = 0; i < run.tally.thread_count; i++) {
		const struct thread_info *thread = &run.tally.threads[i];

		cr_expect_eq(thread->pid, (uint32_t)target.pid);
		cr_expect(thread->start_ns && thread->start_ns <= thread->time_ns);
		cr_expect_str_eq(run.tally.names[thread->name], program);
	}
	run_close(&run);
}

Test(pairing_kernel, two_waves_of_threads)
{
	threads_case("threads");
	threads_case("threads.nop5");
}

/* Far more stack pointers than a thread may keep: the open frame further out survives, the abandoned do not
 * pile up. */
Test(pairing_kernel, a_thousand_stack_pointers)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS("abandon"), FUNCTIONS("outer", "visit", "leaf"), NULL);
	for (size_t i = 0; i < run.function_count; i++)
		expect_truth(&run, &target, run.functions[i]);
	cr_expect_eq(run_account(&run, "outer").completed, 1);
	cr_expect_eq(run_account(&run, "visit").completed, 1000);
	cr_expect_eq(run_account(&run, "leaf").opened, 1000);
	cr_expect_eq(run_account(&run, "leaf").unwound, 1000);
	run_close(&run);
}

/* Every `step`-th place of near_scopes belongs to a thread that does not exist. */
static void take_places(const struct hooked_run *run, size_t step)
{
	const size_t length = NEAR_SCOPES * sizeof(struct near_slot);
	struct near_slot *near = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED,
				      probe_session_map(run->session, "near_scopes"), 0);

	cr_assert_neq(near, MAP_FAILED);
	for (size_t i = 0; i < NEAR_SCOPES; i += step)
		near[i].key.tid = UINT32_MAX;
	munmap(near, length);
}

static size_t count_hashed(const struct hooked_run *run)
{
	int map = probe_session_map(run->session, "open_scopes");
	struct open_key *previous = NULL, key;
	size_t count = 0;

	for (; !bpf_map_get_next_key(map, previous, &key); previous = &key)
		count++;
	return count;
}

/*
 * Keys whose place in near_scopes is taken are kept in open_scopes, and leave it with their thread.
 */
static void places_taken_case(size_t step)
{
	struct hooked_run run;
	struct target target;
	size_t hashed = 0;

	target_start(&target, ARGUMENTS("abandon", "20000"));
	run_open(&run, FUNCTIONS("outer", "visit", "leaf"), NULL);
	take_places(&run, step);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target)) {
		size_t count = count_hashed(&run);

		hashed = count > hashed ? count : hashed;
		run_drain(&run);
		poll(NULL, 0, 1);
	}
	run_finish(&run);
	run_check(&run);
	for (size_t i = 0; i < run.function_count; i++)
		expect_truth(&run, &target, run.functions[i]);
	cr_expect_eq(run_account(&run, "outer").completed, 1);
	cr_expect_eq(run_account(&run, "visit").completed, 20000);
	cr_expect_eq(run_account(&run, "leaf").unwound, 20000);
	cr_expect_gt(hashed, 0);
	cr_expect_eq(count_hashed(&run), 0);
	cr_expect_eq(run_slots(&run, NULL, NULL), (NEAR_SCOPES + step - 1) / step,
		     "only those that were taken");
	run_close(&run);
}

Test(pairing_kernel, no_place_near)
{
	places_taken_case(1);
	places_taken_case(2);
}

/* How often the call that runs all the while is in a look at what is open. */
static size_t count_looked_up(const struct hooked_run *run, uint32_t function)
{
	struct hooked_scope *scopes = NULL;
	size_t count = 0, found = 0;

	cr_assert_eq(bpf_source_open_calls(run->source, io_now_ns(), &scopes, &count), 0);
	for (size_t i = 0; i < count; i++)
		found += scopes[i].function == function;
	free(scopes);
	return found;
}

/* Keys come and go in open_scopes while it is read. */
Test(pairing_kernel, open_calls_once_each)
{
	struct hooked_run run;
	struct target target;
	size_t looks = 0, seen = 0;

	target_start(&target, ARGUMENTS("abandon", "20000"));
	run_open(&run, FUNCTIONS("outer", "visit", "leaf"), NULL);
	take_places(&run, 1);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target)) {
		size_t found = count_looked_up(&run, 0);

		cr_expect_leq(found, 1, "outer() runs once, and is there %zu times", found);
		seen += found;
		looks++;
		run_drain(&run);
	}
	run_finish(&run);
	run_check(&run);
	cr_expect_gt(seen, looks / 2, "outer() runs nearly all the time: seen by %zu of %zu looks",
		     seen, looks);
	run_close(&run);
}

/* A handler runs on the stack of the call that it interrupts. */
static void signals_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("work", "on_signal", "step"), NULL);
	for (size_t i = 0; i < run.function_count; i++) {
		expect_truth(&run, &target, run.functions[i]);
		cr_expect_eq(run_account(&run, run.functions[i]).completed, 200);
	}
	cr_expect_eq(run.tally.scope_count, 600);
	run_close(&run);
}

Test(pairing_kernel, signal_handlers)
{
	signals_case("signals");
	signals_case("signals.nop5");
}

static void siglongjmp_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program, "jump"), FUNCTIONS("work", "on_signal", "step"),
		  NULL);
	for (size_t i = 0; i < run.function_count; i++) {
		expect_truth(&run, &target, run.functions[i]);
		cr_expect_eq(run_account(&run, run.functions[i]).completed, 100);
		cr_expect_eq(run_account(&run, run.functions[i]).unwound +
				     run_account(&run, run.functions[i]).unfinished,
			     100);
	}
	/* The last call jumped out as the process ended: nothing after it shows that it is gone. */
	cr_expect_leq(run_account(&run, "work").unfinished, 1);
	run_close(&run);
}

Test(pairing_kernel, siglongjmp_out_of_a_handler)
{
	siglongjmp_case("signals");
	siglongjmp_case("signals.nop5");
}

/* The child calls in the parent's memory and on its stack, but is another process: not traced. */
static void vfork_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("vforker", "step"), NULL);
	expect_truth(&run, &target, "vforker");
	expect_truth(&run, &target, "step");
	cr_expect_eq(run_account(&run, "vforker").completed, 20);
	cr_expect_eq(run_account(&run, "step").completed, 20);
	cr_expect_eq(run.tally.forks, 20);
	cr_expect_eq(run.tally.fork_parent, (uint32_t)target.pid);
	cr_expect_eq(run_account(&run, "vforker").orphans + run_account(&run, "step").orphans, 0);
	for (size_t i = 0; i < run.tally.scope_count; i++)
		cr_expect_eq(run.tally.scopes[i].tid, (uint32_t)target.pid);
	run_close(&run);
}

Test(pairing_kernel, vfork_inside_a_call)
{
	vfork_case("vforkin");
	vfork_case("vforkin.nop5");
}

/*
 * What `record --force` does to a process that it would refuse: the calls that are left are
 * unfinished.
 */
static void thread_end_case(const char *program, const char *how)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program, how), FUNCTIONS("leave", "step"), NULL);
	expect_truth(&run, &target, "leave");
	expect_truth(&run, &target, "step");
	cr_expect_eq(run_account(&run, "leave").opened, 16);
	cr_expect_eq(run_account(&run, "leave").unfinished, 16);
	cr_expect_eq(run_delivered(&run, "leave", SCOPE_FLAG_UNFINISHED, 0), 16);
	cr_expect_eq(run_account(&run, "step").completed, 1600);
	cr_expect_eq(run_threads(&run, THREAD_SEEN), 16);
	cr_expect_eq(run_threads(&run, THREAD_EXITED), 16);
	cr_expect_eq(run_slots(&run, NULL, NULL), 0, "no slot outlives its thread");
	run_close(&run);
}

Test(pairing_kernel, pthread_exit_inside_a_call)
{
	thread_end_case("threadend", NULL);
	thread_end_case("threadend.nop5", NULL);
}

Test(pairing_kernel, threads_killed_inside_a_call)
{
	thread_end_case("threadend", "killed");
	thread_end_case("threadend.nop5", "killed");
}

/* What the thread does on another stack, further up, does not tell that they are gone. */
Test(pairing_kernel, thread_ends_while_a_fiber_is_suspended)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS("fiberleft"), FUNCTIONS("holder", "suspended", "after"),
		  NULL);
	for (size_t i = 0; i < run.function_count; i++)
		expect_truth(&run, &target, run.functions[i]);
	cr_expect_eq(run_delivered(&run, "holder", SCOPE_FLAG_UNFINISHED, 0), 1);
	cr_expect_eq(run_delivered(&run, "suspended", SCOPE_FLAG_UNFINISHED, 0), 1);
	cr_expect_eq(run_account(&run, "holder").unwound + run_account(&run, "suspended").unwound,
		     0);
	cr_expect_eq(run_account(&run, "after").completed, 10);
	run_close(&run);
}

/*
 * The thread that calls exec goes on under the first thread's id; what either had open is closed. A
 * link of uprobe_multi belongs to the first thread's task, which is gone then: of the new program
 * the kernel tells nothing.
 */
static void exec_by_a_thread_case(const char *program)
{
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS(program), FUNCTIONS("work", "replace", "wait_inside"),
		  NULL);
	expect_truth(&run, &target, "replace");
	expect_truth(&run, &target, "wait_inside");
	cr_expect_eq(run_account(&run, "work").entries, 10);
	cr_expect_eq(run_account(&run, "work").completed, 10);
	cr_expect_eq(run_account(&run, "replace").unwound, 1);
	cr_expect_eq(run_account(&run, "wait_inside").unfinished, 1);
	for (size_t i = 0; i < run.tally.scope_count; i++) {
		if (!(run.tally.scopes[i].flags &
		      SCOPE_FLAG_UNWOUND)) /* `replace`, by the other thread */
			cr_expect_eq(run.tally.scopes[i].tid, (uint32_t)target.pid);
	}
	run_close(&run);
}

Test(pairing_kernel, exec_by_another_thread)
{
	exec_by_a_thread_case("execthread");
	exec_by_a_thread_case("execthread.nop5");
}

Test(pairing_kernel, exec_and_a_new_name)
{
	struct hooked_run run;
	struct target target;
	bool renamed = false;

	run_whole(&run, &target, ARGUMENTS("execin"), FUNCTIONS("work", "replace"), NULL);
	expect_truth(&run, &target, "work");
	expect_truth(&run, &target, "replace");
	cr_expect_eq(run_account(&run, "work").completed, 20);
	cr_expect_eq(run_account(&run, "replace").unwound, 1);
	cr_expect_eq(run_threads(&run, THREAD_SEEN), 2, "once for each program");
	for (size_t i = 0; i < run.tally.thread_count; i++)
		renamed |= run.tally.threads[i].change == THREAD_NAMED &&
			   strcmp(run.tally.names[run.tally.threads[i].name], "renamed") == 0;
	cr_expect(renamed);
	run_close(&run);
}

/* Probes are armed in a child that has not exec'ed: the first call of its program is caught. */
Test(pairing_kernel, before_exec)
{
	struct hooked_run run;
	struct target target;

	target_fork(&target, ARGUMENTS("longjmp"));
	run_open(&run, FUNCTIONS("top", "mid", "leaf"), NULL);
	run_attach(&run, &target);
	run_until_end(&run, &target);
	run_finish(&run);
	run_check(&run);
	expect_truth(&run, &target, "top");
	expect_truth(&run, &target, "mid");
	expect_truth(&run, &target, "leaf");
	run_close(&run);
}

Test(pairing_kernel, several_processes)
{
	struct hooked_run run;
	struct target first, second;
	uint64_t of_second = 0;

	target_start(&first, ARGUMENTS("longjmp"));
	target_start(&second, ARGUMENTS("longjmp.nop5"));
	run_open(&run, FUNCTIONS("top", "mid", "leaf"), NULL);
	run_attach(&run, &first);
	run_attach(&run, &second);
	run_until_end(&run, &first);
	run_until_end(&run, &second);
	run_finish(&run);
	run_check(&run);
	cr_expect_eq(run_account(&run, "top").completed, 2000);
	cr_expect_eq(run_account(&run, "leaf").completed, 1000);
	for (size_t i = 0; i < run.tally.scope_count; i++)
		of_second += run.tally.scopes[i].pid == (uint32_t)second.pid;
	cr_expect_eq(run.tally.scope_count, 6000);
	cr_expect_eq(of_second, 3000);
	run_close(&run);
}

/* Sum of one counter over the cpus: how far the target has come. */
static uint64_t entries_so_far(const struct hooked_run *run)
{
	int cpus = libbpf_num_possible_cpus();
	struct function_counters *counters = calloc((size_t)cpus, sizeof(*counters));
	uint64_t entries = 0;
	uint32_t zero = 0;

	cr_assert_eq(
		bpf_map_lookup_elem(probe_session_map(run->session, "counters"), &zero, counters),
		0);
	for (int i = 0; i < cpus; i++)
		entries += counters[i].entries;
	free(counters);
	return entries;
}

/*
 * A ring of one page holds 64 scopes, and is drained only when a thousand calls have gone by:
 * nearly all are lost, each is counted, and the records of losses add up.
 */
Test(pairing_kernel, tiny_ring)
{
	struct probe_options options = {.ring_bytes = 4096};
	struct hooked_run run;
	struct target target;
	struct function_accounting account;
	uint64_t drained_at = 0;

	target_start(&target, ARGUMENTS("threads", "4"));
	run_open(&run, FUNCTIONS("fn"), &options);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target)) {
		uint64_t entries = entries_so_far(&run);

		if (entries >= drained_at + 1000) {
			run_drain(&run);
			drained_at = entries;
		}
		poll(NULL, 0, 1);
	}
	run_finish(&run);
	account = run_account(&run, "fn");
	expect_truth(&run, &target, "fn");
	cr_expect_eq(account.completed, 8000);
	cr_expect_gt(account.ring_lost, 4000);
	cr_expect_eq(account.completed, account.ring_lost + run.tally.scope_count);
	cr_expect_eq(run.tally.lost, account.ring_lost, "losses told: %lu, counted: %lu",
		     run.tally.lost, account.ring_lost);
	cr_expect_geq(run.tally.losses, 3);
	run_close(&run);
}

/*
 * With no room for the unfinished frames of a thread that ended, they wait in the map and come at
 * the end.
 */
Test(pairing_kernel, exit_with_a_full_ring)
{
	struct probe_options options = {.ring_bytes = 4096};
	struct hooked_run run;
	struct target target;

	target_start(&target, ARGUMENTS("exitin"));
	run_open(&run, FUNCTIONS("last", "bye", "fin", "steps"), &options);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target)) /* nobody drains: 64 of 101 scopes fit */
		poll(NULL, 0, 1);
	run_finish(&run);
	run_check(&run);
	cr_expect_eq(run_account(&run, "last").unfinished, 1);
	cr_expect_eq(run_account(&run, "bye").unfinished, 1);
	cr_expect_gt(run_account(&run, "steps").ring_lost, 30);
	cr_expect_eq(run_account(&run, "fin").ring_lost, 1);
	cr_expect_eq(run.tally.lost, run_account(&run, "steps").ring_lost + 1);
	run_close(&run);
}

/*
 * A thread ends with a frame open and the ring full; the next one of its tid is on the same stack.
 * What the first left is told when the second comes, and each of the two has its own end.
 */
Test(pairing_kernel, next_thread_of_a_tid)
{
	struct probe_options options = {.ring_bytes = 4096};
	struct hooked_run run;
	struct target target;
	const struct hooked_scope *left;
	char line[16];

	target_start(&target, ARGUMENTS("sametid", "wait"));
	run_open(&run, FUNCTIONS("leave", "step"), &options);
	run_attach(&run, &target);
	target_go(&target);
	cr_assert_gt(read(target.output, line, sizeof(line)), 0, "the first thread has ended");
	cr_expect_eq(run_slots(&run, NULL, NULL), 1);
	run_drain(&run);
	cr_assert_eq(run_delivered(&run, "leave", 0, 0), 0);
	run_until_end(&run, &target);
	run_drain(&run);
	cr_expect_eq(run_slots(&run, NULL, NULL), 0, "the second thread's slot was listed");
	cr_expect_eq(run_threads(&run, THREAD_SEEN), 2);
	cr_expect_eq(run_threads(&run, THREAD_EXITED), 1, "there was no room for the first one's");
	cr_assert_geq(run.tally.scope_count, 2);
	left = &run.tally.scopes[run.tally.scope_count - 2];
	cr_expect_eq(left[0].tid, left[1].tid);
	cr_expect_leq(left[0].end_ns, run.tally.threads[1].start_ns,
		      "it ended before the next one began");
	cr_expect_geq(left[1].start_ns, run.tally.threads[1].start_ns);
	cr_expect_leq(left[1].end_ns, run.tally.threads[2].time_ns);
	run_finish(&run);
	run_check(&run);
	expect_truth(&run, &target, "leave");
	cr_expect_eq(run_account(&run, "leave").unfinished, 2);
	cr_expect_eq(run_account(&run, "leave").unwound, 0);
	run_close(&run);
}

/*
 * The same, and nobody drains: the first one's frame is given up, the second's ends when its thread
 * did.
 */
Test(pairing_kernel, next_thread_of_a_tid_with_a_full_ring)
{
	struct probe_options options = {.ring_bytes = 4096};
	struct hooked_run run;
	struct target target;
	uint64_t ended;

	target_start(&target, ARGUMENTS("sametid"));
	run_open(&run, FUNCTIONS("leave", "step"), &options);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target))
		poll(NULL, 0, 1);
	ended = io_now_ns();
	run_finish(&run);
	run_check(&run);
	expect_truth(&run, &target, "leave");
	cr_expect_eq(run_account(&run, "leave").unwound, 1);
	cr_expect_eq(run_account(&run, "leave").unfinished, 1);
	cr_assert_gt(run.tally.scope_count, 0);
	cr_expect_leq(run.tally.scopes[run.tally.scope_count - 1].end_ns, ended);
	run_close(&run);
}

Test(pairing_kernel, below_the_minimum)
{
	struct probe_options options = {.minimum_ns = 3600 * 1000000000ull};
	struct hooked_run run;
	struct target target;

	run_whole(&run, &target, ARGUMENTS("longjmp"), FUNCTIONS("top", "mid", "leaf"), &options);
	expect_truth(&run, &target, "top");
	cr_expect_eq(run_account(&run, "top").below_minimum, 1000);
	/* Of those that were left the length is not known. */
	cr_expect_eq(run.tally.scope_count, 1000);
	cr_expect_eq(run_account(&run, "mid").unwound + run_account(&run, "leaf").unwound, 1000);
	run_close(&run);
}

static void change_settings(const struct hooked_run *run, uint32_t generation, bool paused)
{
	int fd = probe_session_map(run->session, "settings");
	struct pairing_settings settings;
	uint32_t zero = 0;

	cr_assert_eq(bpf_map_lookup_elem(fd, &zero, &settings), 0);
	cr_assert_eq(settings.version, SCOPETRACE_BPF_VERSION);
	settings.generation = generation ? generation : settings.generation;
	settings.flags = paused ? SETTING_PAUSED : 0;
	cr_assert_eq(bpf_map_update_elem(fd, &zero, &settings, BPF_ANY), 0);
}

static void settings_case(struct hooked_run *run, struct target *target, uint32_t generation,
			  bool paused)
{
	target_start(target, ARGUMENTS("longjmp"));
	run_open(run, FUNCTIONS("top", "mid", "leaf"), NULL);
	run_attach(run, target);
	change_settings(run, generation, paused);
	run_until_end(run, target);
	run_finish(run);
	run_check(run);
	cr_expect_eq(run->tally.scope_count, 0);
}

Test(pairing_kernel, paused)
{
	struct hooked_run run;
	struct target target;

	settings_case(&run, &target, 0, 1);
	expect_truth(&run, &target, "mid");
	cr_expect_eq(run_account(&run, "mid").filtered, 1000);
	cr_expect_eq(run_account(&run, "mid").orphans, 500);
	run_close(&run);
}

Test(pairing_kernel, another_generation)
{
	struct hooked_run run;
	struct target target;

	settings_case(&run, &target, 77, 0);
	cr_expect_eq(run_account(&run, "mid").entries + run_account(&run, "mid").returns, 0);
	run_close(&run);
}

/*
 * Attached to and detached from in full flight, in a program whose abandoned frames wait for a
 * wrong return at every moment: the accounts close, and no scope crosses another.
 */
Test(pairing_kernel, detach_in_flight)
{
	struct target target;
	uint64_t seen = 0;

	target_start(&target, ARGUMENTS("longjmp", "0"));
	target_go(&target);
	for (int round = 0; round < 10; round++) {
		uint64_t deadline = io_now_ns() + 60 * 1000000000ull;
		struct hooked_run run;

		run_open(&run, FUNCTIONS("top", "mid", "leaf"), NULL);
		run_attach(&run, &target);
		while (run.tally.scope_count < 500 && io_now_ns() < deadline) {
			run_drain(&run);
			poll(NULL, 0, 1);
		}
		run_finish(&run);
		run_check(&run);
		cr_assert_geq(run.tally.scope_count, 500);
		seen += run.tally.scope_count;
		run_close(&run);
	}
	target_kill(&target);
	cr_expect(WIFSIGNALED(target.status) && WTERMSIG(target.status) == SIGKILL,
		  "it lived until it was killed");
}

/* What the output refuses stays in the ring, and comes again at the next drain. */
Test(pairing_kernel, output_that_fails)
{
	struct hooked_run run;
	struct target target;

	target_start(&target, ARGUMENTS("longjmp"));
	run_open(&run, FUNCTIONS("top", "mid", "leaf"), NULL);
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target))
		poll(NULL, 0, 1);
	run.tally.fail_after = 1; /* of two batches */
	cr_expect_eq(run.source->ops->drain(run.source, &run.tally.output), -EIO);
	cr_expect_lt(run.tally.scope_count, 3000);
	cr_expect_gt(bpf_source_backlog(run.source), 0);
	run.tally.fail_after = -1;
	run_drain(&run);
	run_finish(&run);
	run_check(&run);
	cr_expect_eq(run.tally.scope_count, 3000, "%zu", run.tally.scope_count);
	run_close(&run);
}

static void start_in_own_namespace(struct target *target)
{
	cr_assert_eq(unshare(CLONE_NEWPID), 0);
	target_fork(target, ARGUMENTS("longjmp", "0"));
}

/* The ids in the records are the initial namespace's; the thread's own stands in its slots. */
Test(pairing_kernel, target_in_its_own_pid_namespace)
{
	struct hooked_run run;
	struct target target;
	struct open_key key;
	struct open_slot slot;
	uint64_t deadline = io_now_ns() + 60 * 1000000000ull;

	start_in_own_namespace(&target);
	run_open(&run, FUNCTIONS("top", "mid", "leaf"), NULL);
	run_attach(&run, &target);
	target_go(&target);
	while (run.tally.scope_count < 100 && io_now_ns() < deadline) {
		run_drain(&run);
		poll(NULL, 0, 1);
	}
	run_finish(&run);
	run_check(&run);
	cr_assert_geq(run.tally.scope_count, 100);
	cr_expect_eq(run.tally.scopes[0].pid, (uint32_t)target.pid);
	cr_expect_eq(run.tally.scopes[0].tid, (uint32_t)target.pid);
	cr_assert_gt(run_slots(&run, &key, &slot), 0);
	cr_expect_eq(key.tid, (uint32_t)target.pid);
	cr_expect_eq(slot.tgid, (uint32_t)target.pid);
	cr_expect_eq(slot.namespace_tid, 1);
	target_kill(&target);
	run_close(&run);
}
