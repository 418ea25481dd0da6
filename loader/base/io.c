// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/vec.h"

uint64_t io_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/*
 * The descriptor does not block (a shell's pipe may be so): then it is waited for. 0, or -1 with
 * errno.
 */
static int wait_for_room(int fd)
{
	struct pollfd room = {.fd = fd, .events = POLLOUT};

	return poll(&room, 1, -1) < 0 && errno != EINTR ? -1 : 0;
}

int io_write_all(int fd, const void *bytes, size_t length)
{
	const char *p = bytes;

	while (length) {
		ssize_t done = write(fd, p, length);

		if (done < 0) {
			if (errno == EINTR || (errno == EAGAIN && !wait_for_room(fd)))
				continue;
			return -errno;
		}
		p += done;
		length -= (size_t)done;
	}
	return 0;
}

#define FILE_MAX (64u << 20) /* /dev/zero has no end */

static int read_to_end(int fd, char **text, size_t *length)
{
	size_t capacity = 0, used = 0;

	*text = NULL;
	for (;;) {
		ssize_t done;

		if (used > FILE_MAX)
			return -EFBIG;
		if (vec_reserve((void **)text, &capacity, used + 4097, 1))
			return -ENOMEM;
		done = read(fd, *text + used, capacity - used - 1);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		used += (size_t)done;
		if (!done)
			break;
	}
	(*text)[used] = '\0';
	*length = used;
	return 0;
}

int io_read_file(const char *path, char **text, size_t *length)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = read_to_end(fd, text, length);
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	}
	return err;
}

const char *io_temporary_directory(void)
{
	const char *directory = getenv("TMPDIR");

	return directory && *directory ? directory : "/var/tmp"; /* /tmp may be memory */
}

int io_open_unnamed(void)
{
	const char *directory = io_temporary_directory();
	char path[4096];
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return -errno;
	if ((size_t)snprintf(path, sizeof(path), "%s/scopetrace-XXXXXX", directory) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}
