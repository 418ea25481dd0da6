// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/recording.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "source/shm_source.h"

/* A program makes its segment before main, so we look often while it is young; a late dlopen may make one
 * whenever. */
#define YOUNG_NS	    5000000000ull
#define LOOK_WHILE_YOUNG_NS 1000000ull
#define LOOK_LATER_NS	    500000000ull

/* Looking reads all mappings of the process: it may take one part in so many of the time. */
#define SHARE_WHILE_YOUNG 20
#define SHARE_LATER	  200

static int list_tids(struct capture *c)
{
	struct process_thread *threads;
	size_t count;
	uint64_t begin = io_now_ns();
	int err = process_threads(&c->process, &threads, &count);

	for (size_t i = 0; i < count && !err; i++)
		err = hash_map_put(&c->segments.tids, (uint32_t)threads[i].namespace_tid,
				   (uint32_t)threads[i].tid);
	if (!err || err == -ENOMEM)
		free(threads);
	c->segments.list_ns = io_now_ns() + (io_now_ns() - begin) * SHARE_WHILE_YOUNG;
	return err;
}

static uint32_t translate_tid(void *context, uint32_t namespace_tid, bool fresh)
{
	struct capture *c = context;
	uint32_t tid = 0;

	if (!fresh && hash_map_get(&c->segments.tids, namespace_tid, &tid))
		return tid;
	if (io_now_ns() >= c->segments.list_ns)
		list_tids(c);
	return hash_map_get(&c->segments.tids, namespace_tid, &tid) ? tid : 0;
}

static int refuse(struct capture *c, int err)
{
	c->segments.refused = true;
	if (!c->hooked)
		return err;
	log_warning("going on with the hooked functions alone");
	return 0;
}

static int open_segment(struct capture *c)
{
	struct tid_translator translator = {.translate = translate_tid, .context = c};
	bool namespaced = c->process.namespace_pid != c->process.pid;
	struct capture_segments *segments = &c->segments;

	segments->source = shm_source_open(c->process.pid, namespaced ? &translator : NULL);
	segments->lost_before = c->events.relay ? relay_lost_events(c->events.relay) : 0;
	if (segments->source)
		return c->writer ? capture_declare_process(c) : 0;
	if (errno == ENOENT || errno == EAGAIN || errno == ESRCH)
		return 0;
	return refuse(c, -errno);
}

/* Now, and not again too soon. */
static int look(struct capture *c)
{
	struct capture_segments *segments = &c->segments;
	uint64_t begin = io_now_ns();
	bool young = begin < segments->young_until_ns;
	uint64_t least = young ? LOOK_WHILE_YOUNG_NS : LOOK_LATER_NS, pause;
	int err = open_segment(c);

	pause = (io_now_ns() - begin) * (young ? SHARE_WHILE_YOUNG : SHARE_LATER);
	segments->look_ns = io_now_ns() + (pause > least ? pause : least);
	return err;
}

/* What it has put out is in the file, or counted as discarded on the way. */
static struct segment_accounting account(const struct capture *c)
{
	struct segment_accounting terms = shm_source_accounting(c->segments.source);

	terms.handoff_lost = relay_lost_events(c->events.relay) - c->segments.lost_before;
	terms.events -= terms.handoff_lost;
	return terms;
}

int capture_close_segment(struct capture *c)
{
	struct capture_segments *segments = &c->segments;
	int err = segments->source->ops->finish(segments->source, relay_output(c->events.relay));

	if (!err)
		err = vec_grow(&segments->done, &segments->done_capacity, segments->done_count);
	if (!err)
		segments->done[segments->done_count++] = account(c);
	if (!err)
		segments->overwritten += shm_source_overwritten(segments->source);
	segments->source->ops->destroy(segments->source);
	segments->source = NULL;
	return err;
}

int capture_follow_segment(struct capture *c)
{
	struct capture_segments *segments = &c->segments;
	uint64_t now = io_now_ns();
	int err = 0;

	if (!segments->young_until_ns)
		segments->young_until_ns = c->options->command ? now + YOUNG_NS : now;
	if (segments->refused)
		return 0;
	/* Of a process that has ended it is taken to its end with everything else. */
	if (segments->source && segments->source->ops->gone(segments->source) &&
	    !process_ended(&c->process)) {
		err = capture_close_segment(c);
		if (!err)
			err = capture_read_name(c, now);
		segments->young_until_ns = now + YOUNG_NS;
		segments->look_ns = now;
	}
	if (!err && !segments->source && now >= segments->look_ns)
		err = look(c);
	return err;
}
