// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/vec.h"

/*
 * While a lane is made, a scope's child_ns holds the positions of its records among those of its
 * kind, as far as they are known; that tells an inner scope from a later one where times are equal.
 * A scope without a start record of its own (hooked) has its one position twice.
 */
#define POSITIONS(start, end) ((uint64_t)(uint32_t)(start) << 32 | (uint32_t)(end))

/*
 * Positions are odd. A COMPLETE starts at the even one between the record before it and the first
 * one inside.
 */
#define POSITION(index) (2 * (uint32_t)(index) + 1)

/*
 * While a lane is made: a manual scope whose stop was not met (yet); its end_ns is its scope id
 * until then.
 */
#define NEVER_STOPPED 0x8000

#define SUB_LANES 255 /* what uint8_t can tell apart, less one for those that find no other place */

/* ---- what is kept from one part of a lane to the next ---- */

/* Scopes of one kind that have begun, the last one on top; of those that have ended only the top is taken
 * away. */
struct begun {
	struct begun_scope {
		uint64_t end_ns;
		uint32_t end; /* manual: position */
		uint32_t scope;
		uint32_t name;
	} * items;
	size_t count, capacity;
};

struct open_scope {
	uint64_t end_ns;
	uint64_t number;  /* in the lane */
	uint64_t late_ns; /* taken by children in parts after its own */
	uint32_t end_position;
	uint32_t name;
	uint32_t function;
	uint16_t flags;
	uint8_t kind;
};

struct stack {
	struct open_scope *items;
	size_t count, capacity;
};

struct merge {
	struct lane *lane;
	struct merge_input input;
	const struct manual_run *run; /* NULL: it has no manual events */
	struct starts starts;
	/* What the manual events so far have come to, as far as it is not in a part yet: */
	struct scope *pairs; /* by start */
	size_t pair_count, pair_capacity;
	uint32_t pairs_told; /* so many came before them */
	struct raw_call *completes;
	size_t complete_count, complete_capacity;
	struct mark *marks;
	size_t mark_count, mark_capacity;
	/* Of all parts so far: */
	uint64_t scopes_told;
	struct begun manual, hooked;
	struct stack *stacks; /* by sub-lane */
	size_t stack_count, stack_capacity;
	uint32_t max_depth;
	/* The part being made: */
	struct merge_room *room;
	struct lane_part *part;
};

struct merge *merge_create(struct lane *lane, const struct merge_input *input)
{
	struct merge *merge = calloc(1, sizeof(*merge));

	if (!merge)
		return NULL;
	merge->lane = lane;
	merge->input = *input;
	if (input->source->run != UINT32_MAX)
		merge->run = &input->thread->runs[input->source->run];
	return merge;
}

void merge_destroy(struct merge *merge)
{
	if (!merge)
		return;
	for (size_t i = 0; i < merge->stack_count; i++)
		free(merge->stacks[i].items);
	free(merge->stacks);
	starts_clear(&merge->starts);
	free(merge->pairs);
	free(merge->completes);
	free(merge->marks);
	free(merge->manual.items);
	free(merge->hooked.items);
	free(merge);
}

void merge_room_clear(struct merge_room *room)
{
	free(room->scopes);
	free(room->marks);
	free(room->late);
	memset(room, 0, sizeof(*room));
}

/* ---- manual events ---- */

static uint32_t position_in(const struct merge *merge, uint32_t order)
{
	return POSITION(order - merge->run->first);
}

static int start_scope(struct merge *merge, const struct raw_manual *event)
{
	struct scope *scope;

	if (vec_grow(&merge->pairs, &merge->pair_capacity, merge->pair_count) ||
	    starts_push(&merge->starts, event->value, event->order,
			merge->pairs_told + (uint32_t)merge->pair_count))
		return -ENOMEM;
	scope = &merge->pairs[merge->pair_count++];
	memset(scope, 0, sizeof(*scope));
	scope->start_ns = event->time;
	scope->end_ns = event->order; /* until it is told */
	scope->child_ns = POSITIONS(position_in(merge, event->place), UINT32_MAX);
	scope->name = event->name;
	scope->function = UINT32_MAX;
	scope->kind = SCOPE_MANUAL;
	scope->flags = NEVER_STOPPED;
	return 0;
}

static void stop_scope(struct merge *merge, const struct raw_manual *event)
{
	struct scope *scope;
	struct start start;

	/* Of the scopes of earlier parts the ends were known then. */
	if (!starts_stop(&merge->starts, event->value, &start) || start.place < merge->pairs_told)
		return;
	scope = &merge->pairs[start.place - merge->pairs_told];
	scope->end_ns = event->time;
	scope->child_ns = POSITIONS(scope->child_ns >> 32, position_in(merge, event->place));
	scope->flags = 0;
}

static int add_complete(struct merge *merge, const struct raw_manual *event)
{
	if (vec_grow(&merge->completes, &merge->complete_capacity, merge->complete_count))
		return -ENOMEM;
	merge->completes[merge->complete_count++] =
		(struct raw_call){.start_ns = event->time,
				  .end_ns = event->value,
				  .id = event->name,
				  .order = event->place - merge->run->first,
				  .flags = event->inside};
	return 0;
}

static int add_mark(struct merge *merge, const struct raw_manual *event)
{
	if (vec_grow(&merge->marks, &merge->mark_capacity, merge->mark_count))
		return -ENOMEM;
	merge->marks[merge->mark_count++] = (struct mark){.time_ns = event->time,
							  .value = event->value,
							  .name = event->name,
							  .scope = position_in(merge, event->place),
							  .kind = event->kind};
	return 0;
}

int merge_event(struct merge *merge, const struct raw_manual *event)
{
	switch (event->kind) {
	case MANUAL_START:
		return start_scope(merge, event);
	case MANUAL_STOP:
		stop_scope(merge, event);
		return 0;
	case MANUAL_COMPLETE:
		return add_complete(merge, event);
	case MANUAL_THREAD_START:
	case MANUAL_THREAD_NAME:
		return 0;
	default:
		return add_mark(merge, event);
	}
}

/* ---- the three streams ---- */

/* Where it does not tell, it may have started before all others. */
static uint32_t complete_start(const struct raw_call *complete)
{
	uint32_t inside = complete->flags;

	return inside < MANUAL_INSIDE_MAX && inside <= complete->order
		       ? 2 * (complete->order - inside)
		       : 0;
}

static int outer_first(const void *a, const void *b)
{
	const struct raw_call *x = a, *y = b;

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns > y->end_ns ? -1 : 1;
	if (complete_start(x) != complete_start(y))
		return complete_start(x) < complete_start(y) ? -1 : 1;
	return x->order > y->order ? -1 : 1;
}

/* ---- losses ---- */

static int loss_order(const void *a, const void *b)
{
	const struct loss_event *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return (x->first_ns > y->first_ns) - (x->first_ns < y->first_ns);
}

size_t merge_losses(struct loss_event *losses, size_t count)
{
	size_t kept = 0;

	if (count)
		qsort(losses, count, sizeof(*losses), loss_order);
	for (size_t i = 0; i < count; i++) {
		struct loss_event loss = losses[i], *last = kept ? &losses[kept - 1] : NULL;

		if (loss.last_ns < loss.first_ns)
			loss.last_ns = loss.first_ns;
		if (!last || last->pid != loss.pid || last->index != loss.index ||
		    last->last_ns < loss.first_ns) {
			losses[kept++] = loss;
			continue;
		}
		last->count += loss.count;
		if (last->last_ns < loss.last_ns)
			last->last_ns = loss.last_ns;
	}
	return kept;
}

/* Number of losses that come before (pid, ring, first_ns > `ns`). */
static size_t losses_up_to(const struct trace_index *trace, uint32_t pid, uint16_t ring,
			   uint64_t ns)
{
	const struct loss_event key = {.pid = pid, .index = ring, .first_ns = ns};
	size_t low;

	SEARCH_FIRST(low, trace->segment_loss_count,
		     loss_order(&trace->segment_losses[low], &key) <= 0);
	return low;
}

/*
 * A scope whose stop may have been lost with other events ends where the first loss of its ring
 * after its start began: its thread is known to have been in it until then, and may have left it
 * since.
 */
static void cut_at_loss(const struct merge *merge, struct scope *scope)
{
	const struct trace_index *trace = merge->input.trace;
	uint32_t pid = merge->lane->pid;
	uint8_t ring = merge->run->ring;
	/* The loss before may have begun earlier and lasted until after the start. */
	size_t i = losses_up_to(trace, pid, ring, scope->start_ns);
	const struct loss_event *loss = i ? &trace->segment_losses[i - 1] : NULL;

	if (!loss || loss->pid != pid || loss->index != ring || loss->last_ns < scope->start_ns)
		loss = i < trace->segment_loss_count ? &trace->segment_losses[i] : NULL;
	if (!loss || loss->pid != pid || loss->index != ring)
		return;
	scope->end_ns = loss->first_ns > scope->start_ns ? loss->first_ns : scope->start_ns;
	scope->flags = SCOPE_FLAG_CUT | SCOPE_FLAG_LOST;
}

/* The stop of a start that lies in a later region; NULL if there is none. */
static const struct late_stop *late_stop_of(const struct thread_events *thread, uint32_t start)
{
	size_t low;

	SEARCH_FIRST(low, thread->stop_count, thread->stops[low].start < start);
	return low < thread->stop_count && thread->stops[low].start == start ? &thread->stops[low]
									     : NULL;
}

/* It has nothing of the next of its name in it: it ends at the position before that one. */
static void cut_at_next(const struct merge *merge, struct scope *scope,
			const struct late_stop *next)
{
	scope->end_ns = next->time_ns > scope->start_ns ? next->time_ns : scope->start_ns;
	scope->child_ns = POSITIONS(scope->child_ns >> 32, position_in(merge, next->stop) - 1);
	scope->flags = NEVER_STOPPED;
}

/* The end of a scope whose stop was not met, before it goes into a part. */
static void end_pair(struct merge *merge, struct scope *scope)
{
	const struct late_stop *late = late_stop_of(merge->input.thread, (uint32_t)scope->end_ns);

	if (late && !late->is_cut) {
		scope->end_ns = late->time_ns > scope->start_ns ? late->time_ns : scope->start_ns;
		scope->child_ns = POSITIONS(scope->child_ns >> 32, position_in(merge, late->stop));
		scope->flags = 0;
		return;
	}
	scope->end_ns = merge->input.source->last_ns;
	cut_at_loss(merge, scope);
	if (late && late->time_ns < scope->end_ns)
		cut_at_next(merge, scope, late);
}

/* How many of the pairs begin before the bound, their ends made known. */
static size_t end_pairs(struct merge *merge, uint64_t bound_ns)
{
	size_t count = 0;

	for (; count < merge->pair_count && merge->pairs[count].start_ns < bound_ns; count++) {
		if (merge->pairs[count].flags & NEVER_STOPPED)
			end_pair(merge, &merge->pairs[count]);
	}
	return count;
}

/* The same of the COMPLETE records, which are put in order. */
static size_t sort_completes(struct merge *merge, uint64_t bound_ns)
{
	size_t count = 0;

	if (merge->complete_count)
		qsort(merge->completes, merge->complete_count, sizeof(*merge->completes),
		      outer_first);
	while (count < merge->complete_count && merge->completes[count].start_ns < bound_ns)
		count++;
	return count;
}

static struct scope hooked_scope(const struct merge *merge, const struct raw_call *call)
{
	const struct function_info *info = &merge->input.trace->timeline->functions[call->id].info;

	return (struct scope){
		.start_ns = call->start_ns,
		.end_ns = call->flags & SCOPE_FLAG_UNFINISHED ? merge->input.source->last_ns
							      : call->end_ns,
		.child_ns = POSITIONS(call->order, call->order),
		.name = info->name,
		.module = info->module,
		.function = call->id,
		.kind = SCOPE_HOOKED,
		.flags = call->flags,
		.start_tid = call->start_tid,
	};
}

static struct scope complete_scope(const struct raw_call *complete)
{
	return (struct scope){
		.start_ns = complete->start_ns,
		.end_ns = complete->end_ns,
		.child_ns = POSITIONS(complete_start(complete), POSITION(complete->order)),
		.name = complete->id,
		.function = UINT32_MAX,
		.kind = SCOPE_MANUAL,
	};
}

static bool goes_first(const struct scope *a, const struct scope *b)
{
	if (a->start_ns != b->start_ns || a->end_ns != b->end_ns)
		return a->start_ns < b->start_ns ||
		       (a->start_ns == b->start_ns && a->end_ns > b->end_ns);
	return a->kind != b->kind || a->child_ns >> 32 <= b->child_ns >> 32;
}

struct streams {
	const struct raw_call *calls, *calls_end; /* hooked, outer first */
	const struct raw_call *completes, *completes_end;
	const struct scope *pairs, *pairs_end;
};

static bool next_call(const struct merge *merge, struct streams *at, struct scope *scope)
{
	if (at->calls == at->calls_end)
		return false;
	*scope = hooked_scope(merge, at->calls++);
	return true;
}

static bool next_complete(struct streams *at, struct scope *scope)
{
	if (at->completes == at->completes_end)
		return false;
	*scope = complete_scope(at->completes++);
	return true;
}

/*
 * Merges the streams, each in its own order, into the part's scopes. Of scopes with the same start
 * and end a hooked one is taken for the outer: a function that is a manual scope as a whole.
 */
static void merge_streams(struct merge *merge, struct streams *at)
{
	struct scope *out = merge->room->scopes, call, complete;
	bool has_call = next_call(merge, at, &call), has_complete = next_complete(at, &complete);

	for (;;) {
		const struct scope *next = has_call ? &call : NULL;

		if (has_complete && (!next || !goes_first(next, &complete)))
			next = &complete;
		if (at->pairs < at->pairs_end && (!next || !goes_first(next, at->pairs)))
			next = at->pairs;
		if (!next)
			break;
		*out++ = *next;
		if (next == &call)
			has_call = next_call(merge, at, &call);
		else if (next == &complete)
			has_complete = next_complete(at, &complete);
		else
			at->pairs++;
	}
	merge->part->scopes = merge->room->scopes;
	merge->part->scope_count = (size_t)(out - merge->room->scopes);
	merge->part->first_scope = merge->scopes_told;
}

/* ---- arguments and flows to scopes ---- */

/* While a lane is made, a mark's scope is the position of its own record. */
static uint32_t position_of(const struct mark *mark)
{
	return mark->scope;
}

static bool began_before(const struct scope *scope, const struct mark *mark)
{
	return scope->start_ns <= mark->time_ns &&
	       (scope->kind == SCOPE_HOOKED || scope->child_ns >> 32 < position_of(mark));
}

/* The time tells of a scope whose stop was lost; elsewhere the position is as good, or better. */
static uint32_t innermost_of(struct begun *begun, uint32_t position, uint64_t now)
{
	while (begun->count && (begun->items[begun->count - 1].end < position ||
				begun->items[begun->count - 1].end_ns < now))
		begun->count--;
	return begun->count ? begun->items[begun->count - 1].scope : MARK_NO_SCOPE;
}

static int begin_scope(struct begun *begun, const struct scope *scope, uint32_t number)
{
	uint32_t start = (uint32_t)(scope->child_ns >> 32);
	uint64_t end_ns = scope->end_ns;
	uint32_t end = scope->kind == SCOPE_MANUAL ? (uint32_t)scope->child_ns : UINT32_MAX;
	bool inside;

	if (scope->flags & SCOPE_FLAG_INSTANT)
		return 0;
	inside = innermost_of(begun, scope->kind == SCOPE_MANUAL ? start : 0, scope->start_ns) !=
		 MARK_NO_SCOPE;
	/* What is never stopped ends with the scope around it, what is cut at a loss no later. */
	if (scope->flags & (NEVER_STOPPED | SCOPE_FLAG_CUT) && inside) {
		if (end > begun->items[begun->count - 1].end)
			end = begun->items[begun->count - 1].end;
		if (end_ns > begun->items[begun->count - 1].end_ns)
			end_ns = begun->items[begun->count - 1].end_ns;
	}
	if (vec_grow(&begun->items, &begun->capacity, begun->count))
		return -ENOMEM;
	begun->items[begun->count++] = (struct begun_scope){end_ns, end, number, scope->name};
	return 0;
}

/* Scopes up to the mark, or all, have begun. */
static int begin_scopes(struct merge *merge, size_t *next, const struct mark *mark)
{
	const struct lane_part *part = merge->part;
	int err = 0;

	for (; !err && *next < part->scope_count; ++*next) {
		const struct scope *scope = &part->scopes[*next];

		if (mark && !began_before(scope, mark))
			break;
		err = begin_scope(scope->kind == SCOPE_MANUAL ? &merge->manual : &merge->hooked,
				  scope, (uint32_t)(part->first_scope + *next));
	}
	return err;
}

static void attach(struct merge *merge, struct mark *mark)
{
	struct begun *begun = &merge->manual;
	uint32_t scope = innermost_of(begun, position_of(mark), mark->time_ns);

	if (scope == MARK_NO_SCOPE) {
		begun = &merge->hooked;
		scope = innermost_of(begun, 0, mark->time_ns);
	}
	mark->scope = scope;
	mark->scope_name = scope == MARK_NO_SCOPE ? 0 : begun->items[begun->count - 1].name;
}

/*
 * An argument or a flow belongs to the manual scope that was begun last, as its program sees it,
 * whatever is hooked; where there is none, to the hooked one.
 */
static int attach_marks(struct merge *merge)
{
	struct lane_part *part = merge->part;
	size_t next = 0;
	int err = 0;

	if (!merge->lane->mark_count)
		return 0;
	for (size_t i = 0; i < part->mark_count && !err; i++) {
		struct mark *mark = &part->marks[i];

		if (mark->kind != MANUAL_ARGUMENT && mark->kind != MANUAL_FLOW) {
			mark->scope = MARK_NO_SCOPE;
			continue;
		}
		err = begin_scopes(merge, &next, mark);
		if (!err)
			attach(merge, mark);
	}
	return err ? err : begin_scopes(merge, &next, NULL);
}

/* ---- depth, self time, sub-lanes: one sweep ---- */

/* Has `before`, which started no later, ended before `scope` started? */
static bool is_over(const struct open_scope *before, const struct scope *scope)
{
	if (before->end_ns != scope->start_ns)
		return before->end_ns < scope->start_ns;
	if (before->flags & SCOPE_FLAG_INSTANT)
		return true;
	/*
	 * It ended in the very ns: what has no length may have been its last part, the records
	 * tell.
	 */
	if (scope->end_ns != scope->start_ns && !(scope->flags & NEVER_STOPPED))
		return true;
	if (before->kind != scope->kind)
		return before->kind != SCOPE_HOOKED;
	return (uint32_t)(scope->child_ns >> 32) > before->end_position;
}

/* Tells what children in later parts took of it. */
static int tell_late(struct merge *merge, struct open_scope *open)
{
	struct merge_room *room = merge->room;
	struct lane_part *part = merge->part;

	if (!open->late_ns)
		return 0;
	if (vec_grow(&room->late, &room->late_capacity, part->late_count))
		return -ENOMEM;
	room->late[part->late_count++] = (struct late_child){
		open->late_ns, open->number, open->name, open->function, open->kind};
	open->late_ns = 0;
	return 0;
}

static int close_over(struct merge *merge, struct stack *stack, const struct scope *scope)
{
	int err = 0;

	while (!err && stack->count && is_over(&stack->items[stack->count - 1], scope))
		err = tell_late(merge, &stack->items[--stack->count]);
	return err;
}

/* The sub-lane of the innermost open scope: the one that started last. NULL if none is open. */
static int find_innermost(struct merge *merge, const struct scope *scope, struct stack **found)
{
	bool containing = !(scope->flags & NEVER_STOPPED);
	int err = 0;

	*found = NULL;
	for (size_t i = 0; i < merge->stack_count && !err; i++) {
		struct stack *stack = &merge->stacks[i];
		const struct open_scope *top;

		err = close_over(merge, stack, scope);
		if (err || !stack->count)
			continue;
		top = &stack->items[stack->count - 1];
		if (containing && top->end_ns < scope->end_ns)
			continue;
		if (!*found || top->number > (*found)->items[(*found)->count - 1].number)
			*found = stack;
	}
	return err;
}

/* A sub-lane in which nothing is open. The last one takes whatever finds no other place. */
static struct stack *find_free(struct merge *merge)
{
	for (size_t i = 0; i < merge->stack_count && i < SUB_LANES; i++) {
		if (!merge->stacks[i].count)
			return &merge->stacks[i];
	}
	if (merge->stack_count > SUB_LANES) {
		merge->stacks[SUB_LANES].count = 0;
		return &merge->stacks[SUB_LANES];
	}
	if (vec_grow(&merge->stacks, &merge->stack_capacity, merge->stack_count))
		return NULL;
	memset(&merge->stacks[merge->stack_count], 0, sizeof(*merge->stacks));
	return &merge->stacks[merge->stack_count++];
}

/*
 * The end of a scope that was not stopped: that of the scope around it, else of the lane; and no
 * later than where the next of its name begins.
 */
static void settle_end(struct scope *scope, const struct open_scope *outer)
{
	bool is_cut = (uint32_t)scope->child_ns != UINT32_MAX;

	if (outer && (!is_cut || outer->end_ns < scope->end_ns))
		scope->end_ns = outer->end_ns;
	scope->flags = is_cut || (outer && !(outer->flags & SCOPE_FLAG_UNFINISHED))
			       ? SCOPE_FLAG_CUT
			       : SCOPE_FLAG_UNFINISHED;
}

static int push_scope(struct merge *merge, struct stack *stack, struct scope *scope)
{
	uint32_t depth = stack->count < UINT16_MAX ? (uint32_t)stack->count : UINT16_MAX;
	struct lane_part *part = merge->part;

	if (vec_grow(&stack->items, &stack->capacity, stack->count))
		return -ENOMEM;
	if (stack->count) {
		struct open_scope *outer = &stack->items[stack->count - 1];
		uint64_t ns = scope->end_ns - scope->start_ns;

		if (outer->number >= part->first_scope)
			part->scopes[outer->number - part->first_scope].child_ns += ns;
		else
			outer->late_ns += ns;
	}
	scope->depth = (uint16_t)depth;
	scope->sub_lane = (uint8_t)(stack - merge->stacks);
	if (depth > merge->max_depth)
		merge->max_depth = depth;
	stack->items[stack->count++] =
		(struct open_scope){.end_ns = scope->end_ns,
				    .number = part->first_scope + (uint64_t)(scope - part->scopes),
				    .end_position = (uint32_t)scope->child_ns,
				    .name = scope->name,
				    .function = scope->function,
				    .flags = scope->flags,
				    .kind = scope->kind};
	scope->child_ns = 0;
	return 0;
}

static int sweep_scope(struct merge *merge, struct scope *scope)
{
	struct stack *stack;
	int err = find_innermost(merge, scope, &stack);

	if (err)
		return err;
	if (scope->flags & NEVER_STOPPED)
		settle_end(scope, stack ? &stack->items[stack->count - 1] : NULL);
	if (!stack)
		stack = find_free(merge);
	return stack ? push_scope(merge, stack, scope) : -ENOMEM;
}

/* What is told of scopes of earlier parts is told now. */
static int sweep_part(struct merge *merge)
{
	int err = 0;

	for (size_t i = 0; i < merge->part->scope_count && !err; i++)
		err = sweep_scope(merge, &merge->part->scopes[i]);
	for (size_t i = 0; i < merge->stack_count; i++) {
		for (size_t j = 0; j < merge->stacks[i].count && !err; j++)
			err = tell_late(merge, &merge->stacks[i].items[j]);
	}
	merge->part->late = merge->room->late;
	if (merge->max_depth > merge->lane->max_depth)
		merge->lane->max_depth = merge->max_depth;
	return err;
}

/* ---- what may lack something ---- */

/* The first interval that has not ended before `ns`; `count` if all have. */
static size_t first_not_over(const struct interval *intervals, size_t count, uint64_t ns)
{
	size_t low;

	SEARCH_FIRST(low, count, intervals[low].last_ns < ns);
	return low;
}

/*
 * Manual scopes that were open while events of their ring were lost may lack a stop, or something
 * inside.
 */
static bool manual_lacks(const struct merge *merge, const struct scope *scope)
{
	const struct trace_index *trace = merge->input.trace;
	size_t before = losses_up_to(trace, merge->lane->pid, merge->run->ring, scope->end_ns);
	const struct loss_event *loss = before ? &trace->segment_losses[before - 1] : NULL;

	return loss && loss->pid == merge->lane->pid && loss->index == merge->run->ring &&
	       loss->last_ns >= scope->start_ns;
}

/* A ring is full for whole processors, not threads: any hooked scope open at the time may lack something
 * inside. */
static bool hooked_lacks(const struct merge *merge, const struct scope *scope)
{
	const struct trace_index *trace = merge->input.trace;
	size_t at = first_not_over(trace->ring_losses, trace->ring_loss_count, scope->start_ns);

	return at < trace->ring_loss_count && trace->ring_losses[at].first_ns <= scope->end_ns;
}

static void flag_losses(struct merge *merge)
{
	const struct trace_index *trace = merge->input.trace;

	for (size_t i = 0; i < merge->part->scope_count; i++) {
		struct scope *scope = &merge->part->scopes[i];
		bool lacks = scope->kind == SCOPE_HOOKED
				     ? trace->ring_loss_count && hooked_lacks(merge, scope)
				     : trace->segment_loss_count && manual_lacks(merge, scope);

		if (lacks)
			scope->flags |= SCOPE_FLAG_LOST;
	}
}

/* ---- parts ---- */

static void drop_first(void *items, size_t *count, size_t first, size_t size)
{
	if (first)
		memmove(items, (char *)items + first * size, (*count - first) * size);
	*count -= first;
}

/* Marks before the bound go into the part. */
static int take_marks(struct merge *merge, uint64_t bound_ns)
{
	struct merge_room *room = merge->room;
	size_t count = 0;

	while (count < merge->mark_count && merge->marks[count].time_ns < bound_ns)
		count++;
	if (vec_reserve((void **)&room->marks, &room->mark_capacity, count, sizeof(*room->marks)))
		return -ENOMEM;
	if (count)
		memcpy(room->marks, merge->marks, count * sizeof(*room->marks));
	drop_first(merge->marks, &merge->mark_count, count, sizeof(*merge->marks));
	merge->part->marks = room->marks;
	merge->part->mark_count = count;
	return 0;
}

static int take_scopes(struct merge *merge, const struct raw_call *calls, size_t count,
		       uint64_t bound_ns)
{
	size_t pairs = end_pairs(merge, bound_ns), completes = sort_completes(merge, bound_ns);
	struct streams streams = {
		calls,	      calls + count,	   merge->completes, merge->completes + completes,
		merge->pairs, merge->pairs + pairs};

	if (vec_reserve((void **)&merge->room->scopes, &merge->room->scope_capacity,
			count + pairs + completes, sizeof(*merge->room->scopes)))
		return -ENOMEM;
	merge_streams(merge, &streams);
	drop_first(merge->pairs, &merge->pair_count, pairs, sizeof(*merge->pairs));
	merge->pairs_told += (uint32_t)pairs;
	drop_first(merge->completes, &merge->complete_count, completes, sizeof(*merge->completes));
	return 0;
}

int merge_part(struct merge *merge, const struct raw_call *calls, size_t count, uint64_t bound_ns,
	       struct merge_room *room, struct lane_part *part)
{
	const struct trace_index *trace = merge->input.trace;
	int err;

	memset(part, 0, sizeof(*part));
	part->lane = merge->lane;
	merge->room = room;
	merge->part = part;
	err = take_scopes(merge, calls, count, bound_ns);
	if (!err)
		err = take_marks(merge, bound_ns);
	if (!err)
		err = attach_marks(merge);
	if (!err)
		err = sweep_part(merge);
	if (!err && (trace->ring_loss_count || trace->segment_loss_count))
		flag_losses(merge);
	merge->scopes_told += part->scope_count;
	return err;
}
