// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "file/stall_watch.h"

#define FIFO_POLL_NS 20000000
#define STALL_MS     100

/* A capture that is being written is locked by its writer: it must not be moved away under it. */
static int check_unused(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err = 0;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK) {
		err = -EBUSY;
		log_error("another capture is being written to %s: choose another file with -o",
			  path);
	}
	close(fd);
	return err;
}

static int refuse_rename(const char *path, const char *old)
{
	int err = -errno;

	log_error(
		"cannot rename the older capture %s to %s: %s; move it away, or choose another file with "
		"-o",
		path, old, strerror(errno));
	return err;
}

/* Never over another one. Not all file systems can say so to the kernel. */
static int rename_new(const char *path, const char *to)
{
	struct stat status;

	if (!renameat2(AT_FDCWD, path, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL)
		return -1;
	errno = EEXIST;
	return lstat(to, &status) == 0 ? -1 : rename(path, to);
}

/* To the first of FILE.1, FILE.2 ... that is not there. */
static int rename_numbered(const char *path)
{
	char *old = NULL;
	int err = -EEXIST;

	for (unsigned i = 1; err == -EEXIST; i++) {
		free(old);
		if (asprintf(&old, "%s.%u", path, i) < 0)
			return -ENOMEM;
		err = rename_new(path, old) ? -errno : 0;
	}
	if (err) {
		errno = -err;
		refuse_rename(path, old);
	} else {
		log_info("the older %s is %s now", path, old);
	}
	free(old);
	return err;
}

static int rename_old(const char *path)
{
	char *old;
	int err;

	if (asprintf(&old, "%s.old", path) < 0)
		return -ENOMEM;
	err = rename(path, old) ? refuse_rename(path, old) : 0;
	free(old);
	return err;
}

/*
 * An older capture is kept; devices, pipes and links are written as they are. Of several drainers
 * each has something to keep, but not one that was killed before it had written anything.
 */
static int keep_older(const char *path, bool numbered, bool *exists)
{
	struct stat status;
	int err;

	*exists = !lstat(path, &status);
	if (!*exists || !S_ISREG(status.st_mode))
		return 0;
	err = check_unused(path);
	if (err)
		return err;
	*exists = false;
	if (numbered && !status.st_size)
		return unlink(path) ? refuse_rename(path, "nothing") : 0;
	return numbered ? rename_numbered(path) : rename_old(path);
}

/* Signals may be blocked, for a signalfd: one that wants us to end is waited for as well. */
static bool wants_end(void)
{
	sigset_t pending;

	sigpending(&pending);
	return sigismember(&pending, SIGINT) || sigismember(&pending, SIGTERM) ||
	       sigismember(&pending, SIGHUP);
}

/* A fifo is open when somebody reads it. */
static int open_fifo(const char *path)
{
	const struct timespec pause = {.tv_nsec = FIFO_POLL_NS};
	bool said = false;
	int fd;

	while ((fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) < 0 && errno == ENXIO) {
		if (wants_end()) {
			errno = EINTR;
			return -1;
		}
		if (!said)
			log_info("waiting for somebody to read %s", path);
		said = true;
		nanosleep(&pause, NULL);
	}
	if (fd >= 0)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

static bool is_fifo(const char *path)
{
	struct stat status;

	return !stat(path, &status) && S_ISFIFO(status.st_mode);
}

static int open_path(const char *path, bool numbered)
{
	bool exists;
	int fd, err;

	if (!strcmp(path, "-"))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	err = keep_older(path, numbered, &exists);
	if (err) {
		errno = 0; /* said */
		return err;
	}
	if (exists && is_fifo(path))
		return open_fifo(path);
	/* A new file is really new: nobody has put a link in its place since. */
	fd = exists ? open(path, O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY)
		    : open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0 && !exists)
		flock(fd, LOCK_EX | LOCK_NB);
	return fd;
}

int scope_file_output_open(struct scope_file_output *output, const char *path, bool numbered)
{
	int fd = open_path(path, numbered), err = -errno;
	struct stat status;
	off_t base;

	*output = (struct scope_file_output){.fd = fd};
	if (fd < 0) {
		output->fd = -1;
		if (!err)
			return fd;
		if (err == -EINTR)
			log_error("nobody has read %s, and it is to end: nothing is recorded",
				  path);
		else
			log_error(
				"cannot create the capture %s: %s; choose a writable place with -o",
				path, strerror(-err));
		return err;
	}
	base = lseek(fd, 0, SEEK_CUR);
	/* Behind `-o - >>FILE` others may write as well, and where this begins is not known. */
	output->is_pipe = !fstat(fd, &status) && S_ISFIFO(status.st_mode);
	output->is_socket = !fstat(fd, &status) && S_ISSOCK(status.st_mode);
	output->is_regular = !fstat(fd, &status) && S_ISREG(status.st_mode) && base >= 0 &&
			     !(fcntl(fd, F_GETFL) & O_APPEND);
	output->base = output->is_regular ? (uint64_t)base : 0;
	return 0;
}

/*
 * What was written of a chunk that found no room is taken back; if that fails too, readers pass
 * over it.
 */
static void cut_back(const struct scope_file_output *output)
{
	off_t whole = (off_t)(output->base + output->bytes);

	if (output->is_regular && ftruncate(output->fd, whole))
		log_warning("the capture ends in a part of a chunk, which cannot be cut off: %s",
			    strerror(errno));
}

/* Whoever waits is told, or waits no longer than until a signal wants our end. */
static int wait_for_reader(const struct scope_file_output *output)
{
	struct pollfd room = {.fd = output->fd, .events = POLLOUT};

	while (poll(&room, 1, STALL_MS) == 0) {
		if (output->stalled)
			output->stalled(output->context);
		else if (wants_end())
			return -EINTR;
	}
	return 0;
}

/*
 * Without waiting: how many bytes were taken, or -errno. A pipe that has room at all takes PIPE_BUF
 * at once. Its description may be shared with others, so that it is not ours to make it
 * non-blocking.
 */
static ssize_t write_some(const struct scope_file_output *output, const char *bytes, size_t length)
{
	ssize_t taken;

	if (output->is_socket)
		taken = send(output->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		taken = write(output->fd, bytes, length < PIPE_BUF ? length : PIPE_BUF);
	if (taken >= 0)
		return taken;
	return errno == EINTR || errno == EAGAIN ? 0 : -errno;
}

static int write_to_reader(const struct scope_file_output *output, const char *bytes, size_t length)
{
	ssize_t taken;
	int err = 0;

	while (length && !err) {
		err = wait_for_reader(output);
		taken = err ? err : write_some(output, bytes, length);
		if (taken < 0)
			return (int)taken;
		bytes += taken;
		length -= (size_t)taken;
	}
	return err;
}

static int stall_watched(const struct scope_file_output *output, const void *bytes, size_t length)
{
	int err;

	stall_watch_begin(output->watch);
	err = io_write_all(output->fd, bytes, length);
	stall_watch_end(output->watch);
	return err;
}

static bool waits_for_reader(const struct scope_file_output *output)
{
	return output->is_pipe || output->is_socket;
}

void scope_file_output_set_stalled(struct scope_file_output *output, void (*stalled)(void *context),
				   void *context)
{
	output->stalled = stalled;
	output->context = context;
	if (waits_for_reader(output) || output->watch)
		return;
	output->watch = stall_watch_create(stalled, context);
	if (!output->watch)
		log_warning(
			"%s: if a write has to wait, nobody will see the end of the capture meanwhile",
			strerror(errno));
}

int scope_file_output_write(struct scope_file_output *output, const void *bytes, size_t length)
{
	int err = waits_for_reader(output) ? write_to_reader(output, bytes, length)
					   : stall_watched(output, bytes, length);

	if (err)
		cut_back(output);
	else
		output->bytes += length;
	return err;
}

int scope_file_output_close(struct scope_file_output *output)
{
	int fd = output->fd;

	stall_watch_destroy(output->watch);
	output->watch = NULL;
	output->fd = -1;
	return fd >= 0 && close(fd) && errno != EINTR ? -errno : 0;
}
