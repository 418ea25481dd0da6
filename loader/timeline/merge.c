// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

/*
 * While a lane is made, a scope's child_ns holds the positions of its records among those of its kind, as far
 * as they are known; that tells an inner scope from a later one where times are equal. A scope without a
 * start record of its own (hooked) has its one position twice.
 */
#define POSITIONS(start, end) ((uint64_t)(uint32_t)(start) << 32 | (uint32_t)(end))

/* Positions are odd. A COMPLETE starts at the even one between the record before it and the first one inside.
 */
#define POSITION(index) (2 * (uint32_t)(index) + 1)

/* While a lane is made: a manual scope whose stop was not met (yet); its end_ns is its scope id until then.
 */
#define NEVER_STOPPED 0x8000

#define SUB_LANES 255 /* what uint8_t can tell apart, less one for those that find no other place */

/* Stops are looked for among so many of the innermost open scopes; those further out are found through a
 * table. */
#define NEAR_SCOPES 64

/* ---- manual events to scopes, in the order of their starts ---- */

struct pairing {
	struct scope *scopes;
	size_t count;
	size_t *open; /* indexes into scopes, innermost last; stopped ones stay until they are innermost */
	size_t open_count;
	size_t open_capacity;
	struct hash_map
		far; /* scope id -> index: all that were pushed out of the nearest NEAR_SCOPES, and others */
	uint64_t orphans;
};

static bool is_open(const struct pairing *pairing, size_t index, uint64_t scope_id)
{
	const struct scope *scope = &pairing->scopes[index];

	return scope->flags & NEVER_STOPPED && scope->end_ns == scope_id;
}

static void pop_stopped(struct pairing *pairing)
{
	while (pairing->open_count &&
	       !(pairing->scopes[pairing->open[pairing->open_count - 1]].flags & NEVER_STOPPED))
		pairing->open_count--;
	if (!pairing->open_count && pairing->far.count)
		hash_map_clear(&pairing->far);
}

static int start_scope(struct pairing *pairing, const struct raw_manual *event, size_t position)
{
	struct scope *scope = &pairing->scopes[pairing->count];

	pop_stopped(pairing);
	if (vec_grow(&pairing->open, &pairing->open_capacity, pairing->open_count))
		return -ENOMEM;
	if (pairing->open_count >= NEAR_SCOPES) {
		size_t index = pairing->open[pairing->open_count - NEAR_SCOPES];

		if (pairing->scopes[index].flags & NEVER_STOPPED &&
		    hash_map_put(&pairing->far, pairing->scopes[index].end_ns, (uint32_t)index))
			return -ENOMEM;
	}
	memset(scope, 0, sizeof(*scope));
	scope->start_ns = event->time;
	scope->end_ns = event->value;
	scope->child_ns = POSITIONS(POSITION(position), UINT32_MAX);
	scope->name = event->name;
	scope->function = UINT32_MAX;
	scope->kind = SCOPE_MANUAL;
	scope->flags = NEVER_STOPPED;
	pairing->open[pairing->open_count++] = pairing->count++;
	return 0;
}

static struct scope *find_open(const struct pairing *pairing, uint64_t scope_id)
{
	size_t near = pairing->open_count < NEAR_SCOPES ? pairing->open_count : NEAR_SCOPES;
	uint32_t far;

	for (size_t i = 1; i <= near; i++) {
		size_t index = pairing->open[pairing->open_count - i];

		if (is_open(pairing, index, scope_id))
			return &pairing->scopes[index];
	}
	if (hash_map_get(&pairing->far, scope_id, &far) && is_open(pairing, far, scope_id))
		return &pairing->scopes[far];
	return NULL;
}

static void stop_scope(struct pairing *pairing, const struct raw_manual *event, size_t position)
{
	struct scope *scope = find_open(pairing, event->value);

	if (!scope) {
		pairing->orphans++;
		return;
	}
	scope->end_ns = event->time;
	scope->child_ns = POSITIONS(scope->child_ns >> 32, POSITION(position));
	scope->flags = 0;
	pop_stopped(pairing);
}

/* ---- the three streams ---- */

struct merge {
	const struct merge_input *input;
	struct lane *lane;
	const struct raw_call *calls; /* hooked, outer first */
	size_t call_count;
	struct raw_call *completes; /* COMPLETE records, outer first */
	size_t complete_count;
	struct pairing pairing;
};

/* Where it does not tell, it may have started before all others. */
static uint32_t complete_start(const struct raw_call *complete)
{
	uint32_t inside = complete->flags;

	return inside < MANUAL_INSIDE_MAX && inside <= complete->order ? 2 * (complete->order - inside) : 0;
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

struct manual_counts {
	size_t starts;
	size_t completes;
	size_t marks;
};

static struct manual_counts count_manual(const struct raw_manual *events, size_t count)
{
	struct manual_counts counts = {0};

	for (size_t i = 0; i < count; i++) {
		counts.starts += events[i].kind == MANUAL_START;
		counts.completes += events[i].kind == MANUAL_COMPLETE;
		counts.marks += events[i].kind >= MANUAL_INSTANT && events[i].kind != MANUAL_THREAD_START &&
				events[i].kind != MANUAL_THREAD_NAME;
	}
	return counts;
}

/* Room for all of the lane; the pairs are made at its far end, and so are read before they are written over.
 */
static int allocate(struct merge *merge, const struct manual_counts *counts)
{
	struct lane *lane = merge->lane;
	size_t others = merge->call_count + counts->completes;

	if (others + counts->starts) {
		lane->scopes = calloc(others + counts->starts, sizeof(*lane->scopes));
		if (!lane->scopes)
			return -ENOMEM;
	}
	if (counts->marks) {
		lane->marks = calloc(counts->marks, sizeof(*lane->marks));
		if (!lane->marks)
			return -ENOMEM;
	}
	if (counts->completes) {
		merge->completes = calloc(counts->completes, sizeof(*merge->completes));
		if (!merge->completes)
			return -ENOMEM;
	}
	merge->pairing.scopes = lane->scopes ? lane->scopes + others : NULL;
	return 0;
}

static int take_event(struct merge *merge, const struct raw_manual *event, size_t position)
{
	struct lane *lane = merge->lane;

	switch (event->kind) {
	case MANUAL_START:
		return start_scope(&merge->pairing, event, position);
	case MANUAL_STOP:
		stop_scope(&merge->pairing, event, position);
		return 0;
	case MANUAL_COMPLETE:
		merge->completes[merge->complete_count++] = (struct raw_call){
			event->time, event->value, event->name, (uint32_t)position, event->inside};
		return 0;
	case MANUAL_THREAD_START:
		return 0;
	case MANUAL_THREAD_NAME:
		lane->name = event->name;
		return 0;
	default:
		lane->marks[lane->mark_count++] = (struct mark){event->time, event->value, event->name,
								POSITION(position), event->kind};
		return 0;
	}
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
static size_t losses_up_to(const struct merge_input *input, uint32_t pid, uint16_t ring, uint64_t ns)
{
	const struct loss_event key = {.pid = pid, .index = ring, .first_ns = ns};
	size_t low = 0, high = input->loss_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (loss_order(&input->losses[middle], &key) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * A scope whose stop may have been lost with other events ends where the first loss of its ring after its
 * start began: its thread is known to have been in it until then, and may have left it since.
 */
static void cut_at_loss(const struct merge *merge, uint8_t ring, struct scope *scope)
{
	const struct merge_input *input = merge->input;
	uint32_t pid = merge->lane->pid;
	/* The loss before may have begun earlier and lasted until after the start. */
	size_t i = losses_up_to(input, pid, ring, scope->start_ns);
	const struct loss_event *loss = i ? &input->losses[i - 1] : NULL;

	if (!loss || loss->pid != pid || loss->index != ring || loss->last_ns < scope->start_ns)
		loss = i < input->loss_count ? &input->losses[i] : NULL;
	if (!loss || loss->pid != pid || loss->index != ring)
		return;
	scope->end_ns = loss->first_ns > scope->start_ns ? loss->first_ns : scope->start_ns;
	scope->flags = SCOPE_FLAG_CUT | SCOPE_FLAG_LOST;
}

static int take_manual(struct merge *merge)
{
	const struct lane_span *span = merge->input->span;
	const struct raw_manual *events = merge->input->thread->manual + span->manual_first;
	size_t count = span->manual_end - span->manual_first;
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		err = take_event(merge, &events[i], i);
	if (merge->complete_count)
		qsort(merge->completes, merge->complete_count, sizeof(*merge->completes), outer_first);
	for (size_t i = 0; i < merge->pairing.count; i++) {
		struct scope *scope = &merge->pairing.scopes[i];

		if (!(scope->flags & NEVER_STOPPED))
			continue;
		scope->end_ns = merge->input->end_ns;
		cut_at_loss(merge, events[0].ring, scope);
	}
	return err;
}

static struct scope hooked_scope(const struct merge *merge, const struct raw_call *call)
{
	const struct function_info *info = &merge->input->timeline->functions[call->id].info;

	return (struct scope){
		.start_ns = call->start_ns,
		.end_ns = call->flags & SCOPE_FLAG_UNFINISHED ? merge->input->end_ns : call->end_ns,
		.child_ns = POSITIONS(call->order, call->order),
		.name = info->name,
		.module = info->module,
		.function = call->id,
		.kind = SCOPE_HOOKED,
		.flags = call->flags,
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
		return a->start_ns < b->start_ns || (a->start_ns == b->start_ns && a->end_ns > b->end_ns);
	return a->kind != b->kind || a->child_ns >> 32 <= b->child_ns >> 32;
}

/*
 * Merges the streams, each in its own order, into lane->scopes. Of scopes with the same start and end a
 * hooked one is taken for the outer: a function that is a manual scope as a whole.
 */
static void merge_streams(struct merge *merge)
{
	struct scope *out = merge->lane->scopes;
	const struct scope *pair = merge->pairing.scopes, *pairs_end = pair + merge->pairing.count;
	size_t calls = 0, completes = 0;

	for (;;) {
		struct scope next = {0}, candidate;
		size_t *taken = NULL;

		if (calls < merge->call_count) {
			next = hooked_scope(merge, &merge->calls[calls]);
			taken = &calls;
		}
		if (completes < merge->complete_count) {
			candidate = complete_scope(&merge->completes[completes]);
			if (!taken || !goes_first(&next, &candidate)) {
				next = candidate;
				taken = &completes;
			}
		}
		if (pair < pairs_end && (!taken || !goes_first(&next, pair)))
			next = *pair++;
		else if (taken)
			++*taken;
		else
			break;
		*out++ = next;
	}
	merge->lane->scope_count = (size_t)(out - merge->lane->scopes);
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

/* Scopes of one kind that have begun, the last one on top; of those that have ended only the top is taken
 * away. */
struct begun {
	struct {
		uint64_t end_ns;
		uint32_t end; /* manual: position */
		uint32_t scope;
	} * items;
	size_t count;
};

/* The time tells of a scope whose stop was lost; elsewhere the position is as good, or better. */
static uint32_t innermost_of(struct begun *begun, uint32_t position, uint64_t now)
{
	while (begun->count &&
	       (begun->items[begun->count - 1].end < position || begun->items[begun->count - 1].end_ns < now))
		begun->count--;
	return begun->count ? begun->items[begun->count - 1].scope : MARK_NO_SCOPE;
}

static void begin_scope(struct begun *begun, const struct scope *scopes, uint32_t index)
{
	const struct scope *scope = &scopes[index];
	uint32_t start = (uint32_t)(scope->child_ns >> 32);
	uint64_t end_ns = scope->end_ns;
	uint32_t end = scope->kind == SCOPE_MANUAL ? (uint32_t)scope->child_ns : UINT32_MAX;

	/* What is never stopped ends with the scope around it, what is cut at a loss no later. */
	if (scope->flags & (NEVER_STOPPED | SCOPE_FLAG_CUT) &&
	    innermost_of(begun, start, scope->start_ns) != MARK_NO_SCOPE) {
		end = begun->items[begun->count - 1].end;
		if (end_ns > begun->items[begun->count - 1].end_ns)
			end_ns = begun->items[begun->count - 1].end_ns;
	}
	begun->items[begun->count].end_ns = end_ns;
	begun->items[begun->count].end = end;
	begun->items[begun->count++].scope = index;
}

/*
 * An argument or a flow belongs to the manual scope that was begun last, as its program sees it, whatever is
 * hooked; where there is none, to the hooked one.
 */
static void attach_all(struct lane *lane, struct begun *manual, struct begun *hooked)
{
	size_t next = 0;

	for (size_t i = 0; i < lane->mark_count; i++) {
		struct mark *mark = &lane->marks[i];
		uint32_t scope = MARK_NO_SCOPE;

		if (mark->kind == MANUAL_ARGUMENT || mark->kind == MANUAL_FLOW) {
			for (; next < lane->scope_count && began_before(&lane->scopes[next], mark); next++)
				begin_scope(lane->scopes[next].kind == SCOPE_MANUAL ? manual : hooked,
					    lane->scopes, (uint32_t)next);
			scope = innermost_of(manual, position_of(mark), mark->time_ns);
			if (scope == MARK_NO_SCOPE)
				scope = innermost_of(hooked, 0, mark->time_ns);
		}
		mark->scope = scope;
	}
}

static int attach_marks(struct lane *lane)
{
	struct begun manual = {NULL, 0}, hooked = {NULL, 0};
	size_t room = lane->mark_count ? lane->scope_count + 1 : 1;
	int err = -ENOMEM;

	manual.items = malloc(room * sizeof(*manual.items));
	hooked.items = malloc(room * sizeof(*hooked.items));
	if (manual.items && hooked.items) {
		attach_all(lane, &manual, &hooked);
		err = 0;
	}
	free(manual.items);
	free(hooked.items);
	return err;
}

/* ---- depth, self time, sub-lanes: one sweep ---- */

struct open_scope {
	size_t index;
	uint32_t end_position;
};

struct stack {
	struct open_scope *items;
	size_t count;
	size_t capacity;
};

struct sweep {
	struct scope *scopes;
	struct stack stacks[SUB_LANES + 1];
	size_t stack_count;
	uint32_t max_depth;
};

/* Has `outer`, which started no later, ended before `scope` started? */
static bool is_over(const struct sweep *sweep, const struct open_scope *outer, const struct scope *scope)
{
	const struct scope *before = &sweep->scopes[outer->index];

	if (before->end_ns != scope->start_ns)
		return before->end_ns < scope->start_ns;
	/* It ended in the very ns: what has no length may have been its last part, the records tell. */
	if (scope->end_ns != scope->start_ns && !(scope->flags & NEVER_STOPPED))
		return true;
	if (before->kind != scope->kind)
		return before->kind != SCOPE_HOOKED;
	return (uint32_t)(scope->child_ns >> 32) > outer->end_position;
}

/* The sub-lane of the innermost open scope: the one that started last. NULL if none is open. */
static struct stack *find_innermost(struct sweep *sweep, const struct scope *scope, bool containing)
{
	struct stack *found = NULL;

	for (size_t i = 0; i < sweep->stack_count; i++) {
		struct stack *stack = &sweep->stacks[i];
		const struct open_scope *top;

		while (stack->count && is_over(sweep, &stack->items[stack->count - 1], scope))
			stack->count--;
		if (!stack->count)
			continue;
		top = &stack->items[stack->count - 1];
		if (containing && sweep->scopes[top->index].end_ns < scope->end_ns)
			continue;
		if (!found || top->index > found->items[found->count - 1].index)
			found = stack;
	}
	return found;
}

/* A sub-lane in which nothing is open. The last one takes whatever finds no other place. */
static struct stack *find_free(struct sweep *sweep)
{
	for (size_t i = 0; i < sweep->stack_count; i++) {
		if (!sweep->stacks[i].count)
			return &sweep->stacks[i];
	}
	if (sweep->stack_count < SUB_LANES)
		return &sweep->stacks[sweep->stack_count++];
	sweep->stacks[SUB_LANES].count = 0;
	return &sweep->stacks[SUB_LANES];
}

/* The end of a scope that was not stopped: that of the scope around it, else of the lane. */
static void settle_end(const struct sweep *sweep, struct scope *scope, const struct stack *around)
{
	const struct scope *outer = around ? &sweep->scopes[around->items[around->count - 1].index] : NULL;

	if (outer)
		scope->end_ns = outer->end_ns;
	scope->flags =
		outer && !(outer->flags & SCOPE_FLAG_UNFINISHED) ? SCOPE_FLAG_CUT : SCOPE_FLAG_UNFINISHED;
}

static int sweep_scope(struct sweep *sweep, size_t index)
{
	struct scope *scope = &sweep->scopes[index];
	bool stopped = !(scope->flags & NEVER_STOPPED);
	struct stack *stack = find_innermost(sweep, scope, stopped);
	uint32_t depth;

	if (!stopped)
		settle_end(sweep, scope, stack);
	if (!stack)
		stack = find_free(sweep);
	if (vec_grow(&stack->items, &stack->capacity, stack->count))
		return -ENOMEM;
	if (stack->count)
		sweep->scopes[stack->items[stack->count - 1].index].child_ns +=
			scope->end_ns - scope->start_ns;
	depth = stack->count < UINT16_MAX ? (uint32_t)stack->count : UINT16_MAX;
	scope->depth = (uint16_t)depth;
	scope->sub_lane = (uint8_t)(stack - sweep->stacks);
	if (depth > sweep->max_depth)
		sweep->max_depth = depth;
	stack->items[stack->count++] = (struct open_scope){index, (uint32_t)scope->child_ns};
	scope->child_ns = 0;
	return 0;
}

static int sweep_lane(struct lane *lane)
{
	struct sweep *sweep = calloc(1, sizeof(*sweep));
	int err = 0;

	if (!sweep)
		return -ENOMEM;
	sweep->scopes = lane->scopes;
	sweep->stack_count = 1;
	for (size_t i = 0; i < lane->scope_count && !err; i++)
		err = sweep_scope(sweep, i);
	lane->max_depth = sweep->max_depth;
	for (size_t i = 0; i <= SUB_LANES; i++)
		free(sweep->stacks[i].items);
	free(sweep);
	return err;
}

/* Manual scopes that were open while events of their ring were lost may lack a stop, or something inside. */
static void flag_losses(struct lane *lane, const struct merge_input *input, uint8_t ring)
{
	for (size_t i = 0; i < lane->scope_count; i++) {
		struct scope *scope = &lane->scopes[i];
		const struct loss_event *loss;
		size_t before;

		if (scope->kind != SCOPE_MANUAL)
			continue;
		before = losses_up_to(input, lane->pid, ring, scope->end_ns);
		loss = before ? &input->losses[before - 1] : NULL;
		if (loss && loss->pid == lane->pid && loss->index == ring && loss->last_ns >= scope->start_ns)
			scope->flags |= SCOPE_FLAG_LOST;
	}
}

int merge_lane(struct lane *lane, const struct merge_input *input, uint64_t *orphans)
{
	const struct lane_span *span = input->span;
	const struct raw_manual *events = input->thread->manual + span->manual_first;
	struct merge merge = {.input = input, .lane = lane};
	struct manual_counts counts;
	int err;

	counts = count_manual(events, span->manual_end - span->manual_first);
	merge.calls = input->thread->calls + span->call_first;
	merge.call_count = span->call_end - span->call_first;
	err = allocate(&merge, &counts);
	if (!err)
		err = take_manual(&merge);
	if (!err) {
		merge_streams(&merge);
		err = attach_marks(lane);
	}
	if (!err)
		err = sweep_lane(lane);
	if (!err && input->loss_count && span->has_manual)
		flag_losses(lane, input, events[0].ring);
	*orphans += merge.pairing.orphans;
	free(merge.completes);
	free(merge.pairing.open);
	hash_map_clear(&merge.pairing.far);
	return err;
}
