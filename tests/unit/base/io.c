// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "base/io.h"

Test(io, the_clock_does_not_go_back)
{
	uint64_t last = io_now_ns();

	for (int i = 0; i < 1000; i++) {
		uint64_t now = io_now_ns();

		cr_assert_geq(now, last);
		last = now;
	}
}

Test(io, reads_whole_files)
{
	char path[] = "/tmp/scopetrace-unit-XXXXXX";
	static char bytes[100000];
	size_t length;
	char *text;
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	memset(bytes, 'x', sizeof(bytes));
	bytes[500] = '\0';
	cr_assert(!io_write_all(fd, bytes, sizeof(bytes)));
	close(fd);
	cr_assert(!io_read_file(path, &text, &length));
	cr_assert_eq(length, sizeof(bytes));
	cr_assert(!memcmp(text, bytes, sizeof(bytes)));
	cr_assert_eq(text[length], '\0');
	free(text);
	cr_assert(!truncate(path, 0));
	cr_assert(!io_read_file(path, &text, &length));
	cr_assert_eq(length, 0);
	cr_assert_str_eq(text, "");
	free(text);
	unlink(path);
}

/* Files whose size nobody tells before they are read. */
Test(io, reads_proc)
{
	size_t length;
	char *text;

	cr_assert(!io_read_file("/proc/self/status", &text, &length));
	cr_assert(strstr(text, "Pid:"));
	cr_assert_eq(strlen(text), length);
	free(text);
}

Test(io, says_why_not)
{
	char *text = "untouched?";
	size_t length;

	cr_assert_eq(io_read_file("/nowhere/at.all", &text, &length), -ENOENT);
	cr_assert_eq(io_read_file("/", &text, &length), -EISDIR);
	cr_assert_null(text);
	cr_assert_eq(io_write_all(-1, "x", 1), -EBADF);
	cr_assert_eq(io_write_all(-1, "x", 0), 0);
}

Test(io, full_device)
{
	int fd = open("/dev/full", O_WRONLY);

	cr_assert_eq(io_write_all(fd, "x", 1), -ENOSPC);
	close(fd);
}

Test(io, broken_pipe)
{
	int ends[2];

	signal(SIGPIPE, SIG_IGN);
	cr_assert(!pipe(ends));
	close(ends[0]);
	cr_assert_eq(io_write_all(ends[1], "x", 1), -EPIPE);
	close(ends[1]);
}

enum { MUCH = 4 << 20 };

static void *read_much(void *argument)
{
	static char bytes[3001];
	size_t *total = argument;
	int fd = (int)*total;
	ssize_t got;

	*total = 0;
	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		*total += (size_t)got;
	return NULL;
}

/* A pipe takes what it has room for. With and without O_NONBLOCK all of it gets through. */
static void write_much(int flags)
{
	char *bytes = calloc(1, MUCH);
	pthread_t reader;
	size_t total;
	int ends[2];

	cr_assert(bytes && !pipe(ends));
	cr_assert(!fcntl(ends[1], F_SETFL, flags));
	total = (size_t)ends[0];
	cr_assert(!pthread_create(&reader, NULL, read_much, &total));
	cr_assert(!io_write_all(ends[1], bytes, MUCH));
	close(ends[1]);
	cr_assert(!pthread_join(reader, NULL));
	cr_assert_eq(total, MUCH);
	close(ends[0]);
	free(bytes);
}

Test(io, short_writes)
{
	write_much(0);
}

Test(io, a_descriptor_that_does_not_block)
{
	write_much(O_NONBLOCK);
}
