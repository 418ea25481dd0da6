/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names made fit to be shown. Purpose: bytes of another program become text. Stateless; any thread.
 */
#ifndef SCOPETRACE_BASE_UTF8_H
#define SCOPETRACE_BASE_UTF8_H

#include <stddef.h>

/*
 * A copy of the bytes as valid UTF-8, terminated: what is not valid, and NUL, becomes U+FFFD. NULL
 * when out of memory. The caller frees.
 */
char *name_from_bytes(const char *bytes, size_t length);

/*
 * The greatest length up to `limit` at which `text` (valid UTF-8) can be cut without splitting a
 * character.
 */
size_t name_cut(const char *text, size_t limit);

#endif
