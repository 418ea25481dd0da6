/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What libbpf says while a thread has it load something. Purpose: it is shown if the load fails,
 * and else not. Owner: the thread between begin and end, one log at a time. Invariant: `text` is
 * the end of what was logged, as the verifier's verdict is in its last lines, and ends with a NUL.
 */
#ifndef SCOPETRACE_PROBE_LIBBPF_LOG_H
#define SCOPETRACE_PROBE_LIBBPF_LOG_H

#include <bpf/libbpf.h>
#include <stddef.h>

#define LIBBPF_LOG_BYTES 3072

/* Zero before it begins. */
struct libbpf_log {
	size_t length;
	char text[LIBBPF_LOG_BYTES];
	libbpf_print_fn_t before; /* what hears libbpf otherwise */
};

void libbpf_log_begin(struct libbpf_log *log);
void libbpf_log_end(struct libbpf_log *log);

#endif
