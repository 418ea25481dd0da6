// SPDX-License-Identifier: BSD-2-Clause
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "segment.h"

static bool rings_possible(uint64_t rings)
{
	return rings >= 1 && rings <= SCOPE_RINGS_MAX;
}

static bool slots_possible(uint64_t slots)
{
	return slots >= SCOPE_SLOTS_MIN && slots <= SCOPE_SLOTS_MAX && (slots & (slots - 1)) == 0;
}

static bool pid_possible(uint64_t pid)
{
	return pid >= 1 && pid <= INT32_MAX;
}

/* The largest power of two that keeps the budget. */
static uint32_t slots_for(uint32_t rings)
{
	uint32_t slots = SCOPE_SLOTS_BUDGET;

	while ((uint64_t)slots * rings > SCOPE_SLOTS_BUDGET)
		slots /= 2;
	return slots;
}

/* Not from the environment of a privileged program's caller. */
static const char *environment(const char *name)
{
	const char *text = secure_getenv(name);

	return text ? text : "";
}

static void number_from_environment(uint32_t *value, const char *name, bool (*possible)(uint64_t))
{
	const char *text = environment(name);
	char *end;
	unsigned long long number;

	if (*text < '0' || *text > '9')
		return;
	number = strtoull(text, &end, 10);
	if (*end == '\0' && possible(number))
		*value = (uint32_t)number;
}

int scope_config_read(struct scope_config *config, const struct scope_options *options)
{
	uint32_t rings = options && options->rings ? options->rings : SCOPE_RINGS_DEFAULT;
	uint32_t slots = options ? options->slots_per_ring : 0;
	bool system_clock = options && options->clock == SCOPE_CLOCK_SYSTEM;

	if (options &&
	    (options->size < sizeof(*options) || options->clock > SCOPE_CLOCK_SYSTEM || options->reserved))
		return -EINVAL;
	if (!rings_possible(rings) || (slots && !slots_possible(slots)))
		return -EINVAL;
	number_from_environment(&rings, "SCOPE_RINGS", rings_possible);
	number_from_environment(&slots, "SCOPE_SLOTS", slots_possible);
	if (strcmp(environment("SCOPE_CLOCK"), "monotonic") == 0)
		system_clock = true;
	config->rings = rings;
	config->slots_per_ring = slots ? slots : slots_for(rings);
	config->clock = clock_choose(system_clock);
	config->capture_pid = 0;
	number_from_environment(&config->capture_pid, "SCOPE_CAPTURE", pid_possible);
	return 0;
}
