// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/unwound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"

#define STACKS_MAX  4096 /* of one thread that are told apart */
#define NEAR_SCOPES 64	 /* a stop is looked for among so many of the innermost manual scopes */

/* A call that returns later. */
struct live_call {
	uint64_t sp;
	uint64_t end_ns;
};

/* An unwound call whose end was not met yet. */
struct left_call {
	uint64_t sp;
	uint64_t start_ns;
	size_t inside; /* so many manual scopes */
	uint32_t order;
	struct raw_call *call; /* NULL: of an earlier step */
};

struct open_scope {
	uint64_t id;
	uint64_t start_ns;
};

struct live_calls {
	struct live_call *items;
	size_t count;
	size_t capacity;
};

/* What is open on one stack, the outermost first. */
struct stack_range {
	uint64_t first_sp; /* up to the next range's */
	struct live_calls live;
	struct left_call *left;
	size_t left_count, left_capacity;
};

struct unwound {
	struct stack_range *ranges; /* by address, the first from 0 on */
	size_t range_count, range_capacity;
	struct live_calls ends;	   /* a heap, the next end at its top */
	struct open_scope *scopes; /* manual, the innermost last */
	size_t scope_count, scope_capacity;
	const struct unwound_step *step;
};

/* ---- ends to come ---- */

static int push_end(struct live_calls *heap, struct live_call call)
{
	size_t at = heap->count;

	if (vec_grow(&heap->items, &heap->capacity, heap->count))
		return -ENOMEM;
	heap->count++;
	for (; at && heap->items[(at - 1) / 2].end_ns > call.end_ns; at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = call;
	return 0;
}

static struct live_call pop_end(struct live_calls *heap)
{
	struct live_call top = heap->items[0], last = heap->items[--heap->count];
	size_t at = 0;

	for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
		if (child + 1 < heap->count &&
		    heap->items[child + 1].end_ns < heap->items[child].end_ns)
			child++;
		if (heap->items[child].end_ns >= last.end_ns)
			break;
		heap->items[at] = heap->items[child];
		at = child;
	}
	heap->items[at] = last;
	return top;
}

/* ---- stacks ---- */

static size_t range_of(const struct unwound *unwound, uint64_t sp)
{
	size_t behind;

	SEARCH_FIRST(behind, unwound->range_count, unwound->ranges[behind].first_sp <= sp);
	return behind ? behind - 1 : 0;
}

static int open_range(struct unwound *unwound, size_t at, uint64_t first_sp)
{
	if (vec_grow(&unwound->ranges, &unwound->range_capacity, unwound->range_count))
		return -ENOMEM;
	memmove(&unwound->ranges[at + 1], &unwound->ranges[at],
		(unwound->range_count - at) * sizeof(*unwound->ranges));
	memset(&unwound->ranges[at], 0, sizeof(*unwound->ranges));
	unwound->ranges[at].first_sp = first_sp;
	unwound->range_count++;
	return 0;
}

/* The upper side of the widest gap between the uppermost live call below `sp` and `sp`, among the frames
 * there. */
static uint64_t border_below(const struct stack_range *range, uint64_t sp)
{
	uint64_t lower, border = sp, widest;
	size_t i = range->live.count;

	while (i && range->live.items[i - 1].sp < sp)
		i--;
	lower = range->live.items[i].sp;
	widest = sp - lower;
	for (i = range->left_count; i--;) {
		uint64_t next = range->left[i].sp;

		if (next <= lower || next >= sp)
			continue;
		if (border == sp || next - lower > widest) {
			widest = next - lower;
			border = next;
		}
		lower = next;
	}
	return border != sp && sp - lower > widest ? sp : border;
}

/* Moves what lies at or above the border into the range that begins there. */
static int move_up(struct stack_range *from, struct stack_range *to)
{
	size_t live = 0, left = 0;

	while (live < from->live.count && from->live.items[live].sp >= to->first_sp)
		live++;
	while (left < from->left_count && from->left[left].sp >= to->first_sp)
		left++;
	if (vec_reserve((void **)&to->live.items, &to->live.capacity, live,
			sizeof(*to->live.items)) ||
	    vec_reserve((void **)&to->left, &to->left_capacity, left, sizeof(*to->left)))
		return -ENOMEM;
	if (live) {
		memcpy(to->live.items, from->live.items, live * sizeof(*to->live.items));
		memmove(from->live.items, from->live.items + live,
			(from->live.count - live) * sizeof(*from->live.items));
	}
	if (left) {
		memcpy(to->left, from->left, left * sizeof(*to->left));
		memmove(from->left, from->left + left,
			(from->left_count - left) * sizeof(*from->left));
	}
	to->live.count = live;
	from->live.count -= live;
	to->left_count = left;
	from->left_count -= left;
	return 0;
}

/* The stack on which something happens at `sp` now: none on which a call below it is alive. */
static int stack_at(struct unwound *unwound, uint64_t now, uint64_t sp, struct stack_range **stack)
{
	size_t index = range_of(unwound, sp);
	struct live_calls *live = &unwound->ranges[index].live;
	int err = 0;

	while (live->count && live->items[live->count - 1].end_ns <= now)
		live->count--;
	if (live->count && live->items[live->count - 1].sp < sp) {
		if (unwound->range_count < STACKS_MAX) {
			err = open_range(unwound, index + 1,
					 border_below(&unwound->ranges[index], sp));
			if (!err)
				err = move_up(&unwound->ranges[index], &unwound->ranges[index + 1]);
			index = range_of(unwound, sp);
		} else {
			while (live->count && live->items[live->count - 1].sp < sp)
				live->count--;
		}
	}
	*stack = &unwound->ranges[index];
	return err;
}

/* ---- hits ---- */

static int note_end(struct thread_events *thread, uint32_t order, uint64_t ns)
{
	if (vec_grow(&thread->ends, &thread->end_capacity, thread->end_count))
		return -ENOMEM;
	thread->ends[thread->end_count++] = (struct late_end){order, ns};
	return 0;
}

/*
 * The last of the stack was left by `ns`, and before a manual scope was begun that has outlived it.
 */
static int settle_last(struct unwound *unwound, struct stack_range *stack, uint64_t ns)
{
	const struct left_call *last = &stack->left[--stack->left_count];

	if (unwound->range_count == 1 && unwound->scope_count > last->inside &&
	    unwound->scopes[last->inside].start_ns < ns)
		ns = unwound->scopes[last->inside].start_ns;
	if (!last->call)
		return unwound->step->noting ? note_end(unwound->step->thread, last->order, ns) : 0;
	if (last->call->end_ns > ns)
		last->call->end_ns = ns;
	return 0;
}

static int take_hit(struct unwound *unwound, uint64_t now, uint64_t sp)
{
	struct stack_range *stack;
	int err = stack_at(unwound, now, sp, &stack);

	while (!err && stack->left_count) {
		const struct left_call *last = &stack->left[stack->left_count - 1];

		if (last->sp > sp || last->start_ns >= now)
			break;
		err = settle_last(unwound, stack, now);
	}
	return err;
}

static int take_ends(struct unwound *unwound, uint64_t until)
{
	int err = 0;

	while (!err && unwound->ends.count && unwound->ends.items[0].end_ns <= until) {
		struct live_call call = pop_end(&unwound->ends);

		err = take_hit(unwound, call.end_ns, call.sp);
	}
	return err;
}

static int add_live(struct unwound *unwound, const struct raw_call *call)
{
	struct live_call live = {call->sp, call->end_ns};
	struct live_calls *open = &unwound->ranges[range_of(unwound, call->sp)].live;

	/*
	 * Of one that began on another thread only the end is known to be on a stack of this one.
	 */
	if (!(call->flags & SCOPE_FLAG_MIGRATED)) {
		if (vec_grow(&open->items, &open->capacity, open->count))
			return -ENOMEM;
		open->items[open->count++] = live;
	}
	return push_end(&unwound->ends, live);
}

static int add_left(struct unwound *unwound, struct raw_call *call)
{
	struct stack_range *stack = &unwound->ranges[range_of(unwound, call->sp)];
	size_t at = stack->left_count;

	if (vec_grow(&stack->left, &stack->left_capacity, stack->left_count))
		return -ENOMEM;
	/* Only one that began in the same ns may lie below. */
	for (; at && stack->left[at - 1].sp < call->sp; at--)
		stack->left[at] = stack->left[at - 1];
	stack->left[at] = (struct left_call){call->sp, call->start_ns, unwound->scope_count,
					     call->order, call};
	stack->left_count++;
	return 0;
}

static int take_call(struct unwound *unwound, struct raw_call *call)
{
	int err = take_ends(unwound, call->start_ns);

	if (!err && !(call->flags & SCOPE_FLAG_MIGRATED))
		err = take_hit(unwound, call->start_ns, call->sp);
	if (err)
		return err;
	if (call->flags & SCOPE_FLAG_UNWOUND)
		return add_left(unwound, call);
	/* What was still open when the capture ended need not have been alive. */
	if (call->flags & (SCOPE_FLAG_UNFINISHED | SCOPE_FLAG_INSTANT))
		return 0;
	return add_live(unwound, call);
}

/* ---- manual scopes ---- */

/* Only `count` of the manual scopes are open any more. */
static int close_scopes(struct unwound *unwound, size_t count, uint64_t now)
{
	struct stack_range *stack = &unwound->ranges[0];
	int err = 0;

	while (!err && unwound->range_count == 1 && stack->left_count &&
	       stack->left[stack->left_count - 1].inside > count)
		err = settle_last(unwound, stack, now);
	unwound->scope_count = count;
	return err;
}

static int stop_scope(struct unwound *unwound, const struct raw_manual *event)
{
	size_t at = unwound->scope_count;
	size_t last = at > NEAR_SCOPES ? at - NEAR_SCOPES : 0;

	while (at > last && unwound->scopes[at - 1].id != event->value)
		at--;
	return at > last ? close_scopes(unwound, at - 1, event->time) : 0;
}

/* What began inside a scope that is told as a whole was left when that was stopped. */
static int take_complete(struct unwound *unwound, const struct raw_manual *event)
{
	struct stack_range *stack = &unwound->ranges[0];
	int err = 0;

	while (!err && unwound->range_count == 1 && stack->left_count &&
	       stack->left[stack->left_count - 1].start_ns > event->time)
		err = settle_last(unwound, stack, event->value);
	return err;
}

static int take_manual(struct unwound *unwound, const struct raw_manual *event)
{
	int err = take_ends(unwound, raw_manual_time(event));

	if (err)
		return err;
	switch (event->kind) {
	case MANUAL_START:
		if (vec_grow(&unwound->scopes, &unwound->scope_capacity, unwound->scope_count))
			return -ENOMEM;
		unwound->scopes[unwound->scope_count++] =
			(struct open_scope){event->value, event->time};
		return 0;
	case MANUAL_STOP:
		return stop_scope(unwound, event);
	case MANUAL_COMPLETE:
		return take_complete(unwound, event);
	case MANUAL_THREAD_START:
		return close_scopes(unwound, 0, event->time);
	default:
		return 0;
	}
}

/* ---- steps ---- */

/* All that happened in the thread, in the order of time. */
static int take_all(struct unwound *unwound, const struct unwound_step *step)
{
	size_t next = 0;
	int err = 0;

	for (size_t i = 0; i < step->call_count && !err; i++) {
		while (!err && next < step->manual_count &&
		       raw_manual_time(&step->manual[next]) < step->calls[i].start_ns)
			err = take_manual(unwound, &step->manual[next++]);
		if (!err)
			err = take_call(unwound, &step->calls[i]);
	}
	while (!err && next < step->manual_count)
		err = take_manual(unwound, &step->manual[next++]);
	return err ? err
		   : take_ends(unwound,
			       step->bound_ns == UINT64_MAX ? UINT64_MAX : step->bound_ns - 1);
}

static void look_up_end(const struct thread_events *thread, struct raw_call *call)
{
	size_t low;

	SEARCH_FIRST(low, thread->end_count, thread->ends[low].order < call->order);
	if (low < thread->end_count && thread->ends[low].order == call->order &&
	    thread->ends[low].end_ns < call->end_ns)
		call->end_ns = thread->ends[low].end_ns;
}

/* The calls are gone when the step is over. */
static void leave_calls(struct unwound *unwound, const struct unwound_step *step)
{
	for (size_t i = 0; i < unwound->range_count; i++) {
		struct stack_range *stack = &unwound->ranges[i];

		for (size_t j = stack->left_count; j-- && stack->left[j].call;) {
			if (!step->noting)
				look_up_end(step->thread, stack->left[j].call);
			stack->left[j].call = NULL;
		}
	}
}

int unwound_settle(struct unwound *unwound, const struct unwound_step *step)
{
	int err;

	unwound->step = step;
	err = take_all(unwound, step);
	leave_calls(unwound, step);
	unwound->step = NULL;
	return err;
}

struct unwound *unwound_create(void)
{
	struct unwound *unwound = calloc(1, sizeof(*unwound));

	if (unwound && open_range(unwound, 0, 0)) {
		unwound_destroy(unwound);
		return NULL;
	}
	return unwound;
}

void unwound_destroy(struct unwound *unwound)
{
	if (!unwound)
		return;
	for (size_t i = 0; i < unwound->range_count; i++) {
		free(unwound->ranges[i].live.items);
		free(unwound->ranges[i].left);
	}
	free(unwound->ranges);
	free(unwound->ends.items);
	free(unwound->scopes);
	free(unwound);
}
