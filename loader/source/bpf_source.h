/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF ring as a source. Purpose: completed calls from the kernel, and at the end the accounts.
 * One thread. The ring is mapped by hand: its consumer position advances only when the records are
 * in the output.
 */
#ifndef SCOPETRACE_SOURCE_BPF_SOURCE_H
#define SCOPETRACE_SOURCE_BPF_SOURCE_H

#include "source/source.h"

/* fds of the maps of scope_event.h; they stay the caller's. */
struct bpf_source_maps {
	int events;
	int open_scopes;
	int near_scopes;
	int counters;
	int pending_loss;
};

/*
 * NULL with errno (logged). `function_count` is the number of functions whose accounts are read at
 * the end. Its gone() is never true: the ring does not know its processes, and whoever attached the
 * probes does.
 */
struct source *bpf_source_create(const struct bpf_source_maps *maps, size_t function_count);

/*
 * What becomes of the traced processes, told while draining (again, if a drain failed), by the
 * thread that drains; none must take long.
 */
struct bpf_source_lifecycle {
	/* It has made another, which is not traced. */
	void (*forked)(void *context, uint32_t child, uint32_t parent, uint64_t time_ns);
	/*
	 * It runs another program now. `former`: tid, until then, of the thread that asked for it.
	 */
	void (*execed)(void *context, uint32_t pid, uint32_t former, const char *comm,
		       uint64_t time_ns);
	void *context;
};
void bpf_source_tell_lifecycle(struct source *source, const struct bpf_source_lifecycle *lifecycle);

/*
 * The calls that are running now, as unfinished scopes that end at `now`: *scopes, to be freed. Any
 * thread may ask, while another drains; nothing is counted. A call whose probe is hit at that
 * moment may be left out, or be in the ring as well. 0 or -errno (logged, but for ENOMEM).
 */
int bpf_source_open_calls(const struct source *source, uint64_t now, struct hooked_scope **scopes,
			  size_t *count);

/*
 * The id of the ring's map, which tells the capture from others on this boot; 0 if the kernel does
 * not tell.
 */
uint32_t bpf_source_ring_id(const struct source *source);

/* Notes in the ring, for who comes later, that the accounts are written. */
void bpf_source_set_accounted(struct source *source);

/* Bytes that wait in the ring: what a poller adapts its pace to. */
size_t bpf_source_backlog(const struct source *source);

/*
 * The accounts of function `id`; right once finish() was called after the probes were detached.
 * finish() also delivers the frames that are still open: as unfinished scopes, or as unwound ones
 * if another hit of their thread further out on their stack came after them. `unfinished`
 * holds both those and the ones whose thread ended before.
 */
struct function_accounting bpf_source_accounting(const struct source *source, uint32_t id);

#endif
