// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/flight.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/vec.h"
#include "file/format.h"
#include "file/writer.h"
#include "event/forward.h"
#include "base/intern.h"

#define BLOCK_BYTES (64u << 10)
/* a block holds at most this part of the window, so that it goes in small steps */
#define BLOCK_SHARES	64u
#define CLOCKS		4u     /* enum clock_id is smaller */
#define OPEN_MOST	1024u  /* of a thread: the oldest one goes, as its stop has been lost */
#define ANCHORS_KEPT	2u     /* of each clock, from before the window: they say how fast it ran */
#define NAMES_STEP	65536u /* so many more than are in use come before they are looked through */
#define NAME_BYTES_STEP (8u << 20)
#define THREADS_MOST	65536u /* that are known from before the window */

enum item_kind {
	ITEM_HOOKED,
	ITEM_MANUAL,
	ITEM_LOSS,
	ITEM_THREAD,
	ITEM_ANCHOR,
	ITEM_PROCESS,
	ITEM_KINDS
};

static const size_t item_sizes[ITEM_KINDS] = {
	[ITEM_HOOKED] = sizeof(struct hooked_scope), [ITEM_MANUAL] = sizeof(struct manual_event),
	[ITEM_LOSS] = sizeof(struct loss_event),     [ITEM_THREAD] = sizeof(struct thread_info),
	[ITEM_ANCHOR] = sizeof(struct clock_anchor), [ITEM_PROCESS] = sizeof(struct process_info),
};

/* Records of one kind that came one after another; they follow it. */
struct item {
	uint32_t kind; /* enum item_kind */
	uint32_t count;
};

struct block {
	struct block *next;
	uint64_t first_ns, newest_ns; /* when its first and its newest record came */
	uint32_t used;
	uint32_t last_item; /* where it begins; only if `used` is not 0 */
	unsigned char bytes[BLOCK_BYTES];
};

/* What a thread was told to be before the window. */
struct known_thread {
	uint32_t pid, tid;
	struct thread_info seen, named; /* change 0: it was not */
	struct thread_info given;	/* the name that it gave itself */
	struct manual_event *open;	/* starts of scopes that were still open */
	size_t open_count, open_capacity;
};

struct flight {
	struct event_output output;
	uint64_t window_ns;
	size_t bytes_most;
	uint64_t (*now)(void);
	uint64_t held_ns; /* the window ends there; 0: now */

	struct block *oldest, *newest;
	size_t bytes;
	bool newest_is_closed;
	const struct block *writing; /* it and those behind it are not let go of */

	struct intern strings;
	size_t names_checked, name_bytes_checked; /* more than these are looked through */
	struct function_info *functions;
	uint64_t *expired_calls; /* by function */
	size_t function_count, function_capacity, expired_capacity;
	uint64_t expired_events;
	uint64_t shortest_ns;

	/* from before the window */
	struct process_info *processes; /* one for each pid, the last */
	size_t process_count, process_capacity;
	struct known_thread *threads;
	size_t thread_count, thread_capacity;
	/* more than these are looked through: most of them may have ended */
	size_t threads_checked;
	struct hash_map thread_index; /* pid << 32 | tid -> threads */
	struct clock_anchor anchors[CLOCKS][ANCHORS_KEPT];
	uint64_t anchor_counts[CLOCKS];
};

static_assert((BLOCK_SHARES + 2) * sizeof(struct block) <= FLIGHT_BYTES_LEAST,
	      "few records take no time away");

static struct flight *of(struct event_output *output)
{
	return (struct flight *)((char *)output - offsetof(struct flight, output));
}

/* ---- what is let go of ---- */

static void count_expired(struct flight *flight, const struct hooked_scope *scope)
{
	flight->expired_calls[scope->function] += !(scope->flags & SCOPE_FLAG_UNFINISHED);
}

static uint64_t thread_key(uint32_t pid, uint32_t tid)
{
	return (uint64_t)pid << 32 | tid;
}

static bool has_ended(const struct known_thread *known)
{
	return !known->seen.change && !known->named.change && !known->given.change &&
	       !known->open_count;
}

/* Forgets those that have ended, and of those known for longest `more` that have nothing open. */
static void forget_threads(struct flight *flight, size_t more)
{
	size_t kept = 0;

	hash_map_clear(&flight->thread_index);
	for (size_t i = 0; i < flight->thread_count; i++) {
		struct known_thread *known = &flight->threads[i];

		if (has_ended(known) || (i < more && !known->open_count)) {
			free(known->open);
			continue;
		}
		flight->threads[kept] = *known;
		/* Without memory for this one its name is missing, no more. */
		hash_map_put(&flight->thread_index, thread_key(known->pid, known->tid),
			     (uint32_t)kept++);
	}
	flight->thread_count = kept;
}

/* What is known stays within its bound, and the work of it in proportion to what comes. */
static void limit_threads(struct flight *flight)
{
	if (flight->thread_count < flight->threads_checked)
		return;
	forget_threads(flight, 0);
	if (flight->thread_count >= THREADS_MOST)
		forget_threads(flight, THREADS_MOST / 2);
	flight->threads_checked = 2 * flight->thread_count + 1024;
	if (flight->threads_checked > THREADS_MOST)
		flight->threads_checked = THREADS_MOST;
}

/* NULL without memory: then a name is missing, no more. */
static struct known_thread *know_thread(struct flight *flight, uint32_t pid, uint32_t tid)
{
	uint32_t index;

	if (hash_map_get(&flight->thread_index, thread_key(pid, tid), &index))
		return &flight->threads[index];
	limit_threads(flight);
	if (vec_grow(&flight->threads, &flight->thread_capacity, flight->thread_count) ||
	    hash_map_put(&flight->thread_index, thread_key(pid, tid),
			 (uint32_t)flight->thread_count))
		return NULL;
	flight->threads[flight->thread_count] = (struct known_thread){.pid = pid, .tid = tid};
	return &flight->threads[flight->thread_count++];
}

static void keep_thread(struct flight *flight, const struct thread_info *thread)
{
	struct known_thread *known = know_thread(flight, thread->pid, thread->tid);

	if (!known)
		return;
	/* Nothing of one that has ended comes after the window. */
	if (thread->change == THREAD_EXITED) {
		known->seen.change = known->named.change = known->given.change = 0;
		known->open_count = 0;
	}
	if (thread->change == THREAD_NAMED)
		known->named = *thread;
	else if (thread->change == THREAD_SEEN)
		known->seen = *thread;
}

static void remove_open(struct known_thread *known, size_t i)
{
	known->open_count--;
	memmove(&known->open[i], &known->open[i + 1],
		(known->open_count - i) * sizeof(*known->open));
}

/* Without memory it is let go of like others. */
static void keep_open(struct known_thread *known, const struct manual_event *start)
{
	if (known->open_count == OPEN_MOST)
		remove_open(known, 0);
	if (!vec_grow(&known->open, &known->open_capacity, known->open_count))
		known->open[known->open_count++] = *start;
}

static void close_open(struct known_thread *known, uint64_t scope_id)
{
	for (size_t i = known->open_count; i-- > 0;) {
		if (known->open[i].scope_id != scope_id)
			continue;
		remove_open(known, i);
		return;
	}
}

static void keep_given_name(struct known_thread *known, const struct manual_event *event,
			    uint64_t time_ns)
{
	known->given = (struct thread_info){.time_ns = time_ns,
					    .pid = event->pid,
					    .tid = event->tid,
					    .name = event->name,
					    .change = THREAD_NAMED};
}

/*
 * What a thread said once must outlive the window: its name, and what it has begun and not ended.
 */
static void keep_manual(struct flight *flight, const struct manual_event *events, size_t count,
			uint64_t time_ns)
{
	for (size_t i = 0; i < count; i++) {
		const struct manual_event *event = &events[i];
		struct known_thread *known;

		if (event->kind != MANUAL_START && event->kind != MANUAL_STOP &&
		    event->kind != MANUAL_THREAD_NAME && event->kind != MANUAL_THREAD_START)
			continue;
		known = know_thread(flight, event->pid, event->tid);
		if (!known)
			continue;
		if (event->kind == MANUAL_START)
			keep_open(known, event);
		else if (event->kind == MANUAL_STOP)
			close_open(known, event->scope_id);
		else if (event->kind == MANUAL_THREAD_NAME)
			keep_given_name(known, event, time_ns);
		else
			known->open_count = known->given.change = 0;
	}
}

static void keep_anchor(struct flight *flight, const struct clock_anchor *anchor)
{
	if (anchor->clock < CLOCKS)
		flight->anchors[anchor->clock]
			       [flight->anchor_counts[anchor->clock]++ % ANCHORS_KEPT] = *anchor;
}

static void forget_open(struct flight *flight, uint32_t pid)
{
	for (size_t i = 0; i < flight->thread_count; i++)
		if (flight->threads[i].open_count && flight->threads[i].open[0].pid == pid)
			flight->threads[i].open_count = 0;
}

static void keep_process(struct flight *flight, const struct process_info *process)
{
	size_t i = 0;

	while (i < flight->process_count && flight->processes[i].pid != process->pid)
		i++;
	if (i == flight->process_count) {
		if (vec_grow(&flight->processes, &flight->process_capacity, flight->process_count))
			return;
		flight->processes[flight->process_count++] = *process;
	}
	/* Another program: what the one before had begun it will not end. */
	if (process->segment != flight->processes[i].segment)
		forget_open(flight, process->pid);
	flight->processes[i] = *process;
}

static void let_go_of_item(struct flight *flight, const struct block *block,
			   const struct item *item)
{
	const unsigned char *record = (const unsigned char *)(item + 1);

	if (item->kind == ITEM_MANUAL) {
		flight->expired_events += item->count;
		keep_manual(flight, (const struct manual_event *)(item + 1), item->count,
			    block->first_ns);
		return;
	}
	for (uint32_t i = 0; i < item->count; i++, record += item_sizes[item->kind]) {
		if (item->kind == ITEM_HOOKED)
			count_expired(flight, (const struct hooked_scope *)record);
		else if (item->kind == ITEM_THREAD)
			keep_thread(flight, (const struct thread_info *)record);
		else if (item->kind == ITEM_ANCHOR)
			keep_anchor(flight, (const struct clock_anchor *)record);
		else if (item->kind == ITEM_PROCESS)
			keep_process(flight, (const struct process_info *)record);
	}
}

static const struct item *next_item(const struct block *block, uint32_t *at)
{
	const struct item *item = (const struct item *)&block->bytes[*at];

	if (*at >= block->used)
		return NULL;
	*at += (uint32_t)(sizeof(*item) + item->count * item_sizes[item->kind]);
	return item;
}

static void let_go_of_oldest(struct flight *flight)
{
	struct block *block = flight->oldest;
	const struct item *item;
	uint32_t at = 0;

	while ((item = next_item(block, &at)))
		let_go_of_item(flight, block, item);
	flight->oldest = block->next;
	if (!flight->oldest)
		flight->newest = NULL;
	flight->bytes -= sizeof(*block);
	free(block);
}

static void expire(struct flight *flight, uint64_t now)
{
	uint64_t end = flight->held_ns ? flight->held_ns : now;

	while (flight->oldest && flight->oldest != flight->writing &&
	       flight->oldest->newest_ns + flight->window_ns < end)
		let_go_of_oldest(flight);
}

/* Makes room for one more block, at the cost of the window. */
static void shorten(struct flight *flight, uint64_t now)
{
	while (flight->bytes + sizeof(struct block) > flight->bytes_most && flight->oldest &&
	       flight->oldest != flight->writing) {
		uint64_t end = flight->held_ns && flight->held_ns < now ? flight->held_ns : now;
		uint64_t newest = flight->oldest->newest_ns, left = end > newest ? end - newest : 1;

		if (left < flight->window_ns &&
		    (!flight->shortest_ns || left < flight->shortest_ns))
			flight->shortest_ns = left;
		let_go_of_oldest(flight);
	}
}

/* ---- what comes ---- */

static int open_block(struct flight *flight, uint64_t now)
{
	struct block *block;

	shorten(flight, now);
	block = malloc(sizeof(*block));
	if (!block) {
		log_error(
			"no memory for the flight recorder (%zu bytes are in use): choose a smaller --flight-size",
			flight->bytes);
		return -ENOMEM;
	}
	block->next = NULL;
	block->first_ns = block->newest_ns = now;
	block->used = block->last_item = 0;
	if (flight->newest)
		flight->newest->next = block;
	else
		flight->oldest = block;
	flight->newest = block;
	flight->newest_is_closed = false;
	flight->bytes += sizeof(*block);
	return 0;
}

/* How many records of the kind the newest block takes; an item before them if need be. */
static uint32_t room(const struct flight *flight, enum item_kind kind, uint64_t now)
{
	const struct block *block = flight->newest;

	if (!block || flight->newest_is_closed ||
	    now - block->first_ns > flight->window_ns / BLOCK_SHARES ||
	    BLOCK_BYTES - block->used < sizeof(struct item))
		return 0;
	return (uint32_t)((BLOCK_BYTES - block->used - sizeof(struct item)) / item_sizes[kind]);
}

static void append(struct block *block, enum item_kind kind, const void *records, uint32_t count)
{
	struct item *item = (struct item *)&block->bytes[block->last_item];

	if (!block->used || item->kind != kind) {
		block->last_item = block->used;
		item = (struct item *)&block->bytes[block->used];
		*item = (struct item){.kind = kind};
		block->used += (uint32_t)sizeof(*item);
	}
	memcpy(&block->bytes[block->used], records, count * item_sizes[kind]);
	block->used += (uint32_t)(count * item_sizes[kind]);
	item->count += count;
}

static int keep(struct flight *flight, enum item_kind kind, const void *records, size_t count)
{
	const unsigned char *from = records;
	uint64_t now = flight->now();
	int err = 0;

	expire(flight, now);
	while (count && !err) {
		uint32_t fit = room(flight, kind, now);

		if (!fit) {
			err = open_block(flight, now);
			continue;
		}
		if (fit > count)
			fit = (uint32_t)count;
		append(flight->newest, kind, from, fit);
		flight->newest->newest_ns = now;
		from += fit * item_sizes[kind];
		count -= fit;
	}
	return err;
}

static int output_string(struct event_output *output, const char *bytes, size_t length,
			 uint32_t *id)
{
	bool added;

	if (length > SCOPE_FILE_STRING_MAX)
		length = SCOPE_FILE_STRING_MAX;
	return intern_put(&of(output)->strings, bytes, length, id, &added);
}

static int output_hooked(struct event_output *output, const struct hooked_scope *scopes,
			 size_t count)
{
	struct flight *flight = of(output);

	for (size_t i = 0; i < count; i++) {
		if (scopes[i].function < flight->function_count)
			continue;
		log_error("a scope of function %u, which was not declared, is not kept",
			  scopes[i].function);
		return -EINVAL;
	}
	return keep(flight, ITEM_HOOKED, scopes, count);
}

static int output_manual(struct event_output *output, const struct manual_event *events,
			 size_t count)
{
	return keep(of(output), ITEM_MANUAL, events, count);
}

static int output_thread(struct event_output *output, const struct thread_info *thread)
{
	return keep(of(output), ITEM_THREAD, thread, 1);
}

static int output_anchor(struct event_output *output, const struct clock_anchor *anchor)
{
	return keep(of(output), ITEM_ANCHOR, anchor, 1);
}

static int output_loss(struct event_output *output, const struct loss_event *loss)
{
	return keep(of(output), ITEM_LOSS, loss, 1);
}

static int output_process(struct event_output *output, const struct process_info *process)
{
	return keep(of(output), ITEM_PROCESS, process, 1);
}

/* ---- names ---- */

static void visit_process(struct process_info *process, intern_visitor visit, void *context)
{
	visit(context, &process->name);
	visit(context, &process->command);
}

static void visit_events(struct manual_event *events, size_t count, intern_visitor visit,
			 void *context)
{
	for (size_t i = 0; i < count; i++)
		visit(context, &events[i].name);
}

static void visit_item(struct item *item, intern_visitor visit, void *context)
{
	struct thread_info *threads = (struct thread_info *)(item + 1);
	struct process_info *processes = (struct process_info *)(item + 1);

	if (item->kind == ITEM_MANUAL)
		visit_events((struct manual_event *)(item + 1), item->count, visit, context);
	for (uint32_t i = 0; item->kind == ITEM_THREAD && i < item->count; i++)
		visit(context, &threads[i].name);
	for (uint32_t i = 0; item->kind == ITEM_PROCESS && i < item->count; i++)
		visit_process(&processes[i], visit, context);
}

/* Wherever a name is borne. */
static void visit_names(struct flight *flight, intern_visitor visit, void *context)
{
	for (size_t i = 0; i < flight->function_count; i++) {
		visit(context, &flight->functions[i].name);
		visit(context, &flight->functions[i].module);
	}
	for (size_t i = 0; i < flight->process_count; i++)
		visit_process(&flight->processes[i], visit, context);
	for (size_t i = 0; i < flight->thread_count; i++) {
		struct known_thread *known = &flight->threads[i];

		visit(context, &known->seen.name);
		visit(context, &known->named.name);
		visit(context, &known->given.name);
		visit_events(known->open, known->open_count, visit, context);
	}
	for (struct block *block = flight->oldest; block; block = block->next) {
		const struct item *item;
		uint32_t at = 0;

		while ((item = next_item(block, &at)))
			visit_item((struct item *)item, visit, context);
	}
}

static void mark_name(void *context, uint32_t *id)
{
	uint32_t *to = context;

	to[*id] = *id;
}

static void change_name(void *context, uint32_t *id)
{
	const uint32_t *to = context;

	*id = to[*id];
}

/* The strings that are marked, and what becomes of their ids. */
static int copy_names(const struct intern *strings, uint32_t *to, struct intern *left)
{
	bool added;
	int err = 0;

	for (size_t i = 0; i < strings->count && !err; i++)
		if (to[i + 1])
			err = intern_put(left, strings->bytes + strings->entries[i].offset,
					 strings->entries[i].length, &to[i + 1], &added);
	return err;
}

void flight_collect_names(struct flight *flight,
			  void (*others)(void *context, intern_visitor visit, void *visited),
			  void *context)
{
	struct intern left = {0}, *strings = &flight->strings;
	uint32_t *to;

	if (strings->count < flight->names_checked &&
	    strings->byte_count < flight->name_bytes_checked)
		return;
	to = calloc(strings->count + 1, sizeof(*to));
	if (!to)
		return;
	visit_names(flight, mark_name, to);
	others(context, mark_name, to);
	if (copy_names(strings, to, &left)) {
		intern_clear(&left);
	} else {
		visit_names(flight, change_name, to);
		others(context, change_name, to);
		intern_clear(strings);
		*strings = left;
	}
	free(to);
	flight->names_checked = 2 * strings->count + NAMES_STEP;
	flight->name_bytes_checked = 2 * strings->byte_count + NAME_BYTES_STEP;
}

size_t flight_names(const struct flight *flight)
{
	return flight->strings.count;
}

/* ---- into a file ---- */

/* One file being written. */
struct copy {
	struct renaming into; /* the writer's output */
	struct flight *flight;
	struct scope_file_writer *writer;
	const struct flight_writing *how;
	uint32_t *ids;		    /* by name: its id in the file; 0: not there yet */
	struct hash_map open_index; /* call_key() -> how->open */
	bool *ended;		    /* of how->open */
};

static uint64_t call_key(const struct hooked_scope *scope)
{
	const uint64_t words[] = {scope->start_ns, scope->sp,
				  (uint64_t)scope->tid << 32 | scope->function};

	return hash_bytes(words, sizeof(words));
}

static bool is_same_call(const struct hooked_scope *a, const struct hooked_scope *b)
{
	return a->start_ns == b->start_ns && a->sp == b->sp && a->tid == b->tid &&
	       a->function == b->function;
}

/* It was running when we looked, and has ended since. */
static void note_end(struct copy *copy, const struct hooked_scope *scope)
{
	uint32_t index;

	if (copy->how->open_count && hash_map_get(&copy->open_index, call_key(scope), &index) &&
	    is_same_call(&copy->how->open[index], scope))
		copy->ended[index] = true;
}

static int index_open(struct copy *copy)
{
	int err = 0;

	copy->ended = calloc(copy->how->open_count + 1, sizeof(*copy->ended));
	if (!copy->ended)
		return -ENOMEM;
	for (size_t i = 0; i < copy->how->open_count && !err; i++)
		err = hash_map_put(&copy->open_index, call_key(&copy->how->open[i]), (uint32_t)i);
	return err;
}

static int write_running(struct copy *copy)
{
	int err = 0;

	for (size_t i = 0; i < copy->how->open_count && !err; i++)
		if (!copy->ended[i] && copy->how->open[i].function < copy->flight->function_count)
			err = copy->into.next->hooked(copy->into.next, &copy->how->open[i], 1);
	return err;
}

/* *id becomes the file's. */
static int rename_in(struct renaming *into, uint32_t *id)
{
	struct copy *copy = (struct copy *)((char *)into - offsetof(struct copy, into));
	const struct intern *strings = &copy->flight->strings;
	uint32_t *known = &copy->ids[*id];
	int err = 0;

	if (*id && !*known) {
		const struct intern_entry *entry = &strings->entries[*id - 1];

		err = into->next->string(into->next, strings->bytes + entry->offset, entry->length,
					 known);
	}
	if (*id)
		*id = *known;
	return err;
}

static int write_hooked(struct copy *copy, const struct hooked_scope *scopes, size_t count)
{
	int err = 0;

	for (size_t i = 0, run = 0; i <= count && !err; i++) {
		bool kept = i < count && (scopes[i].end_ns >= copy->how->since_ns ||
					  scopes[i].flags & SCOPE_FLAG_UNFINISHED);

		if (i < count)
			note_end(copy, &scopes[i]);
		if (kept)
			continue;
		if (i > run)
			err = copy->into.next->hooked(copy->into.next, &scopes[run], i - run);
		if (i < count && copy->how->last)
			count_expired(copy->flight, &scopes[i]);
		run = i + 1;
	}
	return err;
}

static int write_record(struct copy *copy, enum item_kind kind, const void *record)
{
	switch (kind) {
	case ITEM_LOSS:
		return copy->into.next->loss(copy->into.next, record);
	case ITEM_THREAD:
		return renaming_thread(&copy->into, record);
	case ITEM_ANCHOR:
		return copy->into.next->anchor(copy->into.next, record);
	case ITEM_PROCESS:
		return renaming_process(&copy->into, record);
	default:
		return -EBADMSG;
	}
}

static int write_item(struct copy *copy, const struct item *item)
{
	const unsigned char *record = (const unsigned char *)(item + 1);
	int err = 0;

	if (item->kind == ITEM_HOOKED)
		return write_hooked(copy, (const struct hooked_scope *)(item + 1), item->count);
	if (item->kind == ITEM_MANUAL)
		return renaming_manual(&copy->into, (const struct manual_event *)(item + 1),
				       item->count);
	for (uint32_t i = 0; i < item->count && !err; i++, record += item_sizes[item->kind])
		err = write_record(copy, (enum item_kind)item->kind, record);
	return err;
}

static int write_functions(struct copy *copy)
{
	int err = 0;

	for (size_t i = 0; i < copy->flight->function_count && !err; i++) {
		struct function_info function = copy->flight->functions[i];

		err = rename_in(&copy->into, &function.name);
		if (!err)
			err = rename_in(&copy->into, &function.module);
		if (!err)
			err = scope_file_writer_function(copy->writer, &function);
	}
	return err;
}

static int write_known_thread(struct copy *copy, const struct known_thread *known)
{
	const struct thread_info *told[] = {&known->seen, &known->named, &known->given};
	int err = 0;

	for (size_t i = 0; i < 3 && !err; i++)
		if (told[i]->change)
			err = renaming_thread(&copy->into, told[i]);
	return err;
}

/* They are in the file after all. */
static int write_open(struct copy *copy, const struct known_thread *known)
{
	if (copy->how->last)
		copy->flight->expired_events -= known->open_count;
	return renaming_manual(&copy->into, known->open, known->open_count);
}

static int write_anchors(struct copy *copy)
{
	const struct flight *flight = copy->flight;
	int err = 0;

	for (size_t clock = 0; clock < CLOCKS; clock++) {
		uint64_t count = flight->anchor_counts[clock];

		for (uint64_t i = count > ANCHORS_KEPT ? count - ANCHORS_KEPT : 0;
		     i < count && !err; i++)
			err = copy->into.next->anchor(copy->into.next,
						      &flight->anchors[clock][i % ANCHORS_KEPT]);
	}
	return err;
}

/* What is known from before the window. */
static int write_known(struct copy *copy)
{
	const struct flight *flight = copy->flight;
	int err = write_functions(copy);

	for (size_t i = 0; i < flight->process_count && !err; i++)
		err = renaming_process(&copy->into, &flight->processes[i]);
	for (size_t i = 0; i < flight->thread_count && !err; i++)
		err = write_known_thread(copy, &flight->threads[i]);
	if (!err)
		err = write_anchors(copy);
	for (size_t i = 0; i < flight->thread_count && !err; i++)
		err = write_open(copy, &flight->threads[i]);
	return err;
}

static int write_blocks(struct copy *copy)
{
	struct flight *flight = copy->flight;
	const struct block *block = flight->oldest, *last = flight->newest;
	int err = 0;

	/* What comes meanwhile goes into blocks behind. */
	flight->newest_is_closed = true;
	while (block && !err) {
		const struct item *item;
		uint32_t at = 0;

		flight->writing = block;
		while (!err && (item = next_item(block, &at)))
			err = write_item(copy, item);
		if (!err && copy->how->between)
			err = copy->how->between(copy->how->context);
		block = block == last ? NULL : block->next;
	}
	flight->writing = NULL;
	return err;
}

int flight_write(struct flight *flight, struct scope_file_writer *writer,
		 const struct flight_writing *how)
{
	struct copy copy = {.into = {scope_file_writer_output(writer), rename_in},
			    .flight = flight,
			    .writer = writer,
			    .how = how,
			    .ids = calloc(flight->strings.count + 1, sizeof(*copy.ids))};
	int err = copy.ids ? index_open(&copy) : -ENOMEM;

	if (!err)
		err = write_known(&copy);
	if (!err)
		err = write_blocks(&copy);
	if (!err)
		err = write_running(&copy);
	hash_map_clear(&copy.open_index);
	free(copy.ended);
	free(copy.ids);
	return err;
}

/* ---- the recorder ---- */

struct event_output *flight_output(struct flight *flight)
{
	return &flight->output;
}

int flight_function(struct flight *flight, const struct function_info *function)
{
	size_t count = flight->function_count;

	if (function->id != count || count >= SCOPE_FILE_FUNCTION_MAX) {
		log_error(
			"function id %u out of order: a capture declares functions 0, 1, 2 ... up to %u",
			function->id, SCOPE_FILE_FUNCTION_MAX - 1);
		return -EINVAL;
	}
	if (vec_grow(&flight->functions, &flight->function_capacity, count) ||
	    vec_grow(&flight->expired_calls, &flight->expired_capacity, count)) {
		log_error("no memory for the flight recorder's list of functions");
		return -ENOMEM;
	}
	flight->functions[count] = *function;
	flight->expired_calls[count] = 0;
	flight->function_count++;
	return 0;
}

void flight_expire(struct flight *flight)
{
	expire(flight, flight->now());
}

void flight_hold(struct flight *flight, uint64_t ns)
{
	flight->held_ns = ns;
}

bool flight_is_full(const struct flight *flight)
{
	return flight->writing && flight->oldest == flight->writing &&
	       flight->bytes + sizeof(struct block) > flight->bytes_most;
}

uint64_t flight_expired_calls(const struct flight *flight, uint32_t function)
{
	return function < flight->function_count ? flight->expired_calls[function] : 0;
}

uint64_t flight_expired_events(const struct flight *flight)
{
	return flight->expired_events;
}

uint64_t flight_shortest_ns(const struct flight *flight)
{
	return flight->shortest_ns;
}

size_t flight_bytes(const struct flight *flight)
{
	return flight->bytes;
}

size_t flight_known_threads(const struct flight *flight)
{
	return flight->thread_count;
}

void flight_set_clock(struct flight *flight, uint64_t (*now)(void))
{
	flight->now = now;
}

void flight_destroy(struct flight *flight)
{
	if (!flight)
		return;
	while (flight->oldest) {
		struct block *next = flight->oldest->next;

		free(flight->oldest);
		flight->oldest = next;
	}
	intern_clear(&flight->strings);
	hash_map_clear(&flight->thread_index);
	free(flight->functions);
	free(flight->expired_calls);
	free(flight->processes);
	for (size_t i = 0; i < flight->thread_count; i++)
		free(flight->threads[i].open);
	free(flight->threads);
	free(flight);
}

struct flight *flight_create(uint64_t window_ns, size_t bytes)
{
	struct flight *flight = calloc(1, sizeof(*flight));

	if (!flight) {
		log_error("no memory for the flight recorder");
		errno = ENOMEM;
		return NULL;
	}
	flight->output = (struct event_output){
		.string = output_string,
		.hooked = output_hooked,
		.manual = output_manual,
		.thread = output_thread,
		.anchor = output_anchor,
		.loss = output_loss,
		.process = output_process,
	};
	flight->window_ns = window_ns;
	flight->bytes_most = bytes;
	flight->now = io_now_ns;
	flight->names_checked = NAMES_STEP;
	flight->name_bytes_checked = NAME_BYTES_STEP;
	return flight;
}
