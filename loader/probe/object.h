/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF object, loaded. Purpose: the only part that knows the generated skeleton. Owner: a probe
 * session; one thread. libbpf talks while it loads: what it says is kept, and shown only if the
 * loading fails.
 */
#ifndef SCOPETRACE_PROBE_OBJECT_H
#define SCOPETRACE_PROBE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct probe_object;

enum probe_program {
	PROBE_ENTRY,
	PROBE_RETURN,
	PROBE_ENTRY_BY_EXIT,
	PROBE_EXIT,
	PROBE_INSTANT,
};

/* What the maps are sized for, and the settings that are in force at first. */
struct probe_object_options {
	size_t ring_bytes;
	size_t function_count;
	size_t exit_count;
	uint64_t minimum_ns;
	uint32_t flags; /* enum setting_flag */
};

/* With generation 1 in force. NULL with errno (logged). */
struct probe_object *probe_object_load(const struct probe_object_options *options);

/*
 * The same programs and maps where they are in the kernel already. `open` gives an fd, now the
 * object's, of a program or map by its kind (PROBE_OBJECT_PROGRAMS, _MAPS) and name, or -errno,
 * logged. NULL with errno (logged), also if they are not of the sizes that this build has.
 */
#define PROBE_OBJECT_PROGRAMS \
	"progs" /* as bpftool's loadall takes them; the kinds are directories' names \
		 */
#define PROBE_OBJECT_MAPS "maps"
typedef int (*probe_object_opener)(void *context, const char *kind, const char *name);
struct probe_object *probe_object_adopt(probe_object_opener open, void *context,
					bool with_programs);

/* Shows every program and map: 0, or the first answer that is not. */
typedef int (*probe_object_visitor)(void *context, const char *kind, const char *name, int fd);
int probe_object_visit(const struct probe_object *object, probe_object_visitor visit,
		       void *context);

/* True if their programs are the same, instruction for instruction; else *differs is the name of one. */
bool probe_object_is_same(const struct probe_object *left, const struct probe_object *right,
			  const char **differs);

/*
 * Filters and flags of a capture that is not in force yet: the generation is 0 then. 0 or -errno
 * (logged).
 */
int probe_object_configure(struct probe_object *object, uint64_t minimum_ns, uint32_t flags);

/*
 * The links by which threads are followed, -1 where there is none; their number and names are
 * fixed.
 */
#define PROBE_FOLLOWERS 4
const char *probe_object_follower(const struct probe_object *object, size_t index, int *fd);

/* From this moment on only hits of links whose cookies have this generation count; 0: none. 0 or -errno
 * (logged). */
int probe_object_set_generation(struct probe_object *object, uint32_t generation);

/* Attaches the programs that follow exit, exec, rename and fork of threads, unless they are. 0 or -errno
 * (logged). */
int probe_object_follow_threads(struct probe_object *object);
/* The forks and execs of this process are told from now on. 0 or -errno (logged). */
int probe_object_add_target(struct probe_object *object, pid_t pid);
void probe_object_unfollow_threads(struct probe_object *object);

int probe_object_program(const struct probe_object *object, enum probe_program program); /* fd */
/* fd or -ENOENT */
int probe_object_map(const struct probe_object *object, const char *name);

/* Hits at which the kernel skipped one of the programs, in all. */
uint64_t probe_object_recursion_misses(const struct probe_object *object);

void probe_object_unload(struct probe_object *object); /* takes NULL */

#endif
