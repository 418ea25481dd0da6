// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SLOPE_TOLERANCE 500e-6
#define WEIGHT_MAX	2e9 /* ns: a long pause must not outvote the regular anchors */
#define NS_MAX		((uint64_t)INT64_MAX)

struct slope {
	double value;
	double weight;
};

static int by_time(const void *a, const void *b)
{
	const struct clock_anchor *x = a, *y = b;

	if (x->ns != y->ns)
		return x->ns < y->ns ? -1 : 1;
	return (x->ticks > y->ticks) - (x->ticks < y->ticks);
}

static int by_value(const void *a, const void *b)
{
	const struct slope *x = a, *y = b;

	return (x->value > y->value) - (x->value < y->value);
}

/* Of anchors that lie within each other's error and contradict, the narrower one stays. */
static void drop_contradictions(struct clock_line *line)
{
	struct clock_anchor *anchors = line->anchors;
	size_t kept = 0;

	for (size_t i = 0; i < line->anchor_count; i++) {
		struct clock_anchor *last = kept ? &anchors[kept - 1] : NULL;

		if (last && anchors[i].ticks <= last->ticks &&
		    anchors[i].ns - last->ns <= (uint64_t)anchors[i].width_ns + last->width_ns) {
			if (anchors[i].width_ns < last->width_ns)
				*last = anchors[i];
			continue;
		}
		anchors[kept++] = anchors[i];
	}
	line->anchor_count = kept;
}

/*
 * The usual slope: the median over all neighbours, weighted by time, as a pause has a slope of its
 * own. Of two that weigh the same the larger is taken: a counter that ran on while CLOCK_MONOTONIC
 * stood still (suspend) gives the smaller one.
 */
static int find_slope(struct clock_line *line)
{
	struct slope *slopes = calloc(line->anchor_count + 1, sizeof(*slopes));
	double total = 0, sum = 0;
	size_t count = 0;

	if (!slopes)
		return -ENOMEM;
	for (size_t i = 1; i < line->anchor_count; i++) {
		const struct clock_anchor *a = &line->anchors[i - 1], *b = a + 1;
		double ns = (double)(b->ns - a->ns);

		if (b->ticks <= a->ticks || b->ns <= a->ns)
			continue;
		slopes[count].value = ns / (double)(b->ticks - a->ticks);
		slopes[count].weight = fmin(ns, WEIGHT_MAX);
		total += slopes[count++].weight;
	}
	qsort(slopes, count, sizeof(*slopes), by_value);
	for (size_t i = 0; i < count && sum <= total / 2; i++) {
		line->slope = slopes[i].value;
		sum += slopes[i].weight;
	}
	free(slopes);
	return 0;
}

static bool joins(const struct clock_line *line, const struct clock_anchor *a,
		  const struct clock_anchor *b)
{
	double expected, got = (double)(b->ns - a->ns);

	if (b->ticks <= a->ticks)
		return false;
	expected = (double)(b->ticks - a->ticks) * line->slope;
	return fabs(got - expected) <=
	       SLOPE_TOLERANCE * fmax(got, expected) + a->width_ns + b->width_ns;
}

static void break_line(struct clock_line *line)
{
	struct clock_anchor *anchors = line->anchors;
	size_t kept = 0;

	for (size_t i = 0; i < line->anchor_count; i++) {
		bool joined = kept && joins(line, &anchors[kept - 1], &anchors[i]);

		if (!joined && line->stretch_count == CLOCK_STRETCHES)
			continue;
		if (!joined)
			line->stretches[line->stretch_count++].first = kept;
		line->stretches[line->stretch_count - 1].last = kept;
		anchors[kept++] = anchors[i];
	}
	line->anchor_count = kept;
}

int clock_line_build(struct clock_line *line, uint32_t clock, const struct clock_anchor *anchors,
		     size_t count)
{
	int err;

	memset(line, 0, sizeof(*line));
	line->clock = clock;
	if (clock == CLOCK_ID_MONOTONIC)
		return 0;
	line->anchors = calloc(count + 1, sizeof(*anchors));
	if (!line->anchors)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		if (anchors[i].clock == clock)
			line->anchors[line->anchor_count++] = anchors[i];
	}
	qsort(line->anchors, line->anchor_count, sizeof(*anchors), by_time);
	drop_contradictions(line);
	err = find_slope(line);
	if (!err)
		break_line(line);
	return err;
}

bool clock_line_usable(const struct clock_line *line)
{
	return line->clock == CLOCK_ID_MONOTONIC || line->slope > 0;
}

/* The time at `ticks` on the line through the anchor, kept within what a time can be. */
static uint64_t along(const struct clock_anchor *anchor, double slope, uint64_t ticks)
{
	double delta;

	if (ticks < anchor->ticks) {
		delta = (double)(anchor->ticks - ticks) * slope;
		return delta >= (double)anchor->ns ? 0 : anchor->ns - (uint64_t)(delta + 0.5);
	}
	delta = (double)(ticks - anchor->ticks) * slope;
	return delta >= (double)(NS_MAX - anchor->ns) ? NS_MAX
						      : anchor->ns + (uint64_t)(delta + 0.5);
}

static uint64_t distance(const struct clock_line *line, size_t stretch, uint64_t ticks)
{
	uint64_t first = line->anchors[line->stretches[stretch].first].ticks;
	uint64_t last = line->anchors[line->stretches[stretch].last].ticks;

	return ticks < first ? first - ticks : ticks > last ? ticks - last : 0;
}

/*
 * The stretch that these ticks lie in, or nearest to; a thread never goes back to an earlier one.
 */
static size_t find_stretch(const struct clock_line *line, size_t from, uint64_t ticks)
{
	size_t nearest = from;
	uint64_t least = distance(line, from, ticks);

	for (size_t i = from + 1; i < line->stretch_count && least; i++) {
		uint64_t there = distance(line, i, ticks);

		if (there < least) {
			least = there;
			nearest = i;
		}
	}
	return nearest;
}

/* Between the anchors of a stretch; the cursor stays at the pair that was used last. */
static uint64_t between(const struct clock_line *line, const struct clock_stretch *stretch,
			struct clock_cursor *cursor, uint64_t ticks)
{
	const struct clock_anchor *a = &line->anchors[cursor->anchor];
	size_t low = stretch->first, high = stretch->last;
	uint64_t ns;

	if (cursor->anchor < low || cursor->anchor >= high || ticks < a->ticks ||
	    ticks > a[1].ticks) {
		while (high - low > 1) {
			size_t middle = low + (high - low) / 2;

			if (line->anchors[middle].ticks <= ticks)
				low = middle;
			else
				high = middle;
		}
		cursor->anchor = low;
		a = &line->anchors[low];
	}
	ns = along(a, (double)(a[1].ns - a->ns) / (double)(a[1].ticks - a->ticks), ticks);
	return ns < a[1].ns ? ns : a[1].ns;
}

uint64_t clock_line_convert(const struct clock_line *line, struct clock_cursor *cursor,
			    uint64_t ticks)
{
	const struct clock_anchor *anchors = line->anchors, *first, *last;
	const struct clock_stretch *stretch;
	uint64_t ns;

	if (line->clock == CLOCK_ID_MONOTONIC)
		return ticks < NS_MAX ? ticks : NS_MAX;
	if (line->stretch_count > 1)
		cursor->stretch = find_stretch(line, cursor->stretch, ticks);
	stretch = &line->stretches[cursor->stretch];
	first = &anchors[stretch->first];
	last = &anchors[stretch->last];
	if (ticks < first->ticks) {
		ns = along(first, line->slope, ticks);
		if (stretch->first && ns < first[-1].ns)
			ns = first[-1].ns;
	} else if (ticks >= last->ticks) {
		ns = along(last, line->slope, ticks);
		if (stretch->last + 1 < line->anchor_count && ns > last[1].ns)
			ns = last[1].ns;
	} else {
		ns = between(line, stretch, cursor, ticks);
	}
	return ns;
}

void clock_line_clear(struct clock_line *line)
{
	free(line->anchors);
	memset(line, 0, sizeof(*line));
}
