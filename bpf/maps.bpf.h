/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maps of scopetrace.bpf.o. Purpose: declared once for all its programs; weak, so that the
 * linker makes one of them from the copy in each file. Their layouts are in scope_event.h.
 */
#ifndef SCOPETRACE_MAPS_BPF_H
#define SCOPETRACE_MAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "scope_event.h"

#define DEFAULT_RING_BYTES (8 << 20)

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, DEFAULT_RING_BYTES);
} events __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_OPEN_SCOPES);
	__type(key, struct open_key);
	__type(value, struct open_slot);
} open_scopes __weak SEC(".maps");

/* Mapped by the loader, and so beginning at a page: its places do not share cache lines. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, NEAR_SCOPES);
	__type(key, u32);
	__type(value, struct near_slot);
} near_scopes __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, struct function_counters);
} counters __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pending_loss);
} pending_loss __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pairing_settings);
} settings __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_FUNCTIONS);
	__type(key, u32);
	__type(value, struct function_setting);
} functions __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, u32);
	__type(value, struct target_setting);
} targets __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, EXIT_SITES);
	__type(key, u32);
	__type(value, struct exit_setting);
} exit_sites __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_HEIRS);
	__type(key, u32);
	__type(value, u32);
} heirs __weak SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct capture_setting);
} capture __weak SEC(".maps");

/*
 * A global function: the verifier looks at it once, and not again at each of its calls; pointers
 * may be NULL there. Weak, so that the linker makes one of them from the copy in each file.
 */
#define SHARED __weak __noinline

/*
 * Programs can be preempted by others on their cpu, so even per-cpu counters are added to
 * atomically.
 */
#define COUNT(counter) ((void)__sync_fetch_and_add(&(counter), 1))

/* The frame at place `index` of a slot; the mask is for the verifier. */
_Static_assert((MAX_CHAIN & (MAX_CHAIN - 1)) == 0, "masked below");
#define FRAME(slot, index) (&(slot)->frames[(index) & (MAX_CHAIN - 1)])

static __always_inline struct function_counters *counters_of(u32 function)
{
	return bpf_map_lookup_elem(&counters, &function);
}

static __always_inline struct function_setting *setting_of(u32 function)
{
	return bpf_map_lookup_elem(&functions, &function);
}

static __always_inline struct pairing_settings *current_settings(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

#endif
