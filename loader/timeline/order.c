// SPDX-License-Identifier: GPL-2.0-or-later
#include "timeline/order.h"

#include <string.h>

/*
 * The counters of two cores may differ by so much; a record is late only if it lies further back.
 */
#define CLOCK_ERROR_NS 1000

/*
 * A thread has one late record for each handler that interrupted another. Where more stand
 * together, it is the clock that went back, and their order is right as it is.
 */
#define LATE_TOGETHER 16

/* So many places per record of the run, on the average, are looked at to put records back. */
#define STEPS_PER_RECORD 64

/* The record of a COMPLETE stands at its end. */
static uint64_t *time_of(struct raw_manual *event)
{
	return event->kind == MANUAL_COMPLETE ? &event->value : &event->time;
}

static void set_time(struct raw_manual *event, uint64_t ns)
{
	*time_of(event) = ns;
	if (event->kind == MANUAL_COMPLETE && event->time > ns)
		event->time = ns;
}

static bool is_late(struct raw_manual *event, uint64_t now)
{
	return now > CLOCK_ERROR_NS && *time_of(event) < now - CLOCK_ERROR_NS;
}

static bool must_follow(const struct raw_manual *event, const struct raw_manual *before)
{
	return before->kind == MANUAL_THREAD_START ||
	       (event->kind == MANUAL_STOP && before->kind == MANUAL_START &&
		before->value == event->value);
}

/* The place stays with the slot. */
static void put_in(struct raw_manual *slot, const struct raw_manual *event)
{
	uint32_t place = slot->place;

	*slot = *event;
	slot->place = place;
}

/* Moves events[at] to its place by time among those before it, or no further than `steps` allow. */
static void put_back(struct raw_manual *events, size_t at, uint64_t floor, size_t *steps)
{
	struct raw_manual event = events[at];
	uint64_t ns = *time_of(&event) > floor ? *time_of(&event) : floor;
	size_t place = at;

	while (place && *steps && *time_of(&events[place - 1]) > ns &&
	       !must_follow(&event, &events[place - 1])) {
		place--;
		--*steps;
	}
	if (place && *time_of(&events[place - 1]) > ns)
		ns = *time_of(&events[place - 1]);
	set_time(&event, ns);
	for (; at > place; at--)
		put_in(&events[at], &events[at - 1]);
	put_in(&events[place], &event);
}

uint64_t order_settled(uint64_t ns, uint64_t latest)
{
	return ns < latest && latest - ns <= CLOCK_ERROR_NS ? latest : ns;
}

uint64_t order_records(struct raw_manual *events, size_t count, uint64_t now)
{
	size_t steps = count * STEPS_PER_RECORD;
	uint64_t floor = now;

	for (size_t i = 0; i < count;) {
		size_t end = i;

		while (end < count && is_late(&events[end], now))
			end++;
		for (bool clock = end - i > LATE_TOGETHER; i < end; i++) {
			if (clock)
				set_time(&events[i], now);
			else
				put_back(events, i, floor, &steps);
		}
		if (i == count)
			break;
		now = *time_of(&events[i]) > now ? *time_of(&events[i]) : now;
		set_time(&events[i++], now);
	}
	return now;
}
