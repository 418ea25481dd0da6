// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Where exports go: nothing half written is ever left, and what was there stays until the new file
 * is whole.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "sample.h"
#include "sink/csv.h"
#include "sink/output.h"

/* Each test has a directory of its own, and is in it. */
static char directory[] = "/tmp/scopetrace-output-XXXXXX";

static void enter(void)
{
	strcpy(strrchr(directory, '-'), "-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
	cr_assert_eq(chdir(directory), 0);
}

static void leave(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", directory);
	cr_assert_eq(chdir("/"), 0);
	cr_assert_eq(system(command), 0);
}

static int entries(void)
{
	DIR *dir = opendir(".");
	int count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2; /* . and .. */
}

static void put_file(const char *name, const char *text)
{
	FILE *file = fopen(name, "w");

	fputs(text, file);
	fclose(file);
}

static void expect_file(const char *name, const char *expected)
{
	char *text;
	size_t length;

	cr_assert_eq(io_read_file(name, &text, &length), 0, "%s is not there", name);
	cr_expect_str_eq(text, expected);
	free(text);
}

static mode_t mode_of(const char *name)
{
	struct stat status;

	cr_assert_eq(stat(name, &status), 0);
	return status.st_mode & 0777;
}

/* Opens, writes, and before the end sees only what was there before. */
static struct output *open_and_write(const char *name, const char *text)
{
	int before = entries();
	struct output *output = output_open(name);

	cr_assert_not_null(output, "%s: %s", name, strerror(errno));
	fputs(text, output_stream(output));
	fflush(output_stream(output));
	cr_expect_eq(entries(), before, "the file has no name yet");
	return output;
}

Test(output, appears_when_whole, .init = enter, .fini = leave)
{
	umask(027);
	cr_assert_eq(output_commit(open_and_write("out", "whole")), 0);
	expect_file("out", "whole");
	cr_assert_eq(mode_of("out"), 0640, "as any new file");
	cr_assert_eq(entries(), 1);
}

Test(output, replaces_and_keeps_permissions, .init = enter, .fini = leave)
{
	struct output *output;

	put_file("out", "old");
	chmod("out", 0604);
	output = open_and_write("out", "new");
	expect_file("out", "old");
	cr_assert_eq(output_commit(output), 0);
	expect_file("out", "new");
	cr_assert_eq(mode_of("out"), 0604);
	cr_assert_eq(entries(), 1);
}

Test(output, discarded_leaves_the_old, .init = enter, .fini = leave)
{
	put_file("out", "old");
	output_discard(open_and_write("out", "new"));
	expect_file("out", "old");
	cr_assert_eq(entries(), 1);
	output_discard(open_and_write("fresh", "new"));
	cr_assert_eq(entries(), 1);
}

Test(output, killed_leaves_nothing, .init = enter, .fini = leave)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		open_and_write("out", "half");
		raise(SIGKILL);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	cr_assert_eq(entries(), 0);
}

Test(output, through_a_symbolic_link, .init = enter, .fini = leave)
{
	struct stat status;

	put_file("target", "old");
	cr_assert_eq(symlink("target", "link"), 0);
	cr_assert_eq(output_commit(open_and_write("link", "new")), 0);
	expect_file("target", "new");
	cr_assert_eq(lstat("link", &status), 0);
	cr_assert(S_ISLNK(status.st_mode));
	cr_assert_eq(entries(), 2);
}

/* A limit on the size of files stands for a full disk: it fails in the middle, too. */
Test(output, too_little_room, .init = enter, .fini = leave)
{
	struct rlimit limit = {4096, 4096};
	struct output *output;
	static char text[100000], buffer[100000];

	signal(SIGXFSZ, SIG_IGN);
	put_file("out", "old");
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	output = output_open("out");
	cr_assert_not_null(output);
	setvbuf(output_stream(output), buffer, _IOFBF, sizeof(buffer));
	memset(text, 'x', sizeof(text) - 1);
	fputs(text, output_stream(output));
	cr_assert_eq(output_commit(output), -EFBIG);
	expect_file("out", "old");
	cr_assert_eq(entries(), 1);
}

Test(output, places_that_cannot_be, .init = enter, .fini = leave)
{
	mkdir("dir", 0777);
	errno = 0;
	cr_expect_null(output_open("dir"));
	cr_expect_eq(errno, EISDIR);
	cr_expect_null(output_open("none/out"));
	cr_expect_eq(errno, ENOENT);
	cr_expect_null(output_open(""));
	cr_expect_eq(errno, ENOENT);
	cr_assert_eq(entries(), 1);
}

Test(output, device_is_written_directly)
{
	struct output *output = output_open("/dev/full");

	cr_assert_not_null(output);
	cr_assert_eq(csv_write(sample_timeline(), output_stream(output), NULL), -ENOSPC);
	output_discard(output);
	output = output_open("/dev/null");
	cr_assert_eq(csv_write(sample_timeline(), output_stream(output), NULL), 0);
	cr_assert_eq(output_commit(output), 0);
}

Test(output, fifo_is_written_directly, .init = enter, .fini = leave)
{
	char got[16] = "";
	struct output *output;
	int reader;

	cr_assert_eq(mkfifo("fifo", 0666), 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	output = open_and_write("fifo", "through");
	cr_assert_eq(output_commit(output), 0);
	cr_assert_eq(read(reader, got, sizeof(got)), 7);
	cr_assert_str_eq(got, "through");
	close(reader);
	cr_assert_eq(entries(), 1);
}

Test(output, closed_pipe_is_reported)
{
	int ends[2];
	FILE *out;

	signal(SIGPIPE, SIG_IGN);
	cr_assert_eq(pipe(ends), 0);
	close(ends[0]);
	out = fdopen(ends[1], "w");
	cr_assert_eq(csv_write(sample_timeline(), out, NULL), -EPIPE);
	fclose(out);
}

/* In a child, since there is no way back out of a chroot. Exits with the number of the first step that went
 * wrong. */
static void without_proc(void)
{
	struct output *output;

	if (chroot("."))
		_exit(1);
	output = output_open("out");
	if (!output || fputs("named", output_stream(output)) < 0)
		_exit(2);
	if (entries() != 1 || access("out", F_OK) == 0)
		_exit(3);
	if (output_commit(output) || entries() != 1 || access("out", F_OK))
		_exit(4);
	output = output_open("out");
	if (!output || fputs("other", output_stream(output)) < 0 || entries() != 2)
		_exit(5);
	output_discard(output);
	_exit(entries() == 1 ? 0 : 6);
}

/* Without /proc a file without a name could not get one: it has a temporary name from the start. */
Test(output, without_proc, .init = enter, .fini = leave)
{
	pid_t child;
	int status;

	child = fork();
	if (child == 0) {
		if (geteuid() != 0 && unshare(CLONE_NEWUSER))
			_exit(77);
		without_proc();
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77) {
		cr_log_warn(
			"neither root nor user namespaces: the way without /proc is not tested");
		return;
	}
	cr_assert_eq(WEXITSTATUS(status), 0, "step %d", WEXITSTATUS(status));
	expect_file("out", "named");
	cr_assert_eq(entries(), 1);
}
