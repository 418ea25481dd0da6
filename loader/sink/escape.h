/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names made safe for where they go. Purpose: names come from files and from other processes, and
 * may hold quotes, new lines, escape sequences or broken UTF-8; nothing of that may break a format
 * or drive a terminal. Stateless.
 */
#ifndef SCOPETRACE_SINK_ESCAPE_H
#define SCOPETRACE_SINK_ESCAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What escape_decode gives for a byte that is not part of well-formed UTF-8. */
#define ESCAPE_INVALID UINT32_MAX

/*
 * Decodes the code point at `text`, which is not at its end. Returns how many bytes it takes (1 if
 * invalid).
 */
size_t escape_decode(const char *text, uint32_t *code);

/*
 * Control characters and those that turn the direction of writing: what a terminal may obey instead
 * of show.
 */
bool escape_is_control(uint32_t code);

/*
 * For people: controls as \n, \t, \u001b, \u202e ..., invalid bytes as \xff; one line, safe on a
 * terminal. Returns a malloc'ed copy, or NULL with errno ENOMEM.
 */
char *escape_text(const char *text);

/* The columns that well-formed text without controls takes: its code points. */
size_t escape_columns(const char *text);

/*
 * For Perfetto: the same text, each invalid byte replaced by U+FFFD. malloc'ed, or NULL with errno
 * ENOMEM.
 */
char *escape_utf8(const char *text);

/*
 * A JSON string with its quotes, plain ASCII but for printable UTF-8; invalid bytes become U+FFFD.
 */
void escape_json(FILE *out, const char *text);

/*
 * An RFC 4180 field, quoted where it must be: content is data and stays as it is, but for invalid
 * bytes (U+FFFD), and for controls when `terminal` is set (written as escape_text does).
 */
void escape_csv(FILE *out, const char *text, bool terminal);

#endif
