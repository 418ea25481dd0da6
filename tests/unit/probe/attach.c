// SPDX-License-Identifier: GPL-2.0-or-later
/* Making and unmaking links: what is refused and how, and that nothing is left. Needs root. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "bpf/scope_event.h"
#include "probe/attach.h"

#define SELF	 "/proc/self/exe"
#define MAX_IDS	 32
#define DEADLINE (20 * 1000000000ull)

/*
 * Two functions of this very program, and one whose first instruction the kernel refuses to probe.
 */
void plain_one(void);
void plain_two(void);
void refused(void);

__attribute__((noinline)) void plain_one(void)
{
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void plain_two(void)
{
	__asm__ volatile("nop" ::: "memory");
}

#if defined(__x86_64__)
__asm__(".text\n"
	".globl refused\n"
	".type refused, @function\n"
	"refused:\n"
	"	lock addl $0, (%rsp)\n"
	"	ret\n"
	".size refused, . - refused\n");
#endif

static void need_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("hooking functions needs root");
}

TestSuite(attach, .init = need_root, .timeout = 120);

/* Offset in the file of something at this address in our own first object. */
static int find_segment(struct dl_phdr_info *info, size_t size, void *context)
{
	uint64_t *offset = context, address = *offset - info->dlpi_addr;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
		    address < segment->p_vaddr + segment->p_memsz) {
			*offset = address - segment->p_vaddr + segment->p_offset;
			return 1;
		}
	}
	return -1; /* the first object is the program itself: there is no other to look in */
}

static struct probe_function of_self(const char *display, void (*function)(void))
{
	struct probe_function probe = {
		.binary = SELF, .display = display, .offset = (uintptr_t)function};

	cr_assert_eq(dl_iterate_phdr(find_segment, &probe.offset), 1);
	return probe;
}

static struct probe_session *open_session(size_t functions)
{
	struct probe_options options = {0};
	struct probe_session *session = probe_session_open(&options, functions);

	cr_assert_not_null(session);
	return session;
}

/* ---- what is left ---- */

struct ids {
	uint32_t map;
	uint32_t programs[MAX_IDS];
	size_t program_count;
	uint32_t links[MAX_IDS];
	size_t link_count;
};

static bool uses_map(int program, uint32_t map)
{
	uint32_t maps[MAX_IDS] = {0}, length = sizeof(struct bpf_prog_info);
	struct bpf_prog_info info = {.nr_map_ids = MAX_IDS, .map_ids = (uintptr_t)maps};

	if (bpf_obj_get_info_by_fd(program, &info, &length))
		return false;
	for (uint32_t i = 0; i < info.nr_map_ids && i < MAX_IDS; i++)
		if (maps[i] == map)
			return true;
	return false;
}

/*
 * The programs that use the session's ring, and the links of those: other people's come and go
 * meanwhile.
 */
static void collect_ids(const struct probe_session *session, struct ids *ids)
{
	struct bpf_map_info map = {0};
	uint32_t length = sizeof(map), id = 0;

	memset(ids, 0, sizeof(*ids));
	cr_assert_eq(
		bpf_obj_get_info_by_fd(probe_session_map(session, "open_scopes"), &map, &length),
		0);
	ids->map = map.id;
	while (!bpf_prog_get_next_id(id, &id) && ids->program_count < MAX_IDS) {
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd >= 0 && uses_map(fd, ids->map))
			ids->programs[ids->program_count++] = id;
		close(fd);
	}
	id = 0;
	while (!bpf_link_get_next_id(id, &id) && ids->link_count < MAX_IDS) {
		int fd = bpf_link_get_fd_by_id(id);
		struct bpf_link_info info = {0};

		length = sizeof(info);
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &length))
			for (size_t i = 0; i < ids->program_count; i++)
				if (ids->programs[i] == info.prog_id)
					ids->links[ids->link_count++] = id;
		close(fd);
	}
}

static bool exists(int fd)
{
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static size_t count_left(const struct ids *ids)
{
	size_t left = exists(bpf_map_get_fd_by_id(ids->map));

	for (size_t i = 0; i < ids->program_count; i++)
		left += exists(bpf_prog_get_fd_by_id(ids->programs[i]));
	for (size_t i = 0; i < ids->link_count; i++)
		left += exists(bpf_link_get_fd_by_id(ids->links[i]));
	return left;
}

Test(attach, nothing_is_left_after_close)
{
	struct probe_function functions[] = {of_self("plain_one", plain_one),
					     of_self("plain_two", plain_two)};
	struct probe_session *session = open_session(2);
	uint64_t deadline = io_now_ns() + DEADLINE;
	struct ids ids;

	cr_assert_eq(probe_session_attach(session, getpid(), functions, 2), 0);
	plain_one();
	collect_ids(session, &ids);
	cr_expect_geq(ids.program_count, 4, "%zu programs use the map", ids.program_count);
	cr_expect_geq(ids.link_count, 4, "%zu links are seen", ids.link_count);
	cr_expect_eq(count_left(&ids), 1 + ids.program_count + ids.link_count);
	probe_session_close(session);
	/* The kernel frees programs behind a grace period. */
	while (count_left(&ids) && io_now_ns() < deadline)
		poll(NULL, 0, 5);
	cr_expect_eq(count_left(&ids), 0);
}

/* ---- hits and accounts ---- */

static struct function_counters counters_of(const struct probe_session *session, uint32_t function)
{
	int cpus = libbpf_num_possible_cpus();
	struct function_counters *each = calloc((size_t)cpus, sizeof(*each)), sum = {0};

	cr_assert_eq(bpf_map_lookup_elem(probe_session_map(session, "counters"), &function, each),
		     0);
	for (int i = 0; i < cpus; i++) {
		sum.entries += each[i].entries;
		sum.returns += each[i].returns;
	}
	free(each);
	return sum;
}

Test(attach, hits_stop_at_detach)
{
	struct probe_function functions[] = {of_self("plain_one", plain_one),
					     of_self("plain_two", plain_two)};
	struct probe_session *session = open_session(2);

	cr_assert_eq(probe_session_attach(session, getpid(), functions, 2), 0);
	plain_one();
	plain_two();
	plain_two();
	cr_expect_eq(counters_of(session, 0).entries, 1);
	cr_expect_eq(counters_of(session, 1).entries, 2);
	cr_expect_eq(counters_of(session, 1).returns, 2);
	probe_session_detach(session);
	probe_session_detach(session);
	plain_one();
	cr_expect_eq(counters_of(session, 0).entries, 1);
	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, getpid(), functions, 2), -EINVAL,
		     "not after detach");
	probe_session_close(session);
}

Test(attach, a_function_that_is_not_in_this_process)
{
	struct probe_function functions[] = {{.display = "elsewhere"},
					     of_self("plain_two", plain_two)};
	struct probe_session *session = open_session(2);

	cr_assert_eq(probe_session_attach(session, getpid(), functions, 2), 0);
	plain_two();
	cr_expect_eq(counters_of(session, 0).entries, 0);
	cr_expect_eq(counters_of(session, 1).entries, 1);
	probe_session_close(session);
}

/* ---- refusals ---- */

static void expect_said(const char *words)
{
	char text[2048];
	size_t length;

	fflush(stderr);
	length = fread(text, 1, sizeof(text) - 1, cr_get_redirected_stderr());
	text[length] = '\0';
	cr_expect_not_null(strstr(text, words), "it says: %s", text);
}

#if defined(__x86_64__)
Test(attach, a_refused_site_is_named_and_left_out)
{
	struct probe_function functions[] = {of_self("plain_one", plain_one),
					     of_self("refused", refused),
					     of_self("plain_two", plain_two)};
	struct probe_session *session = open_session(3);

	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, getpid(), functions, 3), 0);
	cr_expect_eq(probe_session_armed(session), 2);
	expect_said("refuses a probe on refused (");
	probe_session_close(session);
}

Test(attach, none_but_a_refused_site)
{
	struct probe_function function = of_self("refused", refused);
	struct probe_session *session = open_session(1);
	struct ids ids;

	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, getpid(), &function, 1), -EINVAL);
	expect_said("none of the functions");
	collect_ids(session, &ids);
	cr_expect_eq(ids.link_count, 0, "everything is detached");
	probe_session_close(session);
}
#endif

Test(attach, two_names_of_one_function)
{
	struct probe_function functions[] = {of_self("plain_one", plain_one),
					     of_self("its_alias", plain_one)};
	struct probe_session *session = open_session(2);

	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, getpid(), functions, 2), -EINVAL);
	expect_said("are one function");
	probe_session_close(session);
}

Test(attach, no_such_process)
{
	struct probe_function function = of_self("plain_one", plain_one);
	struct probe_session *session = open_session(1);

	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, 0x3fffffff, &function, 1), -ESRCH);
	expect_said("has ended");
	probe_session_close(session);
}

/* It ended while it was looked at: its files are then gone first. */
Test(attach, a_process_that_has_ended)
{
	struct probe_function function = of_self("plain_one", plain_one);
	struct probe_session *session = open_session(1);
	pid_t child = fork();
	char path[32];

	if (!child)
		_exit(0);
	cr_assert_eq(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	snprintf(path, sizeof(path), "/proc/%d/exe", child);
	function.binary = path;
	cr_redirect_stderr();
	cr_expect_lt(probe_session_attach(session, child, &function, 1), 0);
	expect_said("the process has ended");
	probe_session_close(session);
	waitpid(child, NULL, 0);
}

Test(attach, no_such_file)
{
	struct probe_function function = of_self("plain_one", plain_one);
	struct probe_session *session = open_session(1);

	function.binary = "/nonexistent/program";
	cr_redirect_stderr();
	cr_expect_eq(probe_session_attach(session, getpid(), &function, 1), -ENOENT);
	expect_said("/nonexistent/program");
	probe_session_close(session);
}

Test(attach, options_that_cannot_be)
{
	struct probe_options odd = {.ring_bytes = 5000}, fine = {0};

	cr_redirect_stderr();
	errno = 0;
	cr_expect_null(probe_session_open(&odd, 1));
	cr_expect_eq(errno, EINVAL);
	cr_expect_null(probe_session_open(&fine, MAX_FUNCTIONS + 1));
	cr_expect_eq(errno, E2BIG);
	probe_session_close(NULL);
}

/* Without privileges the loading fails, and libbpf knows where: its own words are shown. */
Test(attach, what_libbpf_says_is_shown)
{
	struct probe_options options = {0};

	cr_redirect_stderr();
	cr_assert_eq(setresuid(65534, 65534, 65534), 0);
	errno = 0;
	cr_expect_null(probe_session_open(&options, 1));
	cr_expect_eq(errno, EPERM);
	expect_said("libbpf says:");
}
