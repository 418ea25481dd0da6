/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only header that kernel and user space share: records of the BPF ring, settings, counters.
 * Purpose: one layout on both sides. Invariants: fixed-width types, explicit padding, no pointer,
 * enum, bool or long; sizes asserted; values of enums only grow. Includes nothing: vmlinux.h or
 * <linux/types.h> gives the __u types.
 */
#ifndef SCOPETRACE_SCOPE_EVENT_H
#define SCOPETRACE_SCOPE_EVENT_H

/* of this header; kept in the settings map, checked by a second loader */
#define SCOPETRACE_BPF_VERSION 5

/* functions of one capture; index = function id = low half of the cookie */
#define MAX_FUNCTIONS	 8192
#define MAX_OPEN_SCOPES	 65536 /* (tid, sp) keys in open_scopes at a time */
#define NEAR_SCOPES	 16384 /* places of near_scopes, a power of two */
#define MAX_CHAIN	 8     /* frames that share one stack pointer: tail calls */
#define MAX_THREAD_KEYS	 256   /* keys one thread may hold before it reuses its oldest closed one */
#define KEY_BLOCK	 256   /* more keys, for calls that are open: so many at a time */
#define KEY_BLOCKS	 128   /* of all threads: half of what open_scopes has room for */
#define THREAD_BLOCKS	 64    /* of one thread */
#define MAX_RETURN_DEPTH 64 /* the kernel's own limit of pending uretprobes (MAX_URETPROBE_DEPTH) */
#define EXIT_SITES	 65536 /* instructions by which functions with `instruction` returns are left */
#define MAX_EXIT_SITES	 (1 << 20) /* that the map can be made for */
#define MAX_TARGETS	 1024	   /* processes of one pinned capture */

/* Records of the ring: the header's type tells which. */
enum scope_event_type {
	/* struct scope_event: a completed call, or (flag) one that ended with its thread */
	EVENT_SCOPE = 1,
	EVENT_LOSS = 2,	  /* struct loss_record */
	EVENT_THREAD = 3, /* struct thread_record: a thread's first hit */
	EVENT_EXIT = 4,	  /* struct thread_record: a traced thread ended */
	EVENT_EXEC = 5,	  /* struct thread_record: its process runs another program now */
	EVENT_RENAME = 6, /* struct thread_record: it has another comm now */
	EVENT_FORK = 7,	  /* struct thread_record, of the child: a traced thread made a process */
};

enum scope_event_flag {
	EVENT_FLAG_UNFINISHED = 1, /* open when its thread ended; end_ns is the thread's end */
	/* left by an exception or another jump out; end_ns: when it was found gone */
	EVENT_FLAG_UNWOUND = 2,
	EVENT_FLAG_INSTANT = 4, /* an entry alone: end_ns is start_ns */
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
	/* of the thread that entered; `tid` is the one that returned (stacks may migrate) */
	__u32 start_tid;
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
	/* EVENT_FORK: tgid of the parent; EVENT_EXEC: tid of the thread before; else 0 */
	__u32 former;
	char comm[16];
};
_Static_assert(sizeof(struct thread_record) == 56, "ring record");

enum setting_flag {
	SETTING_PAUSED = 1, /* entries are counted as filtered; their returns are orphans */
	/* so are those of processes that are not in `targets`, or are switched off there */
	SETTING_TARGETS = 2,
	/* a stack may go from thread to thread inside a call: keys are (tgid, sp) */
	SETTING_MIGRATE = 4,
	/* new keys go to open_scopes alone, which then shows every open call */
	SETTING_HASH_ONLY = 8,
	/* with MIGRATE, of Go: sp is the place in a goroutine's stack, wherever that is */
	SETTING_GOROUTINES = 16,
};

/* Map `settings`, an ARRAY of one: read at each hit, so it may be changed live. */
struct pairing_settings {
	__u32 version; /* SCOPETRACE_BPF_VERSION */
	/* hits of links of another one are ignored; it begins at 1; 0: every hit is */
	__u32 generation;
	__u64 minimum_ns; /* shorter calls are counted (below_minimum) and not sent */
	__u32 flags;	  /* enum setting_flag, joined by | */
	__u32 reserved;
};
_Static_assert(sizeof(struct pairing_settings) == 24, "map value");

enum function_flag {
	FUNCTION_OFF = 1, /* its entries are counted as filtered */
	/* its own loop comes back to the probe: an entry on its own open frame is a turn */
	FUNCTION_LOOPS = 2,
	FUNCTION_INSIDE = 4, /* its entry lies inside another function, which may run into it */
	/*
	 * with LOOPS: all jumps of that loop have sites (SITE_TURN), so an entry that none of them
	 * led to is a call, whatever is open
	 */
	FUNCTION_TURNS = 8,
};

/* How the end of a call is seen. */
enum return_mode {
	RETURNS_AUTO = 0,	 /* asked for only: the loader chooses one of those below */
	RETURNS_URETPROBE = 1,	 /* the kernel puts a return address of its own on the stack */
	RETURNS_INSTRUCTION = 2, /* probes on the instructions by which the function is left */
	RETURNS_NONE = 3,	 /* not at all: entries only */
};

/*
 * Map `functions`, an ARRAY by function id: what a second loader, or bpftool, needs to name it.
 * Flags and minimum are read at each hit.
 */
struct function_setting {
	__u32 flags;	  /* enum function_flag, joined by | */
	__u32 returns;	  /* enum return_mode */
	__u64 minimum_ns; /* if longer than that of `settings` */
	__u64 offset;	  /* of the probe in its file */
	__u64 address;	  /* of the function, as the symbols of its file count */
	/* place + 1 of the site that is the probed instruction itself; 0: it leaves nothing */
	__u32 exit_site;
	__u32 distance;	 /* bytes from the function's beginning to its probe */
	__u32 overlap;	 /* of functions whose code overlaps, one number, not 0 */
	char module[84]; /* path of the file, its end if it is too long */
	char name[128];	 /* raw symbol, its beginning if it is too long */
};
_Static_assert(sizeof(struct function_setting) == 256, "map value");

/*
 * Map `capture`, an ARRAY of one: what a pinned capture's other commands need to know of it. The
 * programs do not read it.
 */
struct capture_setting {
	/* CLOCK_MONOTONIC when it was attached; 0: it is not, or attaching died half way */
	__u64 start_ns;
	__u32 functions; /* how many there are in `functions` */
	__u32 returns;	 /* enum return_mode that was asked for */
	__u32 watcher;	 /* pid of `attach --watch`; 0: there is none */
	__u32 reserved[3];
};
_Static_assert(sizeof(struct capture_setting) == 32, "map value");

/* Map `targets`, a HASH by tgid of the initial pid namespace; heeded with SETTING_TARGETS. */
struct target_setting {
	__u32 on; /* 0: entries of this process are counted as filtered */
	__u32 reserved;
};
_Static_assert(sizeof(struct target_setting) == 8, "map value");

enum site_kind {
	SITE_RETURN = 1,      /* ret in any form that the kernel takes a probe on */
	SITE_JUMP = 2,	      /* a direct jump out of the function: a tail call */
	SITE_CONDITIONAL = 3, /* the same, taken on a condition */
	/* a jump through a register or memory; whether it leaves is seen at the hit */
	SITE_INDIRECT = 4,
	/* leaves nothing: its function's loop comes back to the entry, if the condition holds */
	SITE_TURN = 5,
};

enum site_condition {
	SITE_ALWAYS = 0,
	/* `code`: x86-64 the low nibble of jcc, arm64 the condition of b.cond */
	SITE_FLAGS = 1,
	SITE_ZERO = 2,	    /* register `base` (`width` bits of it) is zero: cbz, jrcxz */
	SITE_NOT_ZERO = 3,  /* cbnz */
	SITE_BIT_CLEAR = 4, /* bit `code` of register `base` is clear: tbz */
	SITE_BIT_SET = 5,   /* tbnz */
};

/*
 * Registers by their hardware numbers: rax 0, rcx 1, rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8
 * ... r15; x0 ... x30, sp 31.
 */
#define SITE_REGISTER_IP   32 /* rip-relative memory: the address behind the instruction */
#define SITE_REGISTER_NONE 255
/*
 * In so many ranges of its function a target is looked for at a hit: a function of more is refused
 * if it has an indirect jump that may leave it.
 */
#define SITE_RANGES 2

/* Bytes from the instruction itself; end exclusive. */
struct site_range {
	__s64 begin;
	__s64 end;
};

/* Map `exit_sites`, an ARRAY by the low half of the cookie. */
struct exit_setting {
	__s64 target; /* JUMP, CONDITIONAL: bytes from the instruction to where it goes */
	__s64 displacement;
	/* INDIRECT: a target in one of them does not leave */
	struct site_range inside[SITE_RANGES];
	__u32 function;	       /* the one that it is in; of several, the first */
	__u32 target_function; /* id + 1 of the hooked function it goes to by way of a stub; or 0 */
	__u8 kind;	       /* enum site_kind */
	__u8 condition;	       /* enum site_condition */
	__u8 code;
	__u8 width;
	__u8 is_memory;
	__u8 base;
	__u8 index;
	__u8 scale;
	__u8 is_shared; /* it belongs to several hooked functions */
	__u8 length;	/* of the instruction */
	__u8 reserved[6];
};
_Static_assert(sizeof(struct exit_setting) == 72, "map value");

/*
 * Map `counters`, a PERCPU_ARRAY by function id. Each is added to atomically: programs can be
 * preempted.
 */
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
	__u64 discarded; /* frames above that of a return: a jump led to them, and their own never came */
	__u64 unfinished; /* frames that ended with their thread */
	__u64 orphans;	  /* returns without an open frame */
	__u64 below_minimum;
	__u64 ring_lost;
	/* frames that were found gone: an exception, a longjmp or an exec left them */
	__u64 unwound;
	/* of not_a_call and orphans: hits that repeat the one just before, on another cpu */
	__u64 duplicates;
	__u64 instants; /* entries of a function with RETURNS_NONE */
	__u64 reserved[6];
};
_Static_assert(sizeof(struct function_counters) == 192, "map value");

/*
 * Where the frames of one (tid, sp) are. A slot is reused in place and stays when its frames are
 * closed (chain_length 0). It is in one of two maps: in `near_scopes`, an ARRAY whose place for a
 * key is a hash of it that the program works out itself, or, where another key has that place, in
 * `open_scopes`, a HASH. Both lookups of a call in the HASH cost it 60 ns, in the ARRAY 5
 * (bench/traced_call).
 */
struct open_key {
	__u64 sp;
	__u32 tid;	  /* in near_scopes 0: the place is free; with SETTING_MIGRATE the tgid */
	__u32 of_process; /* 1: with SETTING_MIGRATE */
};
_Static_assert(sizeof(struct open_key) == 16, "map key");

enum open_frame_flag {
	OPEN_FRAME_BY_EXIT = 1, /* with RETURNS_INSTRUCTION */
	/* its loop comes back to the entry just now: the next hit there is no call */
	OPEN_FRAME_TURN = 2,
};

struct open_frame {
	__u64 start_ns;
	__u16 function;
	__u16 flags; /* enum open_frame_flag */
	/* Uretprobe: entries that were not calls, as many returns will not be returns. BY_EXIT: low half of
	 * the address that it returns to; where stacks migrate the tid of the thread that entered. */
	__u32 detail;
};

enum open_slot_state {
	/* not among its thread's keys: there was no room for a list just then */
	OPEN_SLOT_UNLISTED = 1,
	/*
	 * its thread ended at last_ns, and the ring had no room to say so; the next thread of this
	 * tid takes the slot over
	 */
	OPEN_SLOT_ENDED = 2,
	OPEN_SLOT_STRANGE = 3, /* one of these */
	/* it goes when its calls have ended: its thread holds more than MAX_THREAD_KEYS */
	OPEN_SLOT_EXTRA = 4,
};

struct open_slot {
	__u64 last_ns; /* of the latest entry or return at this stack pointer */
	__u16 chain_length;
	__u16 state;	/* enum open_slot_state, joined by | */
	__u16 overflow; /* frames beyond MAX_CHAIN, whose returns must be skipped */
	__u16 cpu;	/* of the latest hit */
	__u32 tgid;
	__u32 namespace_tid;
	struct open_frame frames[MAX_CHAIN];
	/* BY_EXIT: the innermost frame has jumped out of its function, at tail_ns; else 0. That is its end,
	 * and that of the frames below it, unless a hooked function that it went to returns for them all. */
	__u64 tail_ns;
	__u64 tail_target; /* address jumped to; or a function's id + 1 */
	/* End of the stack that the key lies on, a mapping or a signal stack: keys of one thread with the
	 * same are on one stack. 0: it is not known, or stacks migrate. */
	__u64 stack_end;
};
_Static_assert(sizeof(struct open_slot) == 24 + 16 * MAX_CHAIN + 24, "map value");

/* Map `near_scopes`. Three cache lines; what most hits touch is in the first. */
struct near_slot {
	struct open_key key;
	struct open_slot slot;
};
_Static_assert(sizeof(struct near_slot) == 192, "map value");

/*
 * Map `heirs`, an LRU_HASH by tgid: processes that a traced one has forked, or such a process, and
 * that run its program still. They have inherited the breakpoints; the loader takes out those that
 * it has freed of them.
 */
#define MAX_HEIRS 1024

/* Map `pending_loss`, a PERCPU_ARRAY of one: what is lost and not yet told by a loss_record. */
struct pending_loss {
	__u64 count; /* scopes */
	__u64 first_ns;
	/* records of threads that found no room, in all: no loss_record tells them */
	__u64 thread_records;
	__u64 last_ns;
};
_Static_assert(sizeof(struct pending_loss) == 32, "map value");

#endif
