// SPDX-License-Identifier: GPL-2.0-or-later
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "record/launch.h"

static char *const exits_with_7[] = {"sh", "-c", "exit 7", NULL};
static char *const killed[] = {"sh", "-c", "kill -9 $$", NULL};
static char *const checks_environment[] = {"sh", "-c", "test \"$SCOPE_CAPTURE\" = $$", NULL};
static char *const not_there[] = {"/nonexistent/program", NULL};
static char *const not_executable[] = {"/etc/passwd", NULL};

static int run(char *const *argv, struct launch *launch)
{
	sigset_t mask;
	const struct launch_plan plan = {.argv = argv, .mask = &mask};
	int err;

	sigemptyset(&mask);
	cr_assert_eq(launch_prepare(launch, &plan), 0);
	err = launch_go(launch, argv);
	launch_wait(launch);
	return err;
}

Test(launch, status_is_passed_on)
{
	struct launch launch;

	cr_assert_eq(run(exits_with_7, &launch), 0);
	cr_assert_eq(launch_exit_code(&launch), 7);
	cr_assert_eq(run(killed, &launch), 0);
	cr_assert_eq(launch_exit_code(&launch), 128 + SIGKILL);
	cr_assert_eq(run(checks_environment, &launch), 0);
	cr_assert_eq(launch_exit_code(&launch), 0);
}

Test(launch, failed_exec_is_told)
{
	struct launch launch;

	cr_assert_eq(run(not_there, &launch), -ENOENT);
	cr_assert(launch.exec_failed);
	cr_assert_eq(launch_exit_code(&launch), 127);
	cr_assert_eq(run(not_executable, &launch), -EACCES);
	cr_assert_eq(launch_exit_code(&launch), 126);
}

/* The command must not run at all when the capture cannot be made. */
Test(launch, cancelled_never_runs)
{
	char path[64];
	char *const argv[] = {"touch", path, NULL};
	struct launch launch;
	sigset_t mask;
	const struct launch_plan plan = {.argv = argv, .mask = &mask};

	snprintf(path, sizeof(path), "/tmp/scopetrace-launch-%d", (int)getpid());
	sigemptyset(&mask);
	cr_assert_eq(launch_prepare(&launch, &plan), 0);
	cr_assert_not(launch_ended(&launch));
	launch_cancel(&launch);
	cr_assert_eq(launch.pid, 0);
	cr_assert_neq(access(path, F_OK), 0, "the command ran");
}
