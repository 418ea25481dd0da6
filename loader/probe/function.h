/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is hooked, as the probes take it: a function and the instructions that leave it. Owner: who
 * fills it in (plan/sites.h); the probes copy what they keep.
 */
#ifndef SCOPETRACE_PROBE_FUNCTION_H
#define SCOPETRACE_PROBE_FUNCTION_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/scope_event.h"

/* An instruction by which a function with RETURNS_INSTRUCTION is left. */
struct probe_exit {
	uint64_t offset;	     /* in the binary */
	struct exit_setting setting; /* but for its `function`, `is_shared` and `target_function` */
	/* of a jump by way of a stub: the raw name it goes to; else NULL */
	const char *target_name;
};

/* One function to hook; its index in the array is its function id. */
struct probe_function {
	/* path to attach by: struct module.probe_path; NULL: not in this process */
	const char *binary;
	uint64_t offset;     /* struct function.probe_offset */
	const char *display; /* for messages */

	/* Kept in the map `functions`. */
	const char *name;   /* raw; NULL: as display */
	const char *module; /* path as the process knows it; NULL: as binary */
	uint64_t address;
	uint32_t distance; /* of the probe from the function's beginning */
	uint32_t flags;	   /* enum function_flag */
	uint32_t overlap;  /* struct function_setting */

	enum return_mode returns; /* 0: RETURNS_URETPROBE */
	const struct probe_exit
		*exits; /* RETURNS_INSTRUCTION: all of them; else those it would have, if known */
	size_t exit_count;
};

#endif
