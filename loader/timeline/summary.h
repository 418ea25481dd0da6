/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is collected from the parts of lanes as they are visited. Purpose: reports in memory that
 * grows with the number of different functions, names and lanes, not with what they did. Owner:
 * timeline_summarise(). Each collector is begun with zeros, takes every part, and puts its results
 * into the summary. 0 or -ENOMEM.
 */
#ifndef SCOPETRACE_TIMELINE_SUMMARY_H
#define SCOPETRACE_TIMELINE_SUMMARY_H

#include "base/hash.h"
#include "timeline/durations.h"

/* Scopes by hooked function, or by name. */
struct function_collector {
	uint32_t *slots; /* of each function, then of each name: index into groups + 1 */
	struct function_group {
		struct function_statistics statistics;
		struct durations durations;
	} * groups;
	size_t count, capacity;
};
int functions_add(struct function_collector *collector, const struct timeline *timeline,
		  const struct lane_part *part);
int functions_end(struct function_collector *collector, const struct timeline *timeline,
		  struct timeline_summary *summary);
void functions_clear(struct function_collector *collector);

/* Frame marks by lane and name. */
struct frame_collector {
	struct hash_map index; /* lane << 32 | name -> index into groups */
	struct frame_group {
		struct frame_statistics statistics;
		struct durations durations;
		uint64_t last_ns; /* of the latest mark */
		/* Losses of the process up to a place in order of time: */
		size_t next_loss;
		uint64_t lost_until;
		bool any_lost;
	} * groups;
	size_t count, capacity;
};
int frames_add(struct frame_collector *collector, const struct timeline *timeline,
	       const struct lane_part *part);
int frames_end(struct frame_collector *collector, struct timeline_summary *summary);
void frames_clear(struct frame_collector *collector);

/* Counters, arguments and instants by process, kind, name and scope. */
struct number_collector {
	struct hash_map index; /* hash of the key -> the last group with that hash */
	struct number_group {
		struct number_statistics statistics;
		uint64_t last_ns;
		uint64_t numbers; /* samples that are no NaN */
		uint32_t before;  /* another group with the same hash: index + 1; or 0 */
	} * groups;
	size_t count, capacity;
};
int numbers_add(struct number_collector *collector, const struct lane_part *part);
int numbers_end(struct number_collector *collector, struct timeline_summary *summary);
void numbers_clear(struct number_collector *collector);

#endif
