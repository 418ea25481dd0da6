// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What becomes of traced processes, in the real kernel: programs that are hooked again after an
 * exec, and children that are freed of the breakpoints they inherited. Each program checks and
 * tells the truth itself.
 */
#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "bpf/scope_event.h"
#include "hooked_run.h"

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FUNCTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define DEADLINE_NS    (60 * 1000000000ull)

TestSuite(lifecycle_kernel, .init = need_root, .timeout = 300);

struct told {
	struct probe_session *session;
	size_t forks;
	size_t execs;
	uint32_t exec_pid, former; /* of the last one */
	char comm[32];
	uint64_t time_ns;
};

static void on_fork(void *context, uint32_t child, uint32_t parent, uint64_t time_ns)
{
	struct told *told = context;

	cr_assert_neq(child, parent);
	cr_assert_gt(time_ns, 0);
	told->forks++;
	probe_session_forked(told->session);
}

static void on_exec(void *context, uint32_t pid, uint32_t former, const char *comm,
		    uint64_t time_ns)
{
	struct told *told = context;

	told->execs++;
	told->exec_pid = pid;
	told->former = former;
	told->time_ns = time_ns;
	snprintf(told->comm, sizeof(told->comm), "%s", comm);
}

static void start(struct hooked_run *run, struct target *target, struct told *told,
		  const char *const *arguments)
{
	memset(told, 0, sizeof(*told));
	target_start(target, arguments);
	run_open(run, FUNCTIONS("work"), NULL);
	told->session = run->session;
	bpf_source_tell_lifecycle(run->source,
				  &(struct bpf_source_lifecycle){on_fork, on_exec, told});
	run_attach(run, target);
}

/* Finishes and judges: exactly what the program says. */
static void expect_truth(struct hooked_run *run, struct target *target)
{
	uint64_t entries, returns;

	cr_assert(WIFEXITED(target->status) && WEXITSTATUS(target->status) == 0, "status %#x: %s",
		  target->status, target->text);
	run_finish(run);
	run_check(run);
	cr_assert(target_truth(target, "work", &entries, &returns), "%s", target->text);
	cr_expect_eq(run_account(run, "work").entries, entries);
	cr_expect_eq(run_account(run, "work").completed, returns);
	cr_expect_eq(run_account(run, "work").orphans, 0);
	for (size_t i = 0; i < run->tally.scope_count; i++)
		cr_expect_eq(run->tally.scopes[i].tid, (uint32_t)target->pid);
}

/* ---- exec ---- */

/* The program waits behind its exec, so that nothing of it is missed. */
static void exec_case(const char *program, const char *thread)
{
	uint64_t deadline = io_now_ns() + DEADLINE_NS;
	struct hooked_run run;
	struct target target;
	struct told told;

	start(&run, &target, &told, ARGUMENTS(program, thread));
	target_go(&target);
	while (!told.execs) {
		cr_assert_lt(io_now_ns(), deadline, "no exec is told");
		run_drain(&run);
		poll(NULL, 0, 1);
	}
	cr_expect_eq(told.exec_pid, (uint32_t)target.pid);
	cr_expect_eq(told.former == told.exec_pid, strcmp(thread, "main") == 0);
	cr_expect_str_eq(told.comm, "exe", "what was exec'ed is /proc/self/exe");
	cr_expect(probe_session_has_program_of(run.session, target.pid));
	if (told.former != told.exec_pid)
		cr_assert_eq(probe_session_reattach(run.session, target.pid), 0);
	run_until_end(&run, &target);
	expect_truth(&run, &target);
	cr_expect_eq(run_account(&run, "work").entries, 20);
	cr_expect_eq(told.execs, 1);
	run_close(&run);
}

Test(lifecycle_kernel, exec_by_another_thread)
{
	exec_case("execwait", "thread");
	exec_case("execwait.nop5", "thread");
}

Test(lifecycle_kernel, exec_by_the_first_thread)
{
	exec_case("execwait", "main");
	exec_case("execwait.nop5", "main");
}

/* A program that has ended, or a session that is over, is no failure. */
Test(lifecycle_kernel, too_late_to_hook_again)
{
	struct hooked_run run;
	struct target target;
	struct told told;

	start(&run, &target, &told, ARGUMENTS("execwait", "main"));
	target_kill(&target);
	cr_expect_eq(probe_session_reattach(run.session, target.pid), 0);
	cr_expect_not(probe_session_has_program_of(run.session, target.pid));
	run_finish(&run);
	cr_expect_eq(probe_session_reattach(run.session, target.pid), 0);
	probe_session_forked(run.session);
	run_close(&run);
}

/* ---- fork ---- */

static size_t heirs(const struct hooked_run *run)
{
	int map = probe_session_map(run->session, "heirs");
	uint32_t key, *previous = NULL;
	size_t count = 0;

	for (; !bpf_map_get_next_key(map, previous, &key); previous = &key)
		count++;
	return count;
}

/*
 * A copy of the program: tests run side by side, and a link that one of them closes frees the
 * children of all that run the same file.
 */
static void copy_target(const char *name, char *path, size_t size)
{
	const char *directory = getenv("SCOPETRACE_TARGETS");
	char command[1024];

	snprintf(path, size, "%s/%s.%d", directory ? directory : "build/targets", name, getpid());
	snprintf(command, sizeof(command), "cp '%.*s' '%s'", (int)(strrchr(path, '.') - path), path,
		 path);
	cr_assert_eq(system(command), 0);
}

/*
 * The children end when their code is as it was before it was hooked, and fail if that never
 * happens.
 */
static void heirs_case(const char *how, const char *number, size_t forks)
{
	struct hooked_run run;
	struct target target;
	uint64_t deadline;
	struct told told;
	char path[512];

	copy_target("heirs", path, sizeof(path));
	start(&run, &target, &told, (const char *const[]){path, how, number, NULL});
	run_until_end(&run, &target);
	/* It is counted when it is over, and the children are free before. */
	deadline = io_now_ns() + DEADLINE_NS;
	while (!probe_session_stripped(run.session) && io_now_ns() < deadline)
		poll(NULL, 0, 1);
	cr_expect_gt(probe_session_stripped(run.session), 0);
	cr_expect_eq(heirs(&run), 0);
	expect_truth(&run, &target);
	cr_expect_eq(told.forks, forks);
	run_close(&run);
	unlink(path);
}

Test(lifecycle_kernel, children_are_freed)
{
	heirs_case("child", NULL, 3);
}

Test(lifecycle_kernel, children_of_children_are_freed)
{
	heirs_case("grandchild", NULL, 3);
}

/* The end of its first thread is not that of a process. */
Test(lifecycle_kernel, children_without_their_first_thread_are_freed)
{
	heirs_case("thread", NULL, 1);
}

Test(lifecycle_kernel, among_many_that_end_at_once)
{
	heirs_case("storm", "500", 503);
}

/* Who runs in its parent's memory, or another program, has nothing that could be taken away. */
Test(lifecycle_kernel, vfork_and_exec_make_no_heirs)
{
	struct hooked_run run;
	struct target target;
	struct told told;
	size_t most = 0;

	memset(&told, 0, sizeof(told));
	target_start(&target, ARGUMENTS("vforkin"));
	run_open(&run, FUNCTIONS("vforker", "step"), NULL);
	told.session = run.session;
	bpf_source_tell_lifecycle(run.source,
				  &(struct bpf_source_lifecycle){on_fork, on_exec, &told});
	run_attach(&run, &target);
	target_go(&target);
	while (!target_ended(&target)) {
		size_t now = heirs(&run);

		most = now > most ? now : most;
		run_drain(&run);
	}
	run_finish(&run);
	run_check(&run);
	cr_expect_eq(most, 0);
	cr_expect_eq(told.forks, 20);
	cr_expect_eq(probe_session_stripped(run.session), 0);
	run_close(&run);
}
