// SPDX-License-Identifier: GPL-2.0-or-later
#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/vec.h"
#include "pinned/maps.h"

#define BATCH 1024

struct slot_at {
	struct open_key key;
	struct open_slot slot;
};

struct slots {
	struct slot_at *items;
	size_t count;
	size_t capacity;
};

/* ---- both maps ---- */

/* One without a call tells still what became of others. */
static int add_slot(struct slots *slots, const struct open_key *key, const struct open_slot *slot)
{
	if (slot->state & OPEN_SLOT_ENDED)
		return 0;
	if (vec_grow(&slots->items, &slots->capacity, slots->count))
		return -ENOMEM;
	slots->items[slots->count++] = (struct slot_at){*key, *slot};
	return 0;
}

static int add_near(const struct pinned *pinned, struct slots *slots)
{
	const size_t length = NEAR_SCOPES * sizeof(struct near_slot);
	const struct near_slot *near =
		mmap(NULL, length, PROT_READ, MAP_SHARED, pinned_map(pinned, "near_scopes"), 0);
	int err = near == MAP_FAILED ? -errno : 0;

	if (err)
		return err;
	for (size_t i = 0; !err && i < NEAR_SCOPES; i++)
		if (near[i].key.tid)
			err = add_slot(slots, &near[i].key, &near[i].slot);
	munmap((void *)near, length);
	return err;
}

/* A batch of the map's buckets each time: so none is met twice, whatever comes and goes. */
static int add_hashed(const struct pinned *pinned, struct slots *slots)
{
	struct open_key *keys = calloc(BATCH, sizeof(*keys));
	struct open_slot *found = calloc(BATCH, sizeof(*found));
	uint32_t place = 0, *after = NULL;
	int err = keys && found ? 0 : -ENOMEM;
	bool is_last = false;

	while (!err && !is_last) {
		uint32_t count = BATCH;

		err = bpf_map_lookup_batch(pinned_map(pinned, "open_scopes"), after, &place, keys,
					   found, &count, NULL);
		is_last = err == -ENOENT;
		if (is_last)
			err = 0;
		for (uint32_t i = 0; !err && i < count; i++)
			err = add_slot(slots, &keys[i], &found[i]);
		after = &place;
	}
	free(keys);
	free(found);
	return err;
}

/* Threads one by one, and in each the outermost first. */
static int by_thread_and_depth(const void *left, const void *right)
{
	const struct slot_at *a = left, *b = right;

	if (a->key.tid != b->key.tid)
		return a->key.tid < b->key.tid ? -1 : 1;
	return (a->key.sp < b->key.sp) - (a->key.sp > b->key.sp);
}

/* Threads one by one, in each its stacks, and on each stack the outermost first. */
static int by_stack_and_depth(const void *left, const void *right)
{
	const struct slot_at *a = left, *b = right;

	if (a->key.tid == b->key.tid && a->slot.stack_end != b->slot.stack_end)
		return a->slot.stack_end > b->slot.stack_end ? -1 : 1;
	return by_thread_and_depth(left, right);
}

/*
 * Where stacks migrate the key is the process's, and what is known is the thread that entered, if
 * that.
 */
static uint32_t tid_of(const struct slot_at *at, const struct open_frame *frame)
{
	if (!at->key.of_process)
		return at->key.tid;
	return frame->flags & OPEN_FRAME_BY_EXIT ? frame->detail : at->slot.tgid;
}

/* ---- their calls ---- */

/* The frames of one slot, outermost first, but for those that were left without a return: something further
 * out on their stack was hit after they began. */
static int add_calls(struct pinned_call **calls, size_t *count, size_t *capacity,
		     const struct slot_at *at, uint64_t latest_above)
{
	uint32_t length = at->slot.chain_length < MAX_CHAIN ? at->slot.chain_length : MAX_CHAIN;

	for (uint32_t i = 0; i < length && !at->slot.tail_ns; i++) {
		const struct open_frame *frame = &at->slot.frames[i];

		if (frame->start_ns < latest_above)
			continue;
		if (vec_grow(calls, capacity, *count))
			return -ENOMEM;
		(*calls)[(*count)++] = (struct pinned_call){
			.start_ns = frame->start_ns,
			.sp = at->key.sp,
			.tgid = at->slot.tgid,
			.tid = tid_of(at, frame),
			.function = frame->function,
		};
	}
	return 0;
}

/* Each key once, and a key whose stack the kernel could not tell on that of a key below it, if it lies before
 * its end. */
static void settle_keys(struct slots *slots)
{
	size_t kept = 0;

	for (size_t i = 0; i < slots->count; i++)
		if (!kept || by_thread_and_depth(&slots->items[kept - 1], &slots->items[i]))
			slots->items[kept++] = slots->items[i];
	slots->count = kept;
	for (size_t i = kept; i-- > 1;) {
		const struct slot_at *inner = &slots->items[i];
		struct slot_at *at = &slots->items[i - 1];

		if (!at->slot.stack_end && at->key.tid == inner->key.tid &&
		    at->key.sp <= inner->slot.stack_end)
			at->slot.stack_end = inner->slot.stack_end;
	}
}

static int list_calls(const struct slots *slots, struct pinned_call **calls, size_t *count)
{
	uint64_t latest = 0;
	size_t capacity = 0;
	int err = 0;

	for (size_t i = 0; i < slots->count && !err; i++) {
		const struct slot_at *at = &slots->items[i];

		if (i && (slots->items[i - 1].key.tid != at->key.tid ||
			  slots->items[i - 1].slot.stack_end != at->slot.stack_end))
			latest = 0;
		err = add_calls(calls, count, &capacity, at, at->key.of_process ? 0 : latest);
		if (at->slot.last_ns > latest)
			latest = at->slot.last_ns;
	}
	return err;
}

int pinned_open_calls(const struct pinned *pinned, struct pinned_call **calls, size_t *count)
{
	struct slots slots = {0};
	int err = add_near(pinned, &slots);

	*calls = NULL;
	*count = 0;
	if (!err)
		err = add_hashed(pinned, &slots);
	if (!err) {
		if (slots.count)
			qsort(slots.items, slots.count, sizeof(*slots.items), by_thread_and_depth);
		settle_keys(&slots);
		if (slots.count)
			qsort(slots.items, slots.count, sizeof(*slots.items), by_stack_and_depth);
		err = list_calls(&slots, calls, count);
	}
	free(slots.items);
	if (err)
		log_error("cannot read which calls of %s are open: %s", pinned->dir,
			  strerror(-err));
	return err;
}
