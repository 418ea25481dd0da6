// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes that start, fork, exec and end under the eyes of a reader. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper.h"

static struct log open_log(pid_t pid)
{
	struct log log = {.reader = scope_reader_open(pid)};

	cr_assert_not_null(log.reader, "%s", strerror(errno));
	return log;
}

static bool reader_gone(void *reader)
{
	return scope_reader_gone(reader);
}

/* ---- start ---- */

Test(life, capture_by_the_environment_catches_the_first_scope)
{
	struct child child;
	struct log log;

	setenv("SCOPE_CAPTURE", "1", 1);
	child = start_role("first scope");
	wait_step(child.from);
	log = open_log(child.pid);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(log.records[0].record.kind, SCOPE_KIND_THREAD_START);
	cr_assert(name_is(&log.records[1].record, "first"));
	cr_assert_eq(log.records[2].record.kind, SCOPE_KIND_STOP);
	cr_assert_eq(log.records[2].record.scope_id, log.records[1].record.scope_id);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(life, without_it_nothing_is_recorded)
{
	struct child child = start_role("first scope");
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	drain_and_check(&log);
	cr_assert_eq(log.count, 0);
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 0);
	finish(&log);
	step(child.to);
	end_child(&child, 0);
}

static void check_environment(const char *rings, const char *slots, uint32_t expected_rings,
			      uint32_t expected_slots)
{
	char environ_path[64], command[256];
	struct scope_header header;
	struct child child;
	FILE *maps;

	setenv("SCOPE_RINGS", rings, 1);
	setenv("SCOPE_SLOTS", slots, 1);
	child = start_role("first scope");
	wait_step(child.from);
	/* Through its own memory, not through our reader: the first page of the mapping. */
	snprintf(environ_path, sizeof(environ_path), "/proc/%d/maps", (int)child.pid);
	maps = fopen(environ_path, "r");
	memset(&header, 0, sizeof(header));
	while (fgets(command, sizeof(command), maps)) {
		unsigned long start;

		if (strstr(command, "memfd:libscope") && sscanf(command, "%lx", &start) == 1) {
			int memory;

			snprintf(environ_path, sizeof(environ_path), "/proc/%d/mem", (int)child.pid);
			memory = open(environ_path, O_RDONLY);
			cr_assert_eq(pread(memory, &header, sizeof(header), (off_t)start),
				     (ssize_t)sizeof(header));
			close(memory);
		}
	}
	fclose(maps);
	cr_assert_eq(header.ring_count, expected_rings, "%s rings: %u", rings, header.ring_count);
	cr_assert_eq(header.slots_per_ring, expected_slots, "%s slots: %u", slots, header.slots_per_ring);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
}

Test(life, environment_sets_the_sizes_and_the_budget_stays)
{
	check_environment("", "", 16, 8192);
	check_environment("1", "", 1, 131072);
	check_environment("3", "", 3, 32768);
	check_environment("128", "", 128, 1024);
	check_environment("5", "32", 5, 32);
	check_environment("0", "100", 16, 8192);
	check_environment("129", "4", 16, 8192);
	check_environment("4x", "-8", 16, 8192);
	check_environment("99999999999999999999", "8388608", 16, 8192);
}

Test(life, environment_chooses_the_clock)
{
	struct child child;
	struct log log;
	uint64_t before, after;

	setenv("SCOPE_CLOCK", "monotonic", 1);
	setenv("SCOPE_CAPTURE", "1", 1);
	child = start_role("first scope");
	wait_step(child.from);
	log = open_log(child.pid);
	cr_assert_eq(scope_reader_clock(log.reader), SCOPE_CLOCK_MONOTONIC);
	after = scope_reader_ticks(log.reader);
	before = after - 60000000000ull;
	drain_and_check(&log);
	for (size_t i = 0; i < log.count; i++)
		cr_assert(log.records[i].record.ticks > before && log.records[i].record.ticks < after);
	finish(&log);
	step(child.to);
	end_child(&child, 0);
}

static int limited_resource;
static rlim_t limited_to;

static void become_limited(int from_parent, int to_parent)
{
	struct rlimit limit = {limited_to, limited_to};

	if (setrlimit(limited_resource, &limit) != 0)
		_exit(104);
	become_role("unmeasured", from_parent, to_parent);
}

static void check_unmeasured(int resource, rlim_t limit)
{
	struct child child;
	int status;

	limited_resource = resource;
	limited_to = limit;
	child = start_child(become_limited);
	wait_step(child.from);
	errno = 0;
	cr_assert_null(scope_reader_open(child.pid));
	status = end_child(&child, 0);
	cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

Test(life, without_memory_for_the_segment_the_program_goes_on)
{
	check_unmeasured(RLIMIT_FSIZE, 1 << 20); /* would be SIGXFSZ */
#ifndef __SANITIZE_ADDRESS__			 /* which itself needs more than that */
	setenv("SCOPE_RINGS", "128", 1);
	setenv("SCOPE_SLOTS", "4194304", 1);
	check_unmeasured(RLIMIT_AS, 1ul << 32);
#endif
}

Test(life, options_are_checked_and_come_too_late_after_the_first_record)
{
	struct scope_options options = {.size = sizeof(options)};
	struct log log;

	errno = 77;
	cr_assert_eq(scope_init(NULL), -EINVAL);
	options.rings = 129;
	cr_assert_eq(scope_init(&options), -EINVAL);
	options.rings = 4;
	options.slots_per_ring = 100;
	cr_assert_eq(scope_init(&options), -EINVAL);
	options.slots_per_ring = 0;
	options.size = 8;
	cr_assert_eq(scope_init(&options), -EINVAL);
	options.size = sizeof(options);
	options.clock = 9;
	cr_assert_eq(scope_init(&options), -EINVAL);
	options.clock = SCOPE_CLOCK_SYSTEM;
	cr_assert_eq(scope_init(&options), 0);
	cr_assert_eq(errno, 77);
	cr_assert_eq(own_header()->ring_count, 4);
	cr_assert_eq(own_header()->slots_per_ring, 32768);
	cr_assert_eq(own_header()->clock, SCOPE_CLOCK_MONOTONIC);
	log = open_log(getpid());
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	cr_assert_eq(scope_init(&options), -EBUSY, "somebody records");
	SCOPE_INSTANT("one");
	scope_reader_capture(log.reader, 0);
	cr_assert_eq(scope_init(&options), -EBUSY, "records were written");
	drain_and_check(&log);
	cr_assert_eq(log.count, 2);
	finish(&log);
}

/* ---- fork ---- */

static scope_token parents_scope;

static void forked_child(int from_parent, int to_parent)
{
	{
		SCOPE("makes the segment");
	}
	step(to_parent);
	wait_step(from_parent);
	{
		SCOPE("of the child");
		SCOPE_END(parents_scope);
	}
	step(to_parent);
	wait_step(from_parent);
}

static pid_t fork_by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
}

static void check_fork(fork_function how, struct log *parent)
{
	struct child child;
	struct log log;

	SCOPE_BEGIN(parents_scope, "of the parent");
	cr_assert_neq(parents_scope, 0);
	child = start_child_by(how, forked_child);
	wait_step(child.from);
	log = open_log(child.pid);
	cr_assert_eq(scope_reader_pid(log.reader), child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(log.records[0].record.kind, SCOPE_KIND_THREAD_START);
	cr_assert(name_is(&log.records[1].record, "of the child"));
	cr_assert_eq(log.records[2].record.scope_id, log.records[1].record.scope_id, "not the parent's");
	for (size_t i = 0; i < log.count; i++)
		cr_assert_eq(log.records[i].record.tid, (uint32_t)child.pid);
	finish(&log);
	step(child.to);
	cr_assert_eq(end_child(&child, 0), 0);
	SCOPE_END(parents_scope);
	parent->count = 0;
	drain_and_check(parent);
	for (size_t i = 0; i < parent->count; i++)
		cr_assert_eq(parent->records[i].record.tid, (uint32_t)getpid(),
			     "the child wrote to its parent");
	cr_assert_eq(parent->records[parent->count - 1].record.kind, SCOPE_KIND_STOP);
	cr_assert_eq(parent->records[parent->count - 2].record.scope_id,
		     parent->records[parent->count - 1].record.scope_id);
}

Test(life, a_forked_child_has_a_segment_of_its_own)
{
	struct log log;

	start_capture(&log, 2, 64);
	check_fork(fork, &log);
	check_fork(_Fork, &log);
	check_fork(fork_by_clone, &log);
	finish(&log);
}

Test(life, so_has_the_child_of_a_process_that_nobody_records)
{
	struct child child = start_child(forked_child);
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	finish(&log);
	step(child.to);
	end_child(&child, 0);
}

/* ---- who cannot be read ---- */

static void child_without_scopes(int from_parent, int to_parent)
{
	step(to_parent);
	wait_step(from_parent);
}

Test(life, no_segment_and_no_process_are_told_apart)
{
	struct child child = start_child(child_without_scopes);
	pid_t pid = child.pid;

	wait_step(child.from);
	cr_assert_null(scope_reader_open(pid));
	cr_assert_eq(errno, ENOENT, "%s", strerror(errno));
	kill(pid, SIGKILL);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	cr_assert_null(scope_reader_open(pid));
	cr_assert_eq(errno, ESRCH, "of a zombie: %s", strerror(errno));
	end_child(&child, 0);
	cr_assert_null(scope_reader_open(pid));
	cr_assert_eq(errno, ESRCH);
}

Test(life, one_reader_at_a_time)
{
	struct scope_reader *first = scope_reader_open(getpid());

	cr_assert_not_null(first);
	cr_assert_null(scope_reader_open(getpid()));
	cr_assert_eq(errno, EBUSY);
	scope_reader_close(first);
	first = scope_reader_open(getpid());
	cr_assert_not_null(first);
	scope_reader_close(first);
	scope_reader_close(NULL);
}

/* ---- descriptors and namespaces ---- */

static void child_of_no_descriptors(int from_parent, int to_parent)
{
	{
		SCOPE("makes the segment");
	}
	for (int descriptor = 0; descriptor < 1024; descriptor++)
		if (descriptor != from_parent && descriptor != to_parent)
			close(descriptor);
	step(to_parent);
	wait_step(from_parent);
	{
		SCOPE("seen all the same");
	}
	step(to_parent);
	wait_step(from_parent);
}

static void check_child_is_readable(struct child *child, pid_t inner_pid)
{
	struct log log = {0};

	wait_step(child->from);
	log = open_log(child->pid);
	cr_assert_eq(scope_reader_pid(log.reader), inner_pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child->to);
	wait_step(child->from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(log.records[0].record.tid, (uint32_t)inner_pid);
	cr_assert_not(scope_reader_gone(log.reader));
	finish(&log);
	step(child->to);
	cr_assert_eq(end_child(child, 0), 0);
}

Test(life, a_program_that_closes_every_descriptor_is_found)
{
	struct child child;

	if (geteuid() != 0)
		cr_skip("map_files needs CAP_SYS_ADMIN");
	child = start_child(child_of_no_descriptors);
	check_child_is_readable(&child, child.pid);
}

static pid_t fork_into_pid_namespace(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD | CLONE_NEWPID, 0, 0, 0, 0);
}

Test(life, a_program_in_another_pid_namespace_is_found)
{
	struct child child;

	if (geteuid() != 0)
		cr_skip("pid namespaces need root");
	child = start_child_by(fork_into_pid_namespace, forked_child);
	check_child_is_readable(&child, 1);
}

/* Enters a namespace whose monotonic clock is 5000 s ahead. */
static bool enter_another_time(void)
{
	static const char offset[] = "monotonic 5000 123";
	int file;

	if (unshare(CLONE_NEWTIME) != 0)
		return false;
	file = open("/proc/self/timens_offsets", O_WRONLY);
	if (write(file, offset, strlen(offset)) != (ssize_t)strlen(offset))
		return false;
	close(file);
	file = open("/proc/self/ns/time_for_children", O_RDONLY);
	if (setns(file, CLONE_NEWTIME) != 0)
		return false;
	close(file);
	return true;
}

static void child_of_another_time(int from_parent, int to_parent)
{
	struct scope_options options = {.size = sizeof(options), .clock = SCOPE_CLOCK_SYSTEM};
	char entered = enter_another_time();

	if (write(to_parent, &entered, 1) != 1 || !entered || scope_init(&options) != 0)
		_exit(1);
	forked_child(from_parent, to_parent);
}

Test(life, times_of_another_time_namespace_are_told_in_ours)
{
	struct child child = start_child(child_of_another_time);
	struct log log;
	char entered;
	uint64_t before;

	cr_assert_eq(read(child.from, &entered, 1), 1);
	if (!entered) {
		end_child(&child, 0);
		cr_skip("time namespaces need root and a kernel that has them");
	}
	wait_step(child.from);
	log = open_log(child.pid);
	cr_assert_eq(scope_reader_clock(log.reader), SCOPE_CLOCK_MONOTONIC);
	before = scope_reader_ticks(log.reader);
	scope_reader_capture(log.reader, 60000000000ull);
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	for (size_t i = 0; i < log.count; i++)
		cr_assert(log.records[i].record.ticks >= before &&
			  log.records[i].record.ticks <= scope_reader_ticks(log.reader));
	finish(&log);
	step(child.to);
	end_child(&child, 0);
}

/* ---- end ---- */

Test(life, a_killed_process_is_gone_and_its_records_are_not)
{
	struct child child = start_child(forked_child);
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	cr_assert_not(scope_reader_gone(log.reader));
	step(child.to);
	wait_step(child.from);
	end_child(&child, SIGKILL);
	cr_assert(scope_reader_gone(log.reader));
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	cr_assert_eq(scope_reader_counts(log.reader).backlog, 0);
	finish(&log);
}

static void child_that_execs(int from_parent, int to_parent)
{
	forked_child(from_parent, to_parent);
	become_role("first scope", from_parent, to_parent);
}

Test(life, exec_ends_a_segment_and_begins_another)
{
	struct child child = start_child(child_that_execs);
	struct log log;

	wait_step(child.from);
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	step(child.to);
	wait_step(child.from);
	cr_assert_not(scope_reader_gone(log.reader));
	step(child.to);
	wait_step(child.from);
	cr_assert(wait_until(reader_gone, log.reader));
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	finish(&log);
	log = open_log(child.pid);
	cr_assert_eq(scope_reader_counts(log.reader).cursor, 0);
	finish(&log);
	step(child.to);
	end_child(&child, 0);
}

struct thread_pipes {
	int from;
	int to;
};

static void *outlive_the_leader(void *argument)
{
	struct thread_pipes *pipes = argument;

	forked_child(pipes->from, pipes->to);
	exit(0);
}

static void child_whose_leader_ends(int from_parent, int to_parent)
{
	static struct thread_pipes pipes;
	pthread_t thread;

	pipes = (struct thread_pipes){from_parent, to_parent};
	if (pthread_create(&thread, NULL, outlive_the_leader, &pipes) != 0)
		_exit(1);
	/* Ends this thread alone, without the unwinding of Criterion's frames that pthread_exit would do. */
	syscall(SYS_exit, 0);
}

static bool leader_is_zombie(void *pid)
{
	char path[64], text[256];
	FILE *file;
	size_t got;

	snprintf(path, sizeof(path), "/proc/%d/stat", *(pid_t *)pid);
	file = fopen(path, "r");
	got = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[got] = '\0';
	return strstr(text, ") Z ") != NULL;
}

Test(life, a_dead_leader_with_live_threads_is_not_gone)
{
	struct child child = start_child(child_whose_leader_ends);
	struct log log;

	wait_step(child.from);
	cr_assert(wait_until(leader_is_zombie, &child.pid));
	log = open_log(child.pid);
	scope_reader_capture(log.reader, LONG_CAPTURE_NS);
	cr_assert_not(scope_reader_gone(log.reader));
	step(child.to);
	wait_step(child.from);
	drain_and_check(&log);
	cr_assert_eq(log.count, 3);
	step(child.to);
	end_child(&child, 0);
	cr_assert(scope_reader_gone(log.reader));
	finish(&log);
}

static void reader_that_dies(int from_parent, int to_parent)
{
	struct scope_reader *reader = scope_reader_open(getppid());

	if (!reader)
		_exit(1);
	scope_reader_capture(reader, 20000000);
	step(to_parent);
	wait_step(from_parent);
}

static bool capture_is_off(void *context)
{
	(void)context;
	SCOPE_INSTANT("tick");
	return !scope_enabled();
}

Test(life, the_writers_turn_off_the_capture_of_a_dead_reader)
{
	struct child child = start_child(reader_that_dies);
	struct log log;

	wait_step(child.from);
	cr_assert(scope_enabled());
	SCOPE_INSTANT("recorded");
	end_child(&child, SIGKILL);
	cr_assert(wait_until(capture_is_off, NULL));
	cr_assert_eq(own_control()->capture_until, 0);
	log = open_log(getpid());
	cr_assert_not(scope_enabled(), "opening alone does not turn it on");
	drain_and_check(&log);
	cr_assert(log.count >= 2);
	cr_assert(name_is(&log.records[1].record, "recorded"));
	finish(&log);
}
