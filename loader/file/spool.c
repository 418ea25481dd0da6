// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"

#define COPY_AT_ONCE (256 * 1024)

static int fd_copy(int from, int to)
{
	char *bytes = malloc(COPY_AT_ONCE);
	ssize_t have = 1;
	int err = bytes ? 0 : -ENOMEM;

	while (!err && have > 0) {
		have = read(from, bytes, COPY_AT_ONCE);
		if (have > 0)
			err = io_write_all(to, bytes, (size_t)have);
		else if (have < 0 && errno != EINTR)
			err = -errno;
		else if (have < 0)
			have = 1;
	}
	free(bytes);
	return err;
}

/* A copy of what comes from `path`, in a file without a name: its descriptor, or -errno (logged). */
static int spool_copy(const char *path)
{
	int from = open(strcmp(path, "-") ? path : "/dev/stdin", O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int to = from < 0 ? -errno : io_open_unnamed(), err = to;

	if (to >= 0) {
		err = fd_copy(from, to);
		if (err) {
			close(to);
			to = err;
		}
	}
	if (from >= 0)
		close(from);
	if (to < 0)
		log_error(
			"cannot copy the capture %s to a temporary file, which reading it twice takes: %s; "
			"give it as a file",
			path, strerror(-to));
	return to;
}

static bool is_read_once(const char *path)
{
	struct stat status;
	int err = strcmp(path, "-") ? stat(path, &status) : fstat(STDIN_FILENO, &status);

	return !err && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

struct scope_file *scope_file_open_spooled(const char *path)
{
	struct scope_file *file;
	char copy[32];
	int fd, err;

	if (!is_read_once(path))
		return scope_file_open(path);
	fd = spool_copy(path);
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	snprintf(copy, sizeof(copy), "/proc/self/fd/%d", fd);
	file = scope_file_open_as(copy, strcmp(path, "-") ? path : "on standard input");
	err = errno;
	close(fd);
	errno = err;
	return file;
}
