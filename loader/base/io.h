/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Whole reads and writes. Purpose: the loops around read(2) and write(2), written once. Stateless;
 * any thread.
 */
#ifndef SCOPETRACE_BASE_IO_H
#define SCOPETRACE_BASE_IO_H

#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC in ns: the clock of every time on the timeline, and of bpf_ktime_get_ns. */
uint64_t io_now_ns(void);

/*
 * Writes all of the bytes, over short writes, EINTR and descriptors that do not block.
 * 0 or -errno (ENOSPC, EIO, EPIPE ...).
 */
int io_write_all(int fd, const void *bytes, size_t length);

/*
 * Reads a whole (small) file, /proc files included, into *text: malloc'ed, NUL-terminated, the
 * caller frees. 0 or -errno of open(2), read(2), -ENOMEM, or -EFBIG beyond 64 MiB.
 */
int io_read_file(const char *path, char **text, size_t *length);

/* A file without a name, to be written and read back, in $TMPDIR or /var/tmp; gone with its descriptor. It, or
 * -errno. */
int io_open_unnamed(void);

/* That directory. */
const char *io_temporary_directory(void);

#endif
