// SPDX-License-Identifier: GPL-2.0-or-later
/* What a growing file leaves in memory. */
#include "file/page_cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <criterion/criterion.h>

enum { WINDOW = 64 << 10, WINDOWS = 100, TMPFS = 0x01021994 };

static unsigned char bytes[WINDOW];

/* A file without a name, on a disk. */
static int make_file(void)
{
	char path[] = "/var/tmp/scope_file_cache.XXXXXX";
	struct scope_file_cache cache;
	struct statfs fs;
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) || fstatfs(fd, &fs) || fs.f_type == TMPFS)
		cr_skip_test("no disk at /var/tmp");
	scope_file_cache_init(&cache, 0);
	cache.window = 1;
	scope_file_cache_written(&cache, fd, SCOPE_FILE_CACHE_KEPT + 1);
	if (cache.is_off)
		cr_skip_test("the kernel has no cachestat");
	return fd;
}

static struct scope_file_cache write_all(int fd, bool to_disk)
{
	struct scope_file_cache cache;

	scope_file_cache_init(&cache, 0);
	cr_assert_eq(cache.window, SCOPE_FILE_CACHE_WINDOW);
	cache.window = WINDOW;
	for (uint64_t i = 0; i < WINDOWS; i++) {
		memset(bytes, (int)i, sizeof(bytes));
		cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
		if (to_disk)
			cr_assert(!fdatasync(fd));
		scope_file_cache_written(&cache, fd, (i + 1) * WINDOW);
	}
	for (uint64_t i = 0; i < WINDOWS; i++) {
		cr_assert_eq(pread(fd, bytes, sizeof(bytes), (off_t)(i * WINDOW)), sizeof(bytes));
		cr_assert(bytes[0] == i && bytes[WINDOW - 1] == i);
	}
	return cache;
}

/* Pages of the file in memory, of these windows. */
static size_t in_memory(int fd, uint64_t first, uint64_t count)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = count * WINDOW / page, found = 0;
	unsigned char *in = malloc(pages);
	void *map = mmap(NULL, count * WINDOW, PROT_READ, MAP_SHARED, fd, (off_t)(first * WINDOW));

	cr_assert_neq(map, MAP_FAILED);
	cr_assert(!mincore(map, count * WINDOW, in));
	for (size_t i = 0; i < pages; i++)
		found += in[i] & 1;
	munmap(map, count * WINDOW);
	free(in);
	return found;
}

Test(scope_file_cache, what_is_on_the_disk_goes)
{
	int fd = make_file();
	struct scope_file_cache cache;

	scope_file_cache_init(&cache, 0);
	cache.window = WINDOW;
	for (uint64_t i = 0; i < WINDOWS; i++)
		cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	cr_assert(!fdatasync(fd));
	scope_file_cache_written(&cache, fd, WINDOWS * WINDOW);
	cr_assert_eq(cache.dropped, (WINDOWS - SCOPE_FILE_CACHE_KEPT) * WINDOW);
	cr_assert_eq(in_memory(fd, 0, WINDOWS - SCOPE_FILE_CACHE_KEPT), 0);
	cr_assert_neq(in_memory(fd, WINDOWS - SCOPE_FILE_CACHE_KEPT, SCOPE_FILE_CACHE_KEPT), 0);
	close(fd);
}

/* Step by step, with and without the disk keeping up: never more than may be, and the file is as it was
 * written. */
Test(scope_file_cache, step_by_step)
{
	for (int to_disk = 0; to_disk < 2; to_disk++) {
		int fd = make_file();
		struct scope_file_cache cache = write_all(fd, to_disk);

		cr_assert_not(cache.is_off);
		cr_assert_leq(cache.dropped, (WINDOWS - SCOPE_FILE_CACHE_KEPT) * WINDOW);
		cr_assert_leq(cache.started, (WINDOWS - SCOPE_FILE_CACHE_START) * WINDOW);
		if (to_disk)
			cr_assert_eq(cache.dropped, (WINDOWS - SCOPE_FILE_CACHE_KEPT) * WINDOW);
		close(fd);
	}
}

/* A file of which little is in memory is read through, and is not there afterwards either. */
Test(scope_file_cache, what_was_read_goes)
{
	const uint64_t window = SCOPE_FILE_CACHE_WINDOW;
	struct scope_file_cache_window reading;
	int fd = make_file();

	cr_assert(!ftruncate(fd, (off_t)SCOPE_FILE_CACHE_LONG));
	scope_file_cache_window_init(&reading, fd);
	for (uint64_t at = 0; at < 5 * window; at += WINDOW) {
		scope_file_cache_read(&reading, fd, at);
		cr_assert_eq(pread(fd, bytes, sizeof(bytes), (off_t)at), sizeof(bytes));
	}
	cr_assert_eq(in_memory(fd, 0, 4 * window / WINDOW), 0);
	/* The window that it is in stays, as far as it was read; going back leaves it. */
	cr_assert_neq(in_memory(fd, 4 * window / WINDOW, window / WINDOW), 0);
	scope_file_cache_read(&reading, fd, window);
	cr_assert_eq(in_memory(fd, 4 * window / WINDOW, window / WINDOW), 0);
	close(fd);
}

/* A shorter one may be wanted again. */
Test(scope_file_cache, a_short_file_stays)
{
	struct scope_file_cache_window reading;
	int fd = make_file();

	cr_assert(!ftruncate(fd, (off_t)SCOPE_FILE_CACHE_LONG - 1));
	scope_file_cache_window_init(&reading, fd);
	cr_assert_eq(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
	scope_file_cache_read(&reading, fd, 1 << 29);
	cr_assert_neq(in_memory(fd, 0, 1), 0);
	close(fd);
}

/* Where nothing can be told of it the file is left alone. */
Test(scope_file_cache, not_a_file)
{
	struct scope_file_cache_window reading;
	struct scope_file_cache cache;

	scope_file_cache_init(&cache, 0);
	scope_file_cache_written(&cache, -1, 1ull << 30);
	cr_assert(cache.is_off);
	cr_assert(!cache.dropped && !cache.started);
	scope_file_cache_window_init(&reading, -1);
	cr_assert(reading.is_off);
}
