/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which bytes of machine code may be a load of the stack pointer. Purpose: large files hold few, so
 * that only these are decoded (stack_flow.h). Stateless. Invariants: true for all of them; what
 * else has such bytes is weeded out by decoding. Not looked for: loads that no stack switch makes
 * (of 16 or 32 bits).
 */
#ifndef SCOPETRACE_CODE_STACK_BYTES_H
#define SCOPETRACE_CODE_STACK_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum stack_bytes {
	STACK_BYTES_NONE,
	STACK_BYTES_LOAD,
	STACK_BYTES_FRAME, /* x86-64, from rbp, as most frames end: see stack_bytes_frame */
	/* the same in a single byte, which stands in many instructions as a part of them */
	STACK_BYTES_LEAVE,
};

/* `before` bytes stand before `at`, and `left` follow from there on. */
enum stack_bytes stack_bytes_x86(const uint8_t *at, size_t before, size_t left);
/* True if none begins at any of the STACK_BYTES_BLOCK bytes; as many and two more must be there. */
enum { STACK_BYTES_BLOCK = 16 };
bool stack_bytes_none(const uint8_t *at);

bool stack_bytes_arm64(const uint8_t *at, size_t left);

/* What a stretch of x86-64 code does with rbp, as far as bytes may tell. */
struct stack_bytes_frame {
	bool may_be_own;     /* it becomes the stack pointer */
	bool may_be_strange; /* it becomes something else */
};

struct stack_bytes_frame stack_bytes_frame(const uint8_t *bytes, size_t size);

#endif
