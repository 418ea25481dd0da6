/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a reader believes. Purpose: every judgement on memory that another process writes, in one place and
 * without any access to that memory: all arguments are the reader's own copies.
 */
#ifndef SCOPE_VALIDATE_H
#define SCOPE_VALIDATE_H

#include <stdbool.h>

#include "segment.h"

/*
 * Of a segment `length` bytes long. 0; -EAGAIN not initialised; -EPROTO another major version; -EBADMSG a
 * field that does not add up.
 */
int scope_validate_header(const struct scope_header *header, uint64_t length);

/* Of a ring whose cursor stands at `cursor`. */
bool scope_validate_position(const struct scope_position *position, uint64_t cursor);

/* Kind, lengths and flags are within their limits. */
bool scope_validate_record(const struct scope_record *record);

#endif
