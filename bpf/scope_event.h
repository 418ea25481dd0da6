/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only header that kernel and user space share: records of the BPF ring, settings, counters. Purpose: one
 * layout on both sides. Invariants: fixed-width types, explicit padding, no pointer, enum, bool or long;
 * sizes asserted; values of enums only grow. Includes nothing: vmlinux.h or <linux/types.h> gives the __u
 * types.
 */
#ifndef SCOPETRACE_SCOPE_EVENT_H
#define SCOPETRACE_SCOPE_EVENT_H

#define SCOPETRACE_BPF_VERSION 2 /* of this header; kept in the settings map, checked by a second loader */

#define MAX_FUNCTIONS	 8192  /* functions of one capture; index = function id = low half of the cookie */
#define MAX_OPEN_SCOPES	 65536 /* (tid, sp) keys in open_scopes at a time */
#define NEAR_SCOPES	 16384 /* places of near_scopes, a power of two */
#define MAX_CHAIN	 8     /* frames that share one stack pointer: tail calls */
#define MAX_THREAD_KEYS	 256   /* keys one thread may hold before it reuses its oldest closed one */
#define MAX_RETURN_DEPTH 64    /* the kernel's own limit of pending uretprobes (MAX_URETPROBE_DEPTH) */

/* Records of the ring: the header's type tells which. */
enum scope_event_type {
	EVENT_SCOPE = 1,  /* struct scope_event: a completed call, or (flag) one that ended with its thread */
	EVENT_LOSS = 2,	  /* struct loss_record */
	EVENT_THREAD = 3, /* struct thread_record: a thread's first hit */
	EVENT_EXIT = 4,	  /* struct thread_record: a traced thread ended */
	EVENT_EXEC = 5,	  /* struct thread_record: its process runs another program now */
	EVENT_RENAME = 6, /* struct thread_record: it has another comm now */
	EVENT_FORK = 7,	  /* struct thread_record, of the child: a traced thread made a process */
};

enum scope_event_flag {
	EVENT_FLAG_UNFINISHED = 1, /* open when its thread ended; end_ns is the thread's end */
};

struct event_header {
	__u16 type;
	__u16 flags;
	__u32 cpu;
};

struct scope_event {
	struct event_header header;
	__u64 start_ns; /* CLOCK_MONOTONIC, as bpf_ktime_get_ns gives it */
	__u64 end_ns;
	__u64 sp;  /* normalised: the caller's stack pointer after the return */
	__u32 tid; /* in the initial pid namespace */
	__u32 tgid;
	__u32 namespace_tid; /* in the thread's own pid namespace */
	__u32 function;
	__u32 generation;
	__u32 reserved;
};
_Static_assert(sizeof(struct scope_event) == 56, "ring record");

/* Scopes that found no room in the ring since the last success on this cpu. */
struct loss_record {
	struct event_header header;
	__u64 first_ns;
	__u64 last_ns;
	__u64 count;
};
_Static_assert(sizeof(struct loss_record) == 32, "ring record");

struct thread_record {
	struct event_header header;
	__u64 thread_start_ns; /* of the thread's creation, CLOCK_MONOTONIC */
	__u64 time_ns;	       /* of the record */
	__u32 tid;
	__u32 tgid;
	__u32 namespace_tid;
	__u32 parent; /* EVENT_FORK: tgid of the parent; else 0 */
	char comm[16];
};
_Static_assert(sizeof(struct thread_record) == 56, "ring record");

/* Map `settings`, an ARRAY of one: read at each hit, so it may be changed live. */
struct pairing_settings {
	__u32 version;	  /* SCOPETRACE_BPF_VERSION */
	__u32 generation; /* hits of links of another one are ignored; it begins at 1; 0: every hit is */
	__u64 minimum_ns; /* shorter calls are counted (below_minimum) and not sent */
	__u32 paused;	  /* 1: entries are counted as filtered; their returns are orphans */
	__u32 reserved;
};
_Static_assert(sizeof(struct pairing_settings) == 24, "map value");

/* Map `counters`, a PERCPU_ARRAY by function id. Each is added to atomically: programs can be preempted. */
struct function_counters {
	/* What each call counts stands in one cache line. */
	__u64 entries;
	__u64 opened;
	__u64 returns;
	__u64 completed;
	__u64 not_a_call;   /* the entry address was reached by a jump of the function's own loop */
	__u64 not_a_return; /* the return instances that such turns left behind */
	__u64 too_deep;
	__u64 filtered;
	__u64 map_full;
	__u64 chain_full;
	__u64 discarded;  /* frames that were found gone: longjmp, exec, a lost hit */
	__u64 unfinished; /* frames that ended with their thread */
	__u64 orphans;	  /* returns without an open frame */
	__u64 below_minimum;
	__u64 ring_lost;
	__u64 reserved;
};
_Static_assert(sizeof(struct function_counters) == 128, "map value");

/*
 * Where the frames of one (tid, sp) are. A slot is reused in place and stays when its frames are closed
 * (chain_length 0). It is in one of two maps: in `near_scopes`, an ARRAY whose place for a key is a hash of
 * it that the program works out itself, or, where another key has that place, in `open_scopes`, a HASH. Both
 * lookups of a call in the HASH cost it 60 ns, in the ARRAY 5 (bench/traced_call).
 */
struct open_key {
	__u64 sp;
	__u32 tid; /* in near_scopes 0: the place is free */
	__u32 reserved;
};
_Static_assert(sizeof(struct open_key) == 16, "map key");

struct open_frame {
	__u64 start_ns;
	__u32 function;
	__u32 turns; /* entries that were not calls; as many returns will not be returns */
};

enum open_slot_state {
	OPEN_SLOT_UNLISTED = 1, /* not among its thread's keys: there was no room for a list just then */
	OPEN_SLOT_ENDED = 2,	/* its thread ended at last_ns, and the ring had no room to say so; the next
				   thread of this tid takes the slot over */
};

struct open_slot {
	__u64 last_ns; /* of the latest entry or return at this stack pointer */
	__u16 chain_length;
	__u16 state;	/* enum open_slot_state, joined by | */
	__u32 overflow; /* frames beyond MAX_CHAIN, whose returns must be skipped */
	__u32 tgid;
	__u32 namespace_tid;
	struct open_frame frames[MAX_CHAIN];
};
_Static_assert(sizeof(struct open_slot) == 24 + 16 * MAX_CHAIN, "map value");

/* Map `near_scopes`. Three cache lines; what most hits touch is in the first. */
struct near_slot {
	struct open_key key;
	struct open_slot slot;
	__u64 reserved[3];
};
_Static_assert(sizeof(struct near_slot) == 192, "map value");

/* Map `pending_loss`, a PERCPU_ARRAY of one: what is lost and not yet told by a loss_record. */
struct pending_loss {
	__u64 count; /* scopes */
	__u64 first_ns;
	__u64 thread_records; /* records of threads that found no room, in all: no loss_record tells them */
	__u64 reserved;
};
_Static_assert(sizeof(struct pending_loss) == 32, "map value");

#endif
