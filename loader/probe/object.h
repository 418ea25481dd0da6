/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF object, loaded. Purpose: the only part that knows the generated skeleton. Owner: a probe session;
 * one thread. libbpf talks while it loads: what it says is kept, and shown only if the loading fails.
 */
#ifndef SCOPETRACE_PROBE_OBJECT_H
#define SCOPETRACE_PROBE_OBJECT_H

#include <stddef.h>
#include <stdint.h>

struct probe_object;

enum probe_program {
	PROBE_ENTRY,
	PROBE_RETURN,
};

#define PROBE_GENERATION 1 /* of the cookies of a session's links */

/*
 * Loads it with a ring of `ring_bytes` and room for the counters of `function_count` functions; its settings
 * are in force. NULL with errno (said).
 */
struct probe_object *probe_object_load(size_t ring_bytes, uint64_t minimum_ns, size_t function_count);

/* Attaches the programs that follow exit, exec, rename and fork of threads, unless they are. 0 or -errno
 * (said). */
int probe_object_follow_threads(struct probe_object *object);
void probe_object_unfollow_threads(struct probe_object *object);

/* From this moment on no hit counts, at whatever link: the capture is over. 0 or -errno (said). */
int probe_object_silence(struct probe_object *object);

int probe_object_program(const struct probe_object *object, enum probe_program program); /* fd */
int probe_object_map(const struct probe_object *object, const char *name);		 /* fd or -ENOENT */

/* Hits at which the kernel skipped one of the programs, in all. */
uint64_t probe_object_recursion_misses(const struct probe_object *object);

void probe_object_unload(struct probe_object *object); /* takes NULL */

#endif
