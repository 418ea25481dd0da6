/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages for people, on stderr. Purpose: one voice for every part of the loader. No state but the
 * program's name and the level chosen once, while options are parsed. Any thread may call.
 *
 * The function that detects a failure says it, once: what failed, on what, why, and what to do. Its
 * callers only pass the -errno on.
 */
#ifndef SCOPETRACE_BASE_LOG_H
#define SCOPETRACE_BASE_LOG_H

/* Prints "scopetrace: error: ..." and a new line. */
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "scopetrace: warning: ..." and a new line. */
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints "scopetrace: ..." and a new line: what the program did, for a person. */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
