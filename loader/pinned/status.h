/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How a pinned capture stands, and both forms in which it is told. One owner. */
#ifndef SCOPETRACE_PINNED_STATUS_H
#define SCOPETRACE_PINNED_STATUS_H

#include "pinned/directory.h"
#include "pinned/maps.h"

struct pinned_status {
	struct pinned pinned;
	struct pairing_settings settings;
	struct function_setting *functions; /* as many as pinned.capture says, and their counters */
	struct function_counters *counters;
	struct pending_loss pending;
	struct pinned_target *targets;
	size_t target_count;
	struct pin_links links;
	size_t ring_bytes;
	size_t waiting_bytes; /* in the ring */
	struct pinned_call *calls;
	size_t call_count;
	bool drained; /* a drainer is at work */
	bool watched; /* pinned.capture.watcher, which was left behind, still lives */
};

/* On standard output. */
void pinned_status_text(const struct pinned_status *status);
void pinned_status_json(const struct pinned_status *status);

#endif
