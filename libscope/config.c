// SPDX-License-Identifier: BSD-2-Clause
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "platform.h"
#include "segment.h"

/* Of the struct as version 1.0 had it; and no sensible one is larger than a page. */
#define OPTIONS_SIZE_1	 (offsetof(struct scope_options, reserved) + sizeof(uint32_t))
#define OPTIONS_SIZE_MAX 4096u

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

static const char *environment(const char *name)
{
	const char *text = scope_platform_environment(name);

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

/* Options of a program that knows fewer fields than this library end early; what it knows and we do not must
 * be zero. */
static int copy_options(struct scope_options *copy, const struct scope_options *options)
{
	const char *bytes = (const char *)options;

	memset(copy, 0, sizeof(*copy));
	if (!options)
		return 0;
	if (options->size < OPTIONS_SIZE_1 || options->size > OPTIONS_SIZE_MAX)
		return -EINVAL;
	for (size_t i = sizeof(*copy); i < options->size; i++)
		if (bytes[i])
			return -EINVAL;
	memcpy(copy, options, options->size < sizeof(*copy) ? options->size : sizeof(*copy));
	return copy->clock > SCOPE_CLOCK_SYSTEM || copy->reserved ? -EINVAL : 0;
}

int scope_config_read(struct scope_config *config, const struct scope_options *options)
{
	struct scope_options given;
	uint32_t rings, slots;
	bool system_clock;

	if (copy_options(&given, options) != 0)
		return -EINVAL;
	rings = given.rings ? given.rings : SCOPE_RINGS_DEFAULT;
	slots = given.slots_per_ring;
	system_clock = given.clock == SCOPE_CLOCK_SYSTEM;
	if (!rings_possible(rings) || (slots && !slots_possible(slots)))
		return -EINVAL;
	number_from_environment(&rings, "SCOPE_RINGS", rings_possible);
	number_from_environment(&slots, "SCOPE_SLOTS", slots_possible);
	if (strcmp(environment("SCOPE_CLOCK"), "monotonic") == 0)
		system_clock = true;
	config->rings = rings;
	config->slots_per_ring = slots ? slots : slots_for(rings);
	config->clock = scope_clock_choose(system_clock);
	config->capture_pid = 0;
	number_from_environment(&config->capture_pid, "SCOPE_CAPTURE", pid_possible);
	return 0;
}
