// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_NAMES \
	100 /* tries before giving up: each name taken would be a leftover of a killed run \
			     */

struct output {
	FILE *stream;
	char *path;	 /* the name to give, or NULL: there is none to give */
	char *temporary; /* the name beside it */
	bool nameless;	 /* the file has no name yet */
};

/* Names are made, not opened: linkat and open(O_EXCL) tell whether they were free. */
static int temporary_name(struct output *output, unsigned try)
{
	free(output->temporary);
	output->temporary = NULL;
	if (asprintf(&output->temporary, "%s.%d-%u.tmp", output->path, (int)getpid(), try) < 0) {
		output->temporary = NULL;
		return -ENOMEM;
	}
	return 0;
}

static int open_nameless(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int fd = -1;

	/*
	 * It gets its name through /proc: without that, a file with a name from the start is the
	 * way.
	 */
	if (directory && access("/proc/self/fd", X_OK) == 0)
		fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
	free(directory);
	return fd;
}

static int open_temporary(struct output *output)
{
	int fd;

	for (unsigned try = 0; try < TEMPORARY_NAMES; try++) {
		if (temporary_name(output, try))
			return -ENOMEM;
		fd = open(output->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
		if (fd >= 0)
			return fd;
		if (errno != EEXIST)
			break;
	}
	fd = -errno;
	free(output->temporary); /* it is not ours to remove */
	output->temporary = NULL;
	return fd;
}

/* A file that replaces another keeps its permissions, and must have been allowed to be written. */
static int open_beside(struct output *output, const struct stat *old)
{
	int fd;

	if (old && access(output->path, W_OK))
		return -errno;
	fd = open_nameless(output->path);
	output->nameless = fd >= 0;
	if (fd < 0)
		fd = open_temporary(output);
	if (fd >= 0 && old && fchmod(fd, old->st_mode & 0777) && errno != EPERM) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

static int open_path(struct output *output, const char *path)
{
	struct stat old;
	bool exists = stat(path, &old) == 0;
	int fd;

	if (!*path)
		return -ENOENT;
	if (exists && !S_ISREG(old.st_mode)) {
		fd = open(path, O_WRONLY | O_CLOEXEC);
		return fd < 0 ? -errno : fd;
	}
	/* Through a symbolic link: its target is replaced, not the link. */
	output->path = exists ? realpath(path, NULL) : strdup(path);
	if (!output->path)
		return -errno;
	return open_beside(output, exists ? &old : NULL);
}

static void output_free(struct output *output)
{
	free(output->path);
	free(output->temporary);
	free(output);
}

struct output *output_open(const char *path)
{
	struct output *output = calloc(1, sizeof(*output));
	int fd, err;

	if (!output)
		return NULL;
	if (strcmp(path, "-") == 0) {
		output->stream = stdout;
		return output;
	}
	fd = open_path(output, path);
	err = fd < 0 ? -fd : 0;
	if (!err) {
		output->stream = fdopen(fd, "w");
		if (output->stream)
			return output;
		err = errno;
		close(fd);
	}
	if (output->temporary)
		unlink(output->temporary);
	output_free(output);
	errno = err;
	return NULL;
}

FILE *output_stream(struct output *output)
{
	return output->stream;
}

int output_result(FILE *stream)
{
	if (fflush(stream))
		return -errno;
	if (ferror(stream))
		return errno ? -errno : -EIO;
	return 0;
}

static int give_name(struct output *output)
{
	char file[64];

	snprintf(file, sizeof(file), "/proc/self/fd/%d", fileno(output->stream));
	for (unsigned try = 0; try < TEMPORARY_NAMES; try++) {
		if (temporary_name(output, try))
			return -ENOMEM;
		if (linkat(AT_FDCWD, file, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	free(output->temporary);
	output->temporary = NULL;
	return -errno;
}

int output_commit(struct output *output)
{
	int err;

	errno = 0;
	err = output_result(output->stream);
	if (!err && output->nameless)
		err = give_name(output);
	if (output->stream != stdout && fclose(output->stream) && !err)
		err = -errno;
	if (!err && output->temporary && rename(output->temporary, output->path))
		err = -errno;
	if (err && output->temporary)
		unlink(output->temporary);
	output_free(output);
	return err;
}

void output_discard(struct output *output)
{
	if (!output)
		return;
	if (output->stream != stdout)
		fclose(output->stream);
	if (output->temporary)
		unlink(output->temporary);
	output_free(output);
}
