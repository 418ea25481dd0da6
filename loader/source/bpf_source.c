// SPDX-License-Identifier: GPL-2.0-or-later
#include "source/bpf_source.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "bpf/scope_event.h"
#include "source/bpf_ring.h"

#define BATCH 1024
/* for a program that was preempted between reserve and submit */
#define LAST_RECORD_WAIT_NS 1000000000ull

struct bpf_source {
	struct source base;
	struct bpf_source_maps maps;
	struct bpf_source_lifecycle lifecycle;
	struct bpf_ring ring;
	size_t function_count;
	int cpu_count;
	struct function_accounting *accounts;
	struct hooked_scope *batch;
	size_t batched;
};

/* A slot as it stands when the probes are gone. */
struct open_entry {
	struct open_key key;
	struct open_slot slot;
};

struct open_entries {
	struct open_entry *items;
	size_t count;
	size_t capacity;
};

static struct bpf_source *of(struct source *source)
{
	return (struct bpf_source *)source;
}

/* ---- records ---- */

static int flush(struct bpf_source *source, struct event_output *output)
{
	int err = 0;

	if (source->batched)
		err = output->hooked(output, source->batch, source->batched);
	source->batched = 0;
	return err;
}

static int say_damaged(const char *what, unsigned long long value)
{
	log_error(
		"the kernel's ring holds %s (%llu): the BPF programs are not those of this scopetrace; "
		"load them anew",
		what, value);
	return -EBADMSG;
}

static uint16_t scope_flags(const struct scope_event *record)
{
	uint16_t flags = record->start_tid == record->tid ? 0 : SCOPE_FLAG_MIGRATED;

	if (record->header.flags & EVENT_FLAG_UNFINISHED)
		flags |= SCOPE_FLAG_UNFINISHED;
	if (record->header.flags & EVENT_FLAG_UNWOUND)
		flags |= SCOPE_FLAG_UNWOUND;
	if (record->header.flags & EVENT_FLAG_INSTANT)
		flags |= SCOPE_FLAG_INSTANT;
	return flags;
}

static int take_scope(struct bpf_source *source, struct event_output *output,
		      const struct scope_event *record)
{
	struct hooked_scope *scope = &source->batch[source->batched];

	if (record->function >= source->function_count)
		return say_damaged("a function that was not hooked", record->function);
	if (record->end_ns < record->start_ns)
		return say_damaged("a call that ends before it starts", record->start_ns);
	*scope = (struct hooked_scope){
		.start_ns = record->start_ns,
		.end_ns = record->end_ns,
		.sp = record->sp,
		.pid = record->tgid,
		.tid = record->tid,
		.function = record->function,
		.cpu = (uint16_t)record->header.cpu,
		.flags = scope_flags(record),
		.position = (uint32_t)(source->ring.position / 8),
	};
	if (scope->flags & SCOPE_FLAG_MIGRATED)
		scope->start_tid = record->start_tid;
	if (++source->batched < BATCH)
		return 0;
	return flush(source, output);
}

static int take_loss(struct event_output *output, const struct loss_record *record)
{
	struct loss_event loss = {
		.first_ns = record->first_ns,
		.last_ns = record->last_ns,
		.count = record->count,
		.place = LOSS_KERNEL_RING,
		.index = (uint16_t)record->header.cpu,
	};

	return output->loss(output, &loss);
}

/* A process that runs another program now is, to a timeline, a thread with another name. */
static uint32_t thread_change(uint16_t type)
{
	switch (type) {
	case EVENT_THREAD:
		return THREAD_SEEN;
	case EVENT_EXIT:
		return THREAD_EXITED;
	default:
		return THREAD_NAMED;
	}
}

static int take_thread(struct bpf_source *source, struct event_output *output,
		       const struct thread_record *record)
{
	const struct bpf_source_lifecycle *life = &source->lifecycle;
	size_t length = strnlen(record->comm, sizeof(record->comm));
	struct thread_info thread = {
		.start_ns = record->thread_start_ns,
		.time_ns = record->time_ns,
		.pid = record->tgid,
		.tid = record->tid,
		.change = thread_change(record->header.type),
	};
	char comm[sizeof(record->comm) + 1];
	int err = output->string(output, record->comm, length, &thread.name);

	if (!err)
		err = output->thread(output, &thread);
	if (!err && record->header.type == EVENT_EXEC && life->execed) {
		snprintf(comm, sizeof(comm), "%.*s", (int)length, record->comm);
		life->execed(life->context, record->tgid, record->former, comm, record->time_ns);
	}
	return err;
}

/* The child is not traced: it is no lane. */
static int take_fork(const struct bpf_source *source, const struct thread_record *record)
{
	const struct bpf_source_lifecycle *life = &source->lifecycle;

	if (life->forked)
		life->forked(life->context, record->tgid, record->former, record->time_ns);
	return 0;
}

static uint32_t record_size(uint16_t type)
{
	switch (type) {
	case EVENT_SCOPE:
		return sizeof(struct scope_event);
	case EVENT_LOSS:
		return sizeof(struct loss_record);
	case EVENT_THREAD:
	case EVENT_EXIT:
	case EVENT_EXEC:
	case EVENT_RENAME:
	case EVENT_FORK:
		return sizeof(struct thread_record);
	default:
		return 0;
	}
}

/* Scopes are put out in batches; whatever else comes goes out behind those before it. */
static int take_record(struct bpf_source *source, struct event_output *output, const void *record,
		       uint32_t length)
{
	const struct event_header *header = record;
	int err;

	if (length < sizeof(*header) || !record_size(header->type) ||
	    length != record_size(header->type))
		return say_damaged("a record of another size", length);
	if (header->type == EVENT_SCOPE)
		return take_scope(source, output, record);
	err = flush(source, output);
	if (err)
		return err;
	switch (header->type) {
	case EVENT_LOSS:
		return take_loss(output, record);
	case EVENT_FORK:
		return take_fork(source, record);
	default:
		return take_thread(source, output, record);
	}
}

/* ---- draining ---- */

/*
 * All that was produced by now. The reader's position is published only when nothing is left in the
 * batch; after an error the records that are not out stand in the ring for the next drain.
 */
static ssize_t drain(struct source *base, struct event_output *output)
{
	struct bpf_source *source = of(base);
	uint64_t end = bpf_ring_produced(&source->ring);
	enum bpf_ring_state state;
	const void *record;
	ssize_t events = 0;
	uint32_t length;
	int err = 0;

	if (output->span && end > source->ring.position)
		output->span(output, source->ring.position, end);
	while ((state = bpf_ring_next(&source->ring, end, &record, &length)) == BPF_RING_RECORD) {
		err = take_record(source, output, record, length);
		if (err)
			goto out;
		if (!source->batched)
			bpf_ring_release(&source->ring);
		events++;
	}
	err = flush(source, output);
out:
	if (err) {
		source->batched = 0;
		bpf_ring_rewind(&source->ring);
		return err;
	}
	bpf_ring_release(&source->ring);
	if (state == BPF_RING_DAMAGED)
		return say_damaged("a record that reaches beyond its end, at",
				   source->ring.position);
	return events;
}

/* Until the ring is empty: the last record may still be under way. */
static int drain_rest(struct bpf_source *source, struct event_output *output)
{
	uint64_t deadline = io_now_ns() + LAST_RECORD_WAIT_NS;

	for (;;) {
		ssize_t events = drain(&source->base, output);

		if (events < 0)
			return (int)events;
		if (!bpf_source_backlog(&source->base))
			return 0;
		if (io_now_ns() > deadline) {
			log_error(
				"a record in the kernel's ring is never finished: were the probes detached?");
			return -ETIMEDOUT;
		}
		sched_yield();
	}
}

static bool gone(struct source *base)
{
	(void)base;
	return false;
}

/* ---- the end: losses that no record told ---- */

static int put_pending_losses(struct bpf_source *source, struct event_output *output)
{
	struct pending_loss *pending = calloc((size_t)source->cpu_count, sizeof(*pending));
	uint64_t thread_records = 0;
	uint32_t zero = 0;
	int err =
		pending ? bpf_map_lookup_elem(source->maps.pending_loss, &zero, pending) : -ENOMEM;

	if (err)
		log_error("cannot read what the kernel's ring has lost: %s", strerror(-err));
	for (int cpu = 0; !err && cpu < source->cpu_count; cpu++) {
		struct loss_event loss = {
			.first_ns = pending[cpu].first_ns,
			.last_ns = pending[cpu].last_ns,
			.count = pending[cpu].count,
			.place = LOSS_KERNEL_RING,
			.index = (uint16_t)cpu,
		};

		thread_records += pending[cpu].thread_records;
		if (loss.count)
			err = output->loss(output, &loss);
	}
	if (thread_records)
		log_warning("%llu starts, ends or renames of threads found no room in the kernel's "
			    "ring: their lanes may lack names; choose a larger ring",
			    (unsigned long long)thread_records);
	free(pending);
	return err;
}

/* ---- the end: frames that are open ---- */

/* Those of near_scopes, which is mapped: its places are many and mostly free. */
static int collect_near(const struct bpf_source *source, struct open_entries *open)
{
	const size_t length = NEAR_SCOPES * sizeof(struct near_slot);
	const struct near_slot *near =
		mmap(NULL, length, PROT_READ, MAP_SHARED, source->maps.near_scopes, 0);
	int err = near == MAP_FAILED ? -errno : 0;

	if (err)
		return err;
	for (size_t i = 0; !err && i < NEAR_SCOPES; i++) {
		if (!near[i].key.tid)
			continue;
		err = vec_grow(&open->items, &open->capacity, open->count);
		if (!err)
			open->items[open->count++] = (struct open_entry){near[i].key, near[i].slot};
	}
	munmap((void *)near, length);
	return err;
}

/* Those of open_scopes, a batch of the map's buckets each time: so none is met twice, whatever comes and
 * goes. */
static int collect_hashed(const struct bpf_source *source, struct open_entries *open)
{
	struct open_key *keys = calloc(BATCH, sizeof(*keys));
	struct open_slot *slots = calloc(BATCH, sizeof(*slots));
	uint32_t place = 0, *after = NULL;
	int err = keys && slots ? 0 : -ENOMEM;
	bool is_last = false;

	while (!err && !is_last) {
		uint32_t count = BATCH;

		err = bpf_map_lookup_batch(source->maps.open_scopes, after, &place, keys, slots,
					   &count, NULL);
		is_last = err == -ENOENT;
		if (is_last)
			err = 0;
		if (!err)
			err = vec_reserve((void **)&open->items, &open->capacity,
					  open->count + count, sizeof(*open->items));
		for (uint32_t i = 0; !err && i < count; i++)
			open->items[open->count++] = (struct open_entry){keys[i], slots[i]};
		after = &place;
	}
	free(keys);
	free(slots);
	return err;
}

static int by_key(const void *left, const void *right)
{
	const struct open_key *a = &((const struct open_entry *)left)->key;
	const struct open_key *b = &((const struct open_entry *)right)->key;

	if (a->of_process != b->of_process)
		return a->of_process < b->of_process ? -1 : 1;
	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return (a->sp > b->sp) - (a->sp < b->sp);
}

/* Threads one by one, in each its stacks, and on each stack the innermost first. */
static int by_stack_and_depth(const void *left, const void *right)
{
	const struct open_entry *a = left, *b = right;

	if (a->key.tid == b->key.tid && a->slot.stack_end != b->slot.stack_end)
		return a->slot.stack_end < b->slot.stack_end ? -1 : 1;
	return by_key(left, right);
}

static bool is_of_same_thread(const struct open_entry *a, const struct open_entry *b)
{
	return a->key.tid == b->key.tid && a->key.of_process == b->key.of_process;
}

/*
 * Each key once: one that moved from one map to the other meanwhile, or was made anew, may be there
 * twice.
 */
static void sort_by_key(struct open_entries *open)
{
	size_t kept = 0;

	if (open->count)
		qsort(open->items, open->count, sizeof(*open->items), by_key);
	for (size_t i = 0; i < open->count; i++)
		if (!kept || by_key(&open->items[kept - 1], &open->items[i]))
			open->items[kept++] = open->items[i];
	open->count = kept;
}

static int collect_open(const struct bpf_source *source, struct open_entries *open)
{
	int err = collect_near(source, open);

	if (!err)
		err = collect_hashed(source, open);
	if (err)
		log_error("cannot read which calls are open: %s", strerror(-err));
	else
		sort_by_key(open);
	return err;
}

/*
 * What became of a frame that no return has ended by now. `latest_above`: the latest hit of the
 * thread further out on its stack, after which what began before it can no longer be running.
 */
static uint16_t judge_open_frame(const struct open_slot *slot, const struct open_frame *frame,
				 bool was_left, uint64_t latest_above,
				 struct function_accounting *account, uint64_t *end_ns)
{
	if (was_left) { /* by a jump, and nothing hooked has returned for it */
		*end_ns = slot->tail_ns;
		account->completed++;
		account->returns++;
		return 0;
	}
	if (slot->state & OPEN_SLOT_ENDED)
		*end_ns = slot->last_ns;
	else if (frame->start_ns < latest_above) {
		account->unwound++;
		return SCOPE_FLAG_UNWOUND;
	}
	account->unfinished++;
	return SCOPE_FLAG_UNFINISHED;
}

/*
 * Where stacks migrate the key is the process's, and what is known is the thread that entered, if
 * that.
 */
static uint32_t open_tid(const struct open_entry *entry, const struct open_frame *frame)
{
	if (!entry->key.of_process)
		return entry->key.tid;
	return frame->flags & OPEN_FRAME_BY_EXIT ? frame->detail : entry->slot.tgid;
}

/* The frames of one slot, innermost first. */
static int put_open_slot(const struct bpf_source *source, struct function_accounting *accounts,
			 struct event_output *output, const struct open_entry *entry,
			 uint64_t latest_above, uint64_t now)
{
	const struct open_slot *slot = &entry->slot;
	uint32_t length = slot->chain_length < MAX_CHAIN ? slot->chain_length : MAX_CHAIN;
	bool was_left = slot->tail_ns;
	int err = 0;

	while (length-- > 0 && !err) {
		const struct open_frame *frame = &slot->frames[length];
		struct hooked_scope scope = {
			.start_ns = frame->start_ns,
			.end_ns = now,
			.sp = entry->key.sp,
			.pid = slot->tgid,
			.tid = open_tid(entry, frame),
			.function = frame->function,
		};

		if (frame->function >= source->function_count)
			return say_damaged("an open call of a function that was not hooked",
					   frame->function);
		/*
		 * One with a uretprobe is still waited for, and so are those that it was jumped to
		 * from.
		 */
		was_left = was_left && frame->flags & OPEN_FRAME_BY_EXIT;
		scope.flags = judge_open_frame(slot, frame, was_left, latest_above,
					       &accounts[frame->function], &scope.end_ns);
		err = output->hooked(output, &scope, 1);
	}
	return err;
}

/*
 * A key whose stack the kernel could not tell is on that of a key below it, if it lies before its
 * end.
 */
static void find_stacks(struct open_entries *open)
{
	for (size_t i = 1; i < open->count; i++) {
		const struct open_entry *inner = &open->items[i - 1];
		struct open_entry *entry = &open->items[i];

		if (!entry->slot.stack_end && is_of_same_thread(inner, entry) &&
		    entry->key.sp <= inner->slot.stack_end)
			entry->slot.stack_end = inner->slot.stack_end;
	}
}

/* Time of the latest hit in the entries that lie further out than `index` on the same stack. */
static void latest_hits_above(const struct open_entries *open, uint64_t *latest)
{
	for (size_t i = open->count; i-- > 0;) {
		const struct open_entry *entry = &open->items[i], *outer = entry + 1;

		latest[i] = 0;
		if (i + 1 == open->count || !is_of_same_thread(entry, outer) ||
		    outer->slot.stack_end != entry->slot.stack_end)
			continue;
		/*
		 * Stacks that migrate are many in one process: another one says nothing on this
		 * one.
		 */
		if (outer->key.of_process)
			continue;
		latest[i] = latest[i + 1];
		/*
		 * What an ended thread left behind says nothing on a later thread of the same id.
		 */
		if (!(outer->slot.state & OPEN_SLOT_ENDED) && outer->slot.last_ns > latest[i])
			latest[i] = outer->slot.last_ns;
	}
}

/* Puts them, which are sorted by key, and counts by function what becomes of them. */
static int put_entries(const struct bpf_source *source, struct function_accounting *accounts,
		       struct event_output *output, struct open_entries *open, uint64_t now)
{
	uint64_t *latest = calloc(open->count + 1, sizeof(*latest));
	int err = latest ? 0 : -ENOMEM;

	find_stacks(open);
	if (open->count)
		qsort(open->items, open->count, sizeof(*open->items), by_stack_and_depth);
	if (!err)
		latest_hits_above(open, latest);
	for (size_t i = 0; !err && i < open->count; i++)
		err = put_open_slot(source, accounts, output, &open->items[i], latest[i], now);
	free(latest);
	return err;
}

static int put_open_frames(struct bpf_source *source, struct event_output *output, uint64_t now)
{
	struct open_entries open = {0};
	int err = collect_open(source, &open);

	if (!err && open.count)
		err = put_entries(source, source->accounts, output, &open, now);
	free(open.items);
	return err;
}

/* ---- a look at what is open while probes are hit ---- */

/* Keeps what scopes are put. */
struct call_list {
	struct event_output output;
	struct hooked_scope *scopes;
	size_t count, capacity;
};

static int list_hooked(struct event_output *output, const struct hooked_scope *scopes, size_t count)
{
	struct call_list *list = (struct call_list *)output;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++) {
		err = vec_grow(&list->scopes, &list->capacity, list->count);
		if (!err)
			list->scopes[list->count++] = scopes[i];
	}
	return err;
}

/* Of the first look what the second found just so: a slot that a probe was changing is not. */
static void keep_steady(struct open_entries *first, struct open_entries *second)
{
	size_t kept = 0, at = 0;

	for (size_t i = 0; i < first->count; i++) {
		while (at < second->count && by_key(&second->items[at], &first->items[i]) < 0)
			at++;
		if (at < second->count &&
		    !memcmp(&second->items[at], &first->items[i], sizeof(*first->items)))
			first->items[kept++] = first->items[i];
	}
	first->count = kept;
}

int bpf_source_open_calls(const struct source *base, uint64_t now, struct hooked_scope **scopes,
			  size_t *count)
{
	const struct bpf_source *source = (const struct bpf_source *)base;
	struct call_list list = {.output.hooked = list_hooked};
	struct open_entries first = {0}, second = {0};
	struct function_accounting *uncounted =
		calloc(source->function_count + 1, sizeof(*uncounted));
	int err = uncounted ? 0 : -ENOMEM;

	if (!err)
		err = collect_open(source, &first);
	if (!err)
		err = collect_open(source, &second);
	if (!err) {
		keep_steady(&first, &second);
		err = put_entries(source, uncounted, &list.output, &first, now);
	}
	free(first.items);
	free(second.items);
	free(uncounted);
	*scopes = list.scopes;
	*count = list.count;
	return err;
}

/* ---- the end: accounts ---- */

static void add_counters(struct function_accounting *account,
			 const struct function_counters *counters)
{
	account->entries += counters->entries;
	account->returns += counters->returns;
	account->opened += counters->opened;
	account->completed += counters->completed;
	account->discarded += counters->discarded;
	account->unfinished += counters->unfinished;
	account->orphans += counters->orphans;
	account->too_deep += counters->too_deep;
	account->not_a_call += counters->not_a_call;
	account->not_a_return += counters->not_a_return;
	account->filtered += counters->filtered;
	account->map_full += counters->map_full;
	account->chain_full += counters->chain_full;
	account->below_minimum += counters->below_minimum;
	account->ring_lost += counters->ring_lost;
	account->unwound += counters->unwound;
	account->duplicates += counters->duplicates;
	account->instants += counters->instants;
}

static int read_counters(struct bpf_source *source)
{
	struct function_counters *counters = calloc((size_t)source->cpu_count, sizeof(*counters));
	int err = counters ? 0 : -ENOMEM;

	for (uint32_t id = 0; !err && id < source->function_count; id++) {
		err = bpf_map_lookup_elem(source->maps.counters, &id, counters);
		for (int cpu = 0; !err && cpu < source->cpu_count; cpu++)
			add_counters(&source->accounts[id], &counters[cpu]);
	}
	if (err)
		log_error("cannot read the kernel's counters: %s", strerror(-err));
	free(counters);
	return err;
}

static int finish(struct source *base, struct event_output *output)
{
	struct bpf_source *source = of(base);
	uint64_t now = io_now_ns();
	int err = drain_rest(source, output);

	memset(source->accounts, 0, source->function_count * sizeof(*source->accounts));
	if (!err)
		err = put_pending_losses(source, output);
	if (!err)
		err = put_open_frames(source, output, now);
	return err ? err : read_counters(source);
}

uint32_t bpf_source_ring_id(const struct source *base)
{
	struct bpf_map_info info = {0};
	uint32_t length = sizeof(info);
	int fd = ((const struct bpf_source *)base)->maps.events;

	return bpf_map_get_info_by_fd(fd, &info, &length) ? 0 : info.id;
}

/* ---- making it ---- */

static void destroy(struct source *base)
{
	struct bpf_source *source = of(base);

	if (!source)
		return;
	bpf_ring_unmap(&source->ring);
	free(source->accounts);
	free(source->batch);
	free(source);
}

static const struct source_ops bpf_source_ops = {
	.name = "hooked functions",
	.drain = drain,
	.finish = finish,
	.gone = gone,
	.destroy = destroy,
};

struct source *bpf_source_create(const struct bpf_source_maps *maps, size_t function_count)
{
	struct bpf_source *source = calloc(1, sizeof(*source));
	int err = -ENOMEM;

	if (!source)
		return NULL;
	source->base.ops = &bpf_source_ops;
	source->maps = *maps;
	source->function_count = function_count;
	source->accounts = calloc(function_count ? function_count : 1, sizeof(*source->accounts));
	source->batch = calloc(BATCH, sizeof(*source->batch));
	if (!source->accounts || !source->batch)
		goto fail;
	source->cpu_count = libbpf_num_possible_cpus();
	err = source->cpu_count < 0 ? source->cpu_count : bpf_ring_map(&source->ring, maps->events);
	if (!err)
		return &source->base;
fail:
	log_error("cannot read the kernel's ring of completed calls: %s", strerror(-err));
	destroy(&source->base);
	errno = -err;
	return NULL;
}

void bpf_source_tell_lifecycle(struct source *base, const struct bpf_source_lifecycle *lifecycle)
{
	of(base)->lifecycle = *lifecycle;
}

void bpf_source_set_accounted(struct source *base)
{
	bpf_ring_set_accounted(&((struct bpf_source *)base)->ring);
}

size_t bpf_source_backlog(const struct source *base)
{
	const struct bpf_source *source = (const struct bpf_source *)base;

	return bpf_ring_produced(&source->ring) - source->ring.position;
}

struct function_accounting bpf_source_accounting(const struct source *base, uint32_t id)
{
	const struct bpf_source *source = (const struct bpf_source *)base;

	return id < source->function_count ? source->accounts[id] : (struct function_accounting){0};
}
