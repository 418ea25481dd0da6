/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The first instructions of a function. Purpose: where its entry probe goes, and what a hit there
 * costs. Stateless; the bytes may be anything.
 */
#ifndef SCOPETRACE_PROGRAM_ENTRY_PROBE_H
#define SCOPETRACE_PROGRAM_ENTRY_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/symbol.h"

struct code {
	uint16_t machine; /* EM_X86_64, EM_AARCH64, ... */
	const uint8_t *bytes;
	size_t length;	  /* of the bytes that could be read */
	uint64_t size;	  /* of the function, 0 if unknown */
	uint64_t address; /* of the first byte; counts modulo the page size */
};

struct entry_probe {
	uint64_t distance; /* from the first instruction to the one under the probe */
	enum probe_cost cost;
	/* with PROBE_COST_REFUSED: a constant text that follows "its entry is" */
	const char *refused;
};

/*
 * Where the entry probe goes, and what a hit there costs. With use_nop5 == false it never lies on a
 * nop5 that the kernel would optimise: a forked child would crash in it.
 */
struct entry_probe entry_probe_place(const struct code *code, bool use_nop5);

#endif
