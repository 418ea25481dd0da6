/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Numbers with units, as people type them. Purpose: one reading of durations, sizes and pids for
 * all commands. Stateless. Each returns 0, or -EINVAL (not of the form) or -ERANGE (too large or
 * too small), and says nothing.
 */
#ifndef SCOPETRACE_COMMAND_QUANTITY_H
#define SCOPETRACE_COMMAND_QUANTITY_H

#include <stdint.h>
#include <sys/types.h>

/*
 * "2", "2s", "1.5s", "500ms", "50us", "10ns", "3m", "1h" -> ns; a bare number is seconds. Zero is
 * -ERANGE.
 */
int parse_duration(const char *text, uint64_t *ns);

/*
 * "4096", "64K", "8M", "1G" (powers of 1024; KiB, MB and such are taken too) -> bytes. Zero is
 * -ERANGE.
 */
int parse_size(const char *text, uint64_t *bytes);

/* A decimal number from 1 to INT_MAX. */
int parse_pid(const char *text, pid_t *pid);

#endif
