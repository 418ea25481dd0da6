// SPDX-License-Identifier: GPL-2.0-or-later
/* `scopetrace functions` as a user runs it: exit status, stdout and stderr. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command/command.h"

static char output[1 << 20], errors[16384];

static const char *target(const char *name)
{
	static char path[4096];
	const char *targets = getenv("SCOPETRACE_TARGETS"), *build = getenv("O");

	if (targets)
		snprintf(path, sizeof(path), "%s/%s", targets, name);
	else
		snprintf(path, sizeof(path), "%s/targets/%s", build ? build : "build", name);
	return path;
}

static void take(int fd, char *text, size_t size)
{
	ssize_t length = pread(fd, text, size - 1, 0);

	cr_assert(length >= 0);
	text[length] = '\0';
	close(fd);
}

/* Runs it with these arguments (up to a NULL); what it prints is in `output` and `errors`. */
static int run(const char *first, ...)
{
	char *argv[16] = {"functions", (char *)first};
	int argc = first ? 2 : 1, code, out = memfd_create("out", 0), err = memfd_create("err", 0);
	int saved_out = dup(1), saved_err = dup(2);
	va_list arguments;

	va_start(arguments, first);
	while (first && argc < 15 && (argv[argc] = va_arg(arguments, char *)))
		argc++;
	va_end(arguments);
	fflush(stdout);
	dup2(out, 1);
	dup2(err, 2);
	code = command_functions(argc, argv);
	fflush(stdout);
	dup2(saved_out, 1);
	dup2(saved_err, 2);
	close(saved_out);
	close(saved_err);
	take(out, output, sizeof(output));
	take(err, errors, sizeof(errors));
	return code;
}

#define assert_has(text, wanted)     cr_assert_not_null(strstr(text, wanted), "%s", text)
#define assert_lacks(text, unwanted) cr_assert_null(strstr(text, unwanted), "%s", text)

Test(functions, prints_a_table_and_the_verdict)
{
	cr_assert_eq(run(target("clones"), "hot", "wor*", NULL), EXIT_DONE);
	assert_has(output, "NAME");
	assert_has(output, "COST");
	assert_has(output, "work.constprop.0  clones");
	assert_has(output, "hot ");
	assert_lacks(output, "main");
	assert_has(errors, "returns by uretprobe: ");
	cr_assert_eq(run(target("clones"), NULL), EXIT_DONE);
	assert_has(output, "main");
	assert_lacks(output, "libc.so.6");
	cr_assert_eq(run(target("clones"), "-N", "/^_/", NULL), EXIT_DONE);
	assert_has(output, "main");
	assert_lacks(output, "\n_");
	cr_assert_eq(run(target("clones"), "--all", "mallo?", NULL), EXIT_DONE);
	assert_has(output, "malloc");
	assert_has(output, "libc.so.6");
}

Test(functions, says_which_way_returns_go_and_why)
{
	cr_assert_eq(run(target("cxxthrow"), "catcher", NULL), EXIT_DONE);
	assert_has(output, "instruction");
	assert_has(
		errors,
		"returns by instruction: 1 of 1 functions (a uretprobe could kill the program: ");
	assert_has(errors, "hazard: /");
	assert_has(errors, "exception");
}

Test(functions, of_a_process)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", getpid());
	cr_assert_eq(run("-p", pid, "main", NULL), EXIT_DONE);
	assert_has(output, "main");
}

Test(functions, prints_json)
{
	cr_assert_eq(run("--json", target("cxxthrow"), "scene::twice<int>", NULL), EXIT_DONE);
	assert_has(
		output,
		"[\n{\"name\":\"scene::twice<int>(int)\",\"symbol\":\"_ZN5scene5twiceIiEET_S1_\","
		"\"aliases\":[],"
		"\"module\":\"cxxthrow\",\"path\":\"/");
	assert_has(
		output,
		"\"cost\":\"stepped\",\"returns\":\"uretprobe\",\"reason\":\"nothing inside them can throw, or "
		"switch stacks\"}\n]\n");
}

Test(functions, reads_patterns_from_a_file)
{
	char path[] = "/tmp/scopetrace-patterns-XXXXXX", argument[64];
	int fd = mkstemp(path);

	cr_assert(fd >= 0 && write(fd, "# two\nhot\nfail\n", 15) == 15);
	close(fd);
	snprintf(argument, sizeof(argument), "@%s", path);
	cr_assert_eq(run(target("clones"), argument, NULL), EXIT_DONE);
	unlink(path);
	assert_has(output, "hot");
	assert_has(output, "fail");
	assert_lacks(output, "main");
}

static void assert_usage_error(int code, const char *wanted)
{
	cr_assert_eq(code, EXIT_USAGE);
	cr_assert_str_eq(output, "");
	assert_has(errors, wanted);
}

Test(functions, usage_errors_name_the_option)
{
	assert_usage_error(run(NULL), "Give -p PID");
	assert_has(errors, "functions --help");
	assert_usage_error(run("--nonsense", NULL), "--nonsense is no option");
	assert_usage_error(run("-x", NULL), "-x is no option; `scopetrace functions --help`");
	assert_usage_error(run("-p", NULL), "-p wants a value");
	assert_usage_error(run("-p", "12x", NULL), "-p '12x': wants a process id");
	assert_usage_error(run("-p", "1", "-p", "2", NULL), "-p was given before");
	cr_assert_eq(run("--help", NULL), EXIT_DONE);
	assert_has(output, "usage: scopetrace functions");
	cr_assert_str_eq(errors, "");
}

Test(functions, failures_are_told)
{
	cr_assert_eq(run(target("clones"), "hott", NULL), EXIT_FAILED);
	assert_has(errors, "the nearest names: hot");
	cr_assert_eq(run("/nonexistent", NULL), EXIT_FAILED);
	assert_has(errors, "/nonexistent");
	cr_assert_eq(run("-p", "2147483646", NULL), EXIT_FAILED);
	assert_has(errors, "there is no process 2147483646");
}
