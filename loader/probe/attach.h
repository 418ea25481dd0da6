/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes on the functions of processes. Purpose: hook, and leave nothing behind. Owner: the command. Opaque.
 * One entry link and one return link of uprobe_multi per (binary, process), the return link made first, so
 * that no frame is opened whose return goes unseen.
 */
#ifndef SCOPETRACE_PROBE_ATTACH_H
#define SCOPETRACE_PROBE_ATTACH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "timeline/event.h"

struct probe_session;

/* One function to hook; its index in the array is its function id. */
struct probe_function {
	const char *binary;  /* path to attach by: struct module.probe_path; NULL: not in this process */
	uint64_t offset;     /* struct function.probe_offset */
	const char *display; /* for messages */
};

struct probe_options {
	size_t ring_bytes; /* of the BPF ring: a power of two times the page size; 0: the default, 8 MiB */
	uint64_t minimum_ns;
};

/*
 * Loads the BPF object. NULL with errno (said): EPERM, ENOMEM, EINVAL ring size, E2BIG more than
 * MAX_FUNCTIONS, or what the verifier said.
 */
struct probe_session *probe_session_open(const struct probe_options *options, size_t function_count);

/*
 * Arms the functions in process `pid`, which may not have exec'ed yet: a binary is told by its file, not by
 * what is mapped now. Functions that the kernel refuses are left out, and named. May be called again for
 * another process, with as many functions that mean the same by their index; only the paths may differ. Not
 * after probe_session_detach. 0, or with the failure said and everything detached, other processes too:
 * -ESRCH, -EINVAL none of them can be hooked or two functions at one address, -ENOTSUP.
 */
int probe_session_attach(struct probe_session *session, pid_t pid, const struct probe_function *functions,
			 size_t count);

/* How many functions are armed, over all calls of probe_session_attach. */
size_t probe_session_armed(const struct probe_session *session);

/*
 * fd of a map, for the source that drains it: "events", "open_scopes", "near_scopes", "counters",
 * "pending_loss", "settings". It stays the session's. -ENOENT.
 */
int probe_session_map(const struct probe_session *session, const char *name);

/*
 * Ends the capture at this moment for all functions alike: calls that are open stay open in the accounts.
 * Then closes the links; afterwards the counters no longer move. That takes a grace period of the kernel
 * (about 50 ms), however many functions; longer with many processes. Idempotent.
 */
void probe_session_detach(struct probe_session *session);

/* The kernel's own count of programs it skipped (recursion_misses), summed over our programs; after detach
 * too. */
uint64_t probe_session_recursion_misses(const struct probe_session *session);

/* Detaches and unloads; takes NULL. Afterwards no link, program or map of it exists. */
void probe_session_close(struct probe_session *session);

#endif
