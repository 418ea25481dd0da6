// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/capture_cache.h"

#include <fcntl.h>
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

void capture_cache_init(struct capture_cache *cache, uint64_t base)
{
	*cache = (struct capture_cache){
		.window = CAPTURE_CACHE_WINDOW, .looked = base, .started = base, .dropped = base};
}

/* Is the oldest window on the disk? */
static bool is_clean(struct capture_cache *cache, int fd)
{
	struct cache_range range = {cache->dropped, cache->window};
	struct cache_counts counts = {0};

	if (syscall(SYS_cachestat, fd, &range, &counts, 0)) {
		cache->is_off = true;
		return false;
	}
	return !counts.dirty && !counts.in_writeback;
}

/* As long as what was begun is not done, no more is: a full queue would make us wait. */
static bool may_start(const struct capture_cache *cache, uint64_t end)
{
	return end - cache->started >= (CAPTURE_CACHE_START + 1) * cache->window &&
	       cache->started - cache->dropped <=
		       (CAPTURE_CACHE_KEPT - CAPTURE_CACHE_START + 1) * cache->window;
}

void capture_cache_written(struct capture_cache *cache, int fd, uint64_t end)
{
	if (cache->is_off || end - cache->looked < cache->window)
		return;
	cache->looked = end;
	while (end - cache->dropped >= (CAPTURE_CACHE_KEPT + 1) * cache->window && is_clean(cache, fd)) {
		posix_fadvise(fd, (off_t)cache->dropped, (off_t)cache->window, POSIX_FADV_DONTNEED);
		cache->dropped += cache->window;
	}
	if (cache->started < cache->dropped)
		cache->started = cache->dropped;
	while (!cache->is_off && may_start(cache, end)) {
		sync_file_range(fd, (off_t)cache->started, (off_t)cache->window, SYNC_FILE_RANGE_WRITE);
		cache->started += cache->window;
	}
}
