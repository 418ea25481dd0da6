/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A pinned capture by what its maps hold. Purpose: whoever opens the directory needs nothing else
 * to name the functions, change what is captured and tell how it stands. Owner: a command; one
 * thread. The maps change under it: each call reads them anew.
 */
#ifndef SCOPETRACE_PINNED_MAPS_H
#define SCOPETRACE_PINNED_MAPS_H

#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpf/scope_event.h"
#include "probe/object.h"

struct pinned {
	const char *dir;
	struct probe_object *object;
	int cpu_count;
	struct capture_setting capture; /* as it was when opened */
	uint64_t inode;			/* of what was opened: see pinned_stands */
};

/*
 * Opens the maps. 0, or with the failure logged: -ENOENT nothing is pinned there, -EACCES, -EPROTO of
 * another build, -ENODATA it is loaded and nothing is attached.
 */
int pinned_open(struct pinned *pinned, const char *dir);
/* To end it: whatever state it is in. 0 or -errno, not logged. */
int pinned_open_any(struct pinned *pinned, const char *dir);
void pinned_close(struct pinned *pinned); /* takes a zeroed one */

/*
 * False once its maps were removed by hand, or others were pinned in their place: nobody but us has
 * it then.
 */
bool pinned_stands(const struct pinned *pinned);

/* From then on no hit counts, and who drains or watches it ends: also where nothing but the settings is left
 * in DIR. 0 or -errno, not logged. */
int pinned_silence(const char *dir);

int pinned_map(const struct pinned *pinned, const char *name); /* fd */

/* Each 0 or -errno, logged. */
int pinned_settings(const struct pinned *pinned, struct pairing_settings *settings);
int pinned_put_settings(const struct pinned *pinned, const struct pairing_settings *settings);
int pinned_put_capture(const struct pinned *pinned, const struct capture_setting *capture);
int pinned_function(const struct pinned *pinned, uint32_t id, struct function_setting *function);
int pinned_put_function(const struct pinned *pinned, uint32_t id,
			const struct function_setting *function);
int pinned_counters(const struct pinned *pinned, uint32_t id, struct function_counters *sum);
int pinned_pending(const struct pinned *pinned, struct pending_loss *sum);
int pinned_put_target(const struct pinned *pinned, pid_t pid, bool on);
int pinned_remove_target(const struct pinned *pinned, pid_t pid); /* -ENOENT is not logged */

struct pinned_target {
	pid_t pid;
	bool on;
};

/* malloc'ed; 0 or -errno, logged. */
int pinned_targets(const struct pinned *pinned, struct pinned_target **targets, size_t *count);
/* The same; all are on while the settings say not to heed what the map says. */
int pinned_targets_in_force(const struct pinned *pinned, struct pinned_target **targets,
			    size_t *count);

/*
 * Children of the processes that still bear breakpoints are freed of them. True if there were any.
 */
bool pinned_free_heirs(const struct pinned *pinned);

/* A call that is open at this moment. */
struct pinned_call {
	uint64_t start_ns;
	uint64_t sp;
	uint32_t tgid;
	uint32_t tid;
	uint32_t function;
};

/* By thread, and in each from the outermost on; malloc'ed. 0 or -errno, logged. */
int pinned_open_calls(const struct pinned *pinned, struct pinned_call **calls, size_t *count);

#endif
