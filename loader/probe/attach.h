/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Probes on the functions of processes. Purpose: hook, and leave nothing behind. Owner: the
 * command. Opaque. One entry link and one link of the ends (returns, or exit sites) of uprobe_multi
 * per (binary, process, return mode), that of the ends made first, so that no frame is opened whose
 * end goes unseen.
 */
#ifndef SCOPETRACE_PROBE_ATTACH_H
#define SCOPETRACE_PROBE_ATTACH_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/function.h"

struct probe_session;

struct probe_options {
	/* of the BPF ring: a power of two times the page size; 0: the default, 8 MiB */
	size_t ring_bytes;
	uint64_t minimum_ns;
	size_t exit_count; /* of all functions, at most; 0 without RETURNS_INSTRUCTION */
	uint32_t flags;	   /* enum setting_flag, joined by | */
};

/*
 * Loads the BPF object. NULL with errno (logged): EPERM, ENOMEM, EINVAL ring size, E2BIG more than
 * MAX_FUNCTIONS or MAX_EXIT_SITES, or what the verifier said.
 */
struct probe_session *probe_session_open(const struct probe_options *options,
					 size_t function_count);

/*
 * The same on programs and maps that are there, as probe_object_adopt() has them, and that are the
 * session's from here on. They stay silent (generation 0) until probe_session_leave().
 */
struct probe_object;
struct probe_session *probe_session_adopt(struct probe_object *object, size_t function_count,
					  size_t exit_count);

/*
 * Arms the functions in process `pid`, which may not have exec'ed yet: a binary is told by its
 * file, not by what is mapped now. Functions that the kernel refuses are left out, and named. May
 * be called again for another process, with as many functions that mean the same by their index;
 * only the paths may differ. Not after probe_session_detach. 0, or with the failure logged and
 * everything detached, other processes too: -ESRCH, -EINVAL none of them can be hooked or two
 * functions at one address, -ENOTSUP.
 */
int probe_session_attach(struct probe_session *session, pid_t pid,
			 const struct probe_function *functions, size_t count);

/*
 * Hooks the functions of `pid` anew, with other return modes perhaps, in place of everything that
 * is attached: no call is seen twice, and a call that is open meanwhile is completed by the new
 * probes if they see its end. A return address that the kernel has put on a stack stays there until
 * that call returns. 0, or with the failure logged, as probe_session_attach; the old probes then stay
 * in force.
 */
int probe_session_switch(struct probe_session *session, pid_t pid,
			 const struct probe_function *functions, size_t count);

/* True if the kernel took no probe on this function, when its process was last hooked. */
bool probe_session_refused(const struct probe_session *session, uint32_t function);

/* How many functions are armed, over all calls of probe_session_attach. */
size_t probe_session_armed(const struct probe_session *session);

/*
 * fd of a map, for the source that drains it: "events", "open_scopes", "near_scopes", "counters",
 * "pending_loss", "settings". It stays the session's. -ENOENT.
 */
int probe_session_map(const struct probe_session *session, const char *name);

/*
 * A process of the session has forked. Unless they soon run another program, its children are freed
 * of the breakpoints that they inherited, by a thread of the session's own. Returns at once.
 */
void probe_session_forked(struct probe_session *session);

/*
 * The same if it is found to have children that are not free: a fork is not told where the ring had
 * no room.
 */
void probe_session_look_for_children(struct probe_session *session);
/* how often that was done; 0 after detach */
size_t probe_session_stripped(const struct probe_session *session);

/*
 * Hooks the processes of the session again, as they were, after an exec in process `pid` by a
 * thread that was not its first one: the kernel has lost sight of such a process. Calls of before
 * this are not seen. 0, also if it has ended or the session is detached, or -errno (logged).
 */
int probe_session_reattach(struct probe_session *session, pid_t pid);

/* True if functions of the program that process `pid` runs now are hooked. */
bool probe_session_has_program_of(struct probe_session *session, pid_t pid);

/*
 * Ends the capture at this moment for all functions alike: calls that are open stay open in the
 * accounts. Then closes the links; afterwards the counters no longer move. That takes a grace
 * period of the kernel (about 50 ms), however many functions; longer with many processes.
 * Idempotent.
 */
void probe_session_detach(struct probe_session *session);

/* Shows the links, to pin them: those of hooks without a name, those that follow threads with theirs. 0, or
 * the first answer that is not. */
typedef int (*probe_link_visitor)(void *context, const char *name, int fd);
int probe_session_visit_links(const struct probe_session *session, probe_link_visitor visit,
			      void *context);

/*
 * Puts the session's generation in force and leaves everything as it is: what was pinned goes on
 * after probe_session_close. 0 or -errno, logged.
 */
int probe_session_leave(struct probe_session *session);

/* The kernel's own count of programs it skipped (recursion_misses), summed over our programs; after detach
 * too. */
uint64_t probe_session_recursion_misses(const struct probe_session *session);

/* Detaches and unloads; takes NULL. Afterwards no link, program or map of it exists. */
void probe_session_close(struct probe_session *session);

#endif
