// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/say_returns.h"

#include "base/log.h"

static size_t count_choices(const struct return_plan *plan, int way, int reason)
{
	size_t count = 0;

	for (size_t i = 0; i < plan->count; i++) {
		const struct return_choice *choice = &plan->choices[i];

		count += !choice->refused && (int)choice->way == way &&
			 (int)choice->reason == reason;
	}
	return count;
}

void say_returns(const struct return_plan *plan, const struct hazard *hazard, bool all)
{
	for (int way = RETURN_URETPROBE; way <= RETURN_NONE; way++) {
		for (int reason = RETURN_ASKED; reason < RETURN_REASONS; reason++) {
			size_t count = count_choices(plan, way, reason);
			bool tells_evidence = reason == RETURN_HAZARD;

			if (!count || (reason == RETURN_HARMLESS && !all))
				continue;
			if (way == RETURN_NONE) {
				log_info("entries only: %zu of %zu functions, as --returns asks",
					 count, plan->count);
				continue;
			}
			log_info("returns by %s: %zu of %zu functions (%s%s%s)",
				 return_way_name(way), count, plan->count,
				 return_reason_text(reason), tells_evidence ? ": " : "",
				 tells_evidence ? hazard->evidence : "");
		}
	}
	if (plan->refused && all)
		log_info(
			"left out: %zu of %zu functions that cannot be hooked, or whose returns cannot be told",
			plan->refused, plan->count);
}
