/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a segment shall be like. Purpose: options and environment (SCOPE_RINGS, SCOPE_SLOTS, SCOPE_CLOCK,
 * SCOPE_CAPTURE) read in one place. Const once it is read; the environment goes before the options.
 */
#ifndef SCOPE_CONFIG_H
#define SCOPE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "include/scope.h"

/* SCOPE_CAPTURE=1: capture from the start. Any other number: in that process only, which waits for its
 * reader. */
#define SCOPE_CAPTURE_ANY 1u

struct scope_config {
	uint32_t rings;
	uint32_t slots_per_ring;
	uint32_t clock; /* enum scope_clock */
	/* The process that opens capture as soon as it has a segment; 0: none, SCOPE_CAPTURE_ANY: each. */
	uint32_t capture_pid;
};

/* `options` may be NULL. 0 or -EINVAL; values in the environment that cannot be are passed over. */
int scope_config_read(struct scope_config *config, const struct scope_options *options);

#endif
