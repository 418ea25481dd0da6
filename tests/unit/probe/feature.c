// SPDX-License-Identifier: GPL-2.0-or-later
/* What is refused, and that the refusal names its cure. The real kernel and real privileges; the tests need
 * root. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/feature.h"

#define NOBODY 65534

static void need_root(void)
{
	if (geteuid() != 0)
		cr_skip_test("changing privileges needs root");
}

TestSuite(feature, .init = need_root);

/*
 * Runs the check in a child that `prepare` made poorer; returns its -errno, what it said in text.
 */
static int check_as(int (*prepare)(void), char *text, size_t size)
{
	size_t length = 0;
	ssize_t got;
	int said[2], status;
	pid_t child;

	cr_assert_eq(pipe2(said, O_CLOEXEC), 0);
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		dup2(said[1], STDERR_FILENO);
		_exit(prepare() ? 255 : -feature_require_hooking());
	}
	close(said[1]);
	while ((got = read(said[0], text + length, size - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	close(said[0]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	cr_assert_neq(WEXITSTATUS(status), 255, "the test could not change its privileges");
	return -WEXITSTATUS(status);
}

static int as_it_is(void)
{
	return 0;
}

static int as_nobody(void)
{
	return setresuid(NOBODY, NOBODY, NOBODY);
}

static int as_nobody_with(uint64_t capabilities)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {
		{.effective = (uint32_t)capabilities, .permitted = (uint32_t)capabilities},
		{.effective = (uint32_t)(capabilities >> 32),
		 .permitted = (uint32_t)(capabilities >> 32)},
	};

	return prctl(PR_SET_KEEPCAPS, 1) || as_nobody() || syscall(SYS_capset, &header, data);
}

static int with_both(void)
{
	return as_nobody_with(1ull << CAP_BPF | 1ull << CAP_PERFMON);
}

static int with_one(void)
{
	return as_nobody_with(1ull << CAP_BPF);
}

static int in_another_pid_namespace(void)
{
	int status;
	pid_t child;

	if (unshare(CLONE_NEWPID))
		return -1;
	child = fork();
	if (child <= 0)
		return child;
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 255);
}

Test(feature, root_may_hook)
{
	char text[1024];

	cr_expect_eq(check_as(as_it_is, text, sizeof(text)), 0, "%s", text);
	cr_expect_str_empty(text);
}

Test(feature, two_capabilities_are_enough)
{
	char text[1024];

	cr_expect_eq(check_as(with_both, text, sizeof(text)), 0, "%s", text);
}

Test(feature, without_privileges_sudo_is_the_cure)
{
	char text[1024];

	cr_expect_eq(check_as(as_nobody, text, sizeof(text)), -EPERM);
	cr_expect_not_null(strstr(text, "sudo"), "%s", text);
	cr_expect_not_null(strstr(text, "missing here: CAP_BPF and CAP_PERFMON"), "%s", text);
}

Test(feature, the_missing_capability_is_named)
{
	char text[1024];

	cr_expect_eq(check_as(with_one, text, sizeof(text)), -EPERM);
	cr_expect_not_null(strstr(text, "missing here: CAP_PERFMON)"), "%s", text);
}

Test(feature, another_pid_namespace_is_refused)
{
	char text[1024];

	cr_expect_eq(check_as(in_another_pid_namespace, text, sizeof(text)), -ENOTSUP);
	cr_expect_not_null(strstr(text, "--pid=host"), "%s", text);
}
