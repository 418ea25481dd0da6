// SPDX-License-Identifier: GPL-2.0-or-later
/* What a growing file leaves in memory. */
#include "timeline/capture_cache.h"

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
	char path[] = "/var/tmp/capture_cache.XXXXXX";
	struct statfs fs;
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) || fstatfs(fd, &fs) || fs.f_type == TMPFS)
		cr_skip_test("no disk at /var/tmp");
	return fd;
}

static struct capture_cache write_all(int fd, bool to_disk)
{
	struct capture_cache cache;

	capture_cache_init(&cache, 0);
	cr_assert_eq(cache.window, CAPTURE_CACHE_WINDOW);
	cache.window = WINDOW;
	for (uint64_t i = 0; i < WINDOWS; i++) {
		memset(bytes, (int)i, sizeof(bytes));
		cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
		if (to_disk)
			cr_assert(!fdatasync(fd));
		capture_cache_written(&cache, fd, (i + 1) * WINDOW);
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

Test(capture_cache, what_is_on_the_disk_goes)
{
	int fd = make_file();
	struct capture_cache cache;

	capture_cache_init(&cache, 0);
	cache.window = WINDOW;
	for (uint64_t i = 0; i < WINDOWS; i++)
		cr_assert_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	cr_assert(!fdatasync(fd));
	capture_cache_written(&cache, fd, WINDOWS * WINDOW);
	if (cache.is_off)
		cr_skip_test("the kernel has no cachestat");
	cr_assert_eq(cache.dropped, (WINDOWS - CAPTURE_CACHE_KEPT) * WINDOW);
	cr_assert_eq(in_memory(fd, 0, WINDOWS - CAPTURE_CACHE_KEPT), 0);
	cr_assert_neq(in_memory(fd, WINDOWS - CAPTURE_CACHE_KEPT, CAPTURE_CACHE_KEPT), 0);
	close(fd);
}

/* Step by step, with and without the disk keeping up: never more than may be, and the file is as it was
 * written. */
Test(capture_cache, step_by_step)
{
	for (int to_disk = 0; to_disk < 2; to_disk++) {
		int fd = make_file();
		struct capture_cache cache = write_all(fd, to_disk);

		if (cache.is_off)
			cr_skip_test("the kernel has no cachestat");
		cr_assert_leq(cache.dropped, (WINDOWS - CAPTURE_CACHE_KEPT) * WINDOW);
		cr_assert_leq(cache.started, (WINDOWS - CAPTURE_CACHE_START) * WINDOW);
		if (to_disk)
			cr_assert_eq(cache.dropped, (WINDOWS - CAPTURE_CACHE_KEPT) * WINDOW);
		close(fd);
	}
}

/* Where nothing can be told of it the file is left alone. */
Test(capture_cache, not_a_file)
{
	struct capture_cache cache;

	capture_cache_init(&cache, 0);
	capture_cache_written(&cache, -1, 1ull << 30);
	cr_assert(cache.is_off);
	cr_assert(!cache.dropped && !cache.started);
}
