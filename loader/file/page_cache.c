// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/page_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 /* everywhere but on alpha */
#endif

/* As in linux/mman.h, which may be older. */
struct cache_range {
	uint64_t offset;
	uint64_t length;
};

struct cache_counts {
	uint64_t cached;
	uint64_t dirty;
	uint64_t in_writeback;
	uint64_t evicted;
	uint64_t recently_evicted;
};

void scope_file_cache_init(struct scope_file_cache *cache, uint64_t base)
{
	*cache = (struct scope_file_cache){.window = SCOPE_FILE_CACHE_WINDOW,
					   .looked = base,
					   .started = base,
					   .dropped = base};
}

static bool count(int fd, uint64_t offset, uint64_t length, struct cache_counts *counts)
{
	struct cache_range range = {offset, length};

	return !syscall(SYS_cachestat, fd, &range, counts, 0);
}

/* Is the oldest window on the disk? */
static bool is_clean(struct scope_file_cache *cache, int fd)
{
	struct cache_counts counts;

	cache->is_off = !count(fd, cache->dropped, cache->window, &counts);
	return !cache->is_off && !counts.dirty && !counts.in_writeback;
}

/* As long as what was begun is not done, no more is: a full queue would make us wait. */
static bool may_start(const struct scope_file_cache *cache, uint64_t end)
{
	return end - cache->started >= (SCOPE_FILE_CACHE_START + 1) * cache->window &&
	       cache->started - cache->dropped <=
		       (SCOPE_FILE_CACHE_KEPT - SCOPE_FILE_CACHE_START + 1) * cache->window;
}

void scope_file_cache_written(struct scope_file_cache *cache, int fd, uint64_t end)
{
	if (cache->is_off || end - cache->looked < cache->window)
		return;
	cache->looked = end;
	while (end - cache->dropped >= (SCOPE_FILE_CACHE_KEPT + 1) * cache->window &&
	       is_clean(cache, fd)) {
		posix_fadvise(fd, (off_t)cache->dropped, (off_t)cache->window, POSIX_FADV_DONTNEED);
		cache->dropped += cache->window;
	}
	if (cache->started < cache->dropped)
		cache->started = cache->dropped;
	while (!cache->is_off && may_start(cache, end)) {
		sync_file_range(fd, (off_t)cache->started, (off_t)cache->window,
				SYNC_FILE_RANGE_WRITE);
		cache->started += cache->window;
	}
}

void scope_file_cache_window_init(struct scope_file_cache_window *window, int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct cache_counts counts;
	struct stat status;

	*window =
		(struct scope_file_cache_window){.is_off = true, .length = SCOPE_FILE_CACHE_WINDOW};
	if (!fstat(fd, &status) && S_ISREG(status.st_mode) &&
	    status.st_size >= (off_t)SCOPE_FILE_CACHE_LONG &&
	    count(fd, 0, (uint64_t)status.st_size, &counts))
		window->is_off = counts.cached * page > (uint64_t)status.st_size / 2;
}

void scope_file_cache_read(struct scope_file_cache_window *window, int fd, uint64_t offset)
{
	if (window->is_off || (offset >= window->first && offset - window->first < window->length))
		return;
	posix_fadvise(fd, (off_t)window->first, (off_t)window->length, POSIX_FADV_DONTNEED);
	window->first = offset - offset % window->length;
}
