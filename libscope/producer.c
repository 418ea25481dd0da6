// SPDX-License-Identifier: BSD-2-Clause
/*
 * The write path. Each thread hashes its id to a ring and writes only there; a record costs one relaxed
 * fetch_add, seven relaxed stores and one release store. Every writer is wait-free: nobody waits for a
 * reader, another writer or a lock.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "attach.h"
#include "clock.h"
#include "include/scope.h"
#include "platform.h"
#include "segment.h"
#include "threads.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define COLD	      __attribute__((noinline, cold))
#define UNLIKELY(x)   __builtin_expect(!!(x), 0)
/* Said aloud, since the compiler takes for rare what the macros call behind a test. */
#define HOT __attribute__((hot))

/* A token is the claim of the start record, below this bit, and the generation of its segment, above it. */
#define GENERATION_SHIFT 48

#define KEPT_NAME_MAX 64u

/* No segment is here: what a thread has for a segment before its first record. */
#define NO_SEGMENT 1u

struct thread {
	uintptr_t segment; /* in which this thread has begun; unequal to the gate's: begin (again: fork) */
	struct scope_ring *ring;
	const uint64_t *capture_until;
	uint64_t slot_mask;
	uint64_t generation; /* shifted, as in a token */
	uint32_t tid;
	uint32_t clock;
	uint32_t reader_epoch; /* of the reader that was told this thread's name */
	uint32_t events;       /* written, continuations aside; wraps */
	uint32_t kept_length;
	char kept_name[KEPT_NAME_MAX]; /* given while nobody recorded */
};

/* Initial-exec: a first touch from a signal handler must not allocate. */
static _Thread_local struct thread self __attribute__((tls_model("initial-exec"))) = {.segment = NO_SEGMENT};

/* The first page is wiped in a forked child, whatever system call made it. */
_Alignas(SCOPE_GATE_PAGE) struct scope_gate scope_gate;
static_assert(offsetof(struct scope_gate, armed) == SCOPE_GATE_PAGE, "the wiped part is one page");

/* Const after the constructor and scope_init. */
static struct scope_config config;
/* Survive a fork, so that a child can tell its segment from its parent's. */
static uint32_t last_generation;
static int descriptor = -1;

/* Tested by scope_enabled when this process cannot be measured. */
static const uint64_t never_enabled;

static uintptr_t gate_offset(const uint64_t *word)
{
	return (uintptr_t)word - (uintptr_t)&scope_gate.armed;
}

/* ---- slots ---- */

/* The first of `count` claims. */
ALWAYS_INLINE uint64_t claim_slots(uint64_t count)
{
	/* Relaxed: the cursor orders nothing; the stamp alone says what is published. */
	return __atomic_fetch_add(&self.ring->write_cursor, count, __ATOMIC_RELAXED);
}

ALWAYS_INLINE uint64_t claim_slot(void)
{
	return claim_slots(1);
}

/* The claim of a record that is no continuation. */
ALWAYS_INLINE uint64_t claim_event(void)
{
	uint64_t claim = claim_slot();

	/* Not before it: a locked instruction waits for the stores before it. */
	self.events++;
	return claim;
}

/* Word 2 of a record: tid, kind, name length, flags, in the byte order of the machine. */
ALWAYS_INLINE uint64_t fields_word(uint32_t kind, uint32_t name_length, uint32_t flags)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return self.tid | (uint64_t)(kind | name_length << 8 | flags << 16) << 32;
#else
	return (uint64_t)self.tid << 32 | kind << 24 | name_length << 16 | flags;
#endif
}

/* Words 0 and 1 are ticks and scope id, 2 the fields, 3 to 6 the name. */
ALWAYS_INLINE void publish(uint64_t claim, const uint64_t word[SCOPE_RECORD_WORDS])
{
	struct scope_slot *slot = (struct scope_slot *)(self.ring + 1) + (claim & self.slot_mask);

	__atomic_store_n(&slot->word[0], word[0], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[1], word[1], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[2], word[2], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[3], word[3], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[4], word[4], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[5], word[5], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->word[6], word[6], __ATOMIC_RELAXED);
	/* Release: pairs with the acquire load in the reader's copy_slot. */
	__atomic_store_n(&slot->stamp, scope_check(claim, word), __ATOMIC_RELEASE);
}

/* ---- names ---- */

/* 1 to 7 bytes as the low bytes of a word, without a look at any other byte. */
ALWAYS_INLINE uint64_t load_few(const char *bytes, size_t length)
{
	uint64_t word = 0;

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	if (length >= 4) {
		uint32_t low, high; /* they overlap in equal bytes */

		memcpy(&low, bytes, 4);
		memcpy(&high, bytes + length - 4, 4);
		return low | (uint64_t)high << (8 * (length - 4));
	}
	word = (unsigned char)bytes[0];
	word |= (uint64_t)(unsigned char)bytes[length / 2] << (8 * (length / 2));
	word |= (uint64_t)(unsigned char)bytes[length - 1] << (8 * (length - 1));
#else
	for (size_t i = 0; i < length; i++)
		((char *)&word)[i] = bytes[i];
#endif
	return word;
}

/* The eight bytes from `at` on, zeroes after the name's end. */
ALWAYS_INLINE uint64_t load_word(const char *name, size_t length, size_t at)
{
	uint64_t word = 0;

	if (length >= at + 8)
		memcpy(&word, name + at, 8);
	else if (length > at)
		word = load_few(name + at, length - at);
	return word;
}

/* At most 32 bytes into four words. */
ALWAYS_INLINE void load_name(uint64_t word[4], const char *name, size_t length)
{
	word[0] = load_word(name, length, 0);
	word[1] = load_word(name, length, 8);
	word[2] = load_word(name, length, 16);
	word[3] = load_word(name, length, 24);
}

/*
 * What did not fit into the record of `scope_id`. Several claims are made at once: one fetch_add, and what a
 * signal handler writes comes after them. No more than four, since a writer that is held up here leaves as
 * many holes.
 */
static __attribute__((noinline)) void continue_name(uint64_t scope_id, uint64_t ticks, const char *name,
						    size_t length)
{
	uint64_t claim = 0, claimed = 0;

	for (; length; claimed--) {
		size_t here = length < 32 ? length : 32;
		uint64_t word[SCOPE_RECORD_WORDS] = {ticks, scope_id,
						     fields_word(SCOPE_KIND_CONTINUATION, (uint32_t)here,
								 length > here ? SCOPE_RECORD_CONTINUED : 0)};

		if (!claimed) {
			claimed = length <= 4 * 32 ? (length + 31) / 32 : 4;
			claim = claim_slots(claimed);
		}
		load_name(word + 3, name, here);
		publish(claim++, word);
		name += here;
		length -= here;
	}
}

/* A record of its own scope id, which is returned. */
ALWAYS_INLINE uint64_t write_named(uint32_t kind, uint64_t ticks, const char *name, size_t length)
{
	uint64_t claim = claim_event();
	size_t here = length <= 32 ? length : 32;
	uint64_t word[SCOPE_RECORD_WORDS] = {
		ticks, claim, fields_word(kind, (uint32_t)here, length > here ? SCOPE_RECORD_CONTINUED : 0)};

	load_name(word + 3, name, here);
	publish(claim, word);
	if (UNLIKELY(length > here))
		continue_name(claim, ticks, name + here,
			      (length < SCOPE_NAME_MAX ? length : SCOPE_NAME_MAX) - here);
	return claim;
}

/* The same with a value in the last word, which leaves 24 bytes of name. */
ALWAYS_INLINE void write_valued(uint32_t kind, uint32_t flags, uint64_t ticks, uint64_t value,
				const char *name, size_t length)
{
	uint64_t claim = claim_event();
	size_t here = length <= SCOPE_VALUE_OFFSET ? length : SCOPE_VALUE_OFFSET;
	uint64_t word[SCOPE_RECORD_WORDS] = {
		ticks, claim,
		fields_word(kind, (uint32_t)here, flags | (length > here ? SCOPE_RECORD_CONTINUED : 0))};

	load_name(word + 3, name, here);
	word[6] = value;
	publish(claim, word);
	if (UNLIKELY(length > here))
		continue_name(claim, ticks, name + here,
			      (length < SCOPE_NAME_MAX ? length : SCOPE_NAME_MAX) - here);
}

/* ---- the segment of this process ---- */

static void use_segment(const struct scope_attachment *attachment)
{
	last_generation = attachment->header->generation;
	descriptor = attachment->descriptor;
	__atomic_store_n(&scope_gate.offset,
			 gate_offset(&scope_control_of(attachment->header)->capture_until), __ATOMIC_RELEASE);
}

/* The segment, made if there is none yet. NULL before the constructor, and if it could not be made. */
static struct scope_header *find_segment(void)
{
	/* Acquire: pairs with the exchange below; another thread may have made it. */
	uintptr_t segment = __atomic_load_n(&scope_gate.segment, __ATOMIC_ACQUIRE);
	struct scope_attachment made;

	if (segment)
		return (struct scope_header *)segment;
	if (!__atomic_load_n(&scope_gate.armed, __ATOMIC_RELAXED) ||
	    __atomic_load_n(&scope_gate.offset, __ATOMIC_RELAXED))
		return NULL;
	if (!scope_attach_adopt(&made) && scope_attach_create(&made, &config, last_generation + 1) != 0) {
		/* Unmeasured from now on, and no second try: the program goes on as if nobody recorded. */
		__atomic_store_n(&scope_gate.offset, gate_offset(&never_enabled), __ATOMIC_RELAXED);
		return NULL;
	}
	if (__atomic_compare_exchange_n(&scope_gate.segment, &segment, (uintptr_t)made.header, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
		use_segment(&made);
		return made.header;
	}
	if (made.descriptor >= 0)
		scope_attach_discard(&made);
	return (struct scope_header *)segment;
}

/* Another reader records than at this thread's last record: it has not heard the thread's name. */
static COLD void meet_reader(uint32_t reader_epoch, uint64_t ticks)
{
	self.reader_epoch = reader_epoch;
	/* Beginning a thread tells its name anyway. */
	if (self.kept_length && self.segment == __atomic_load_n(&scope_gate.segment, __ATOMIC_RELAXED))
		write_named(SCOPE_KIND_THREAD_NAME, ticks, self.kept_name, self.kept_length);
}

/* True while somebody records. Turns capture off that was not renewed in time: the recorder has died. */
ALWAYS_INLINE bool capturing(const uint64_t *capture_until, uint64_t ticks)
{
	uint64_t until = __atomic_load_n(capture_until, __ATOMIC_RELAXED);

	if (__builtin_expect(ticks <= until, 1)) {
		if (UNLIKELY((until & SCOPE_EPOCH_MASK) != self.reader_epoch))
			meet_reader(until & SCOPE_EPOCH_MASK, ticks);
		return true;
	}
	/* An exchange, so that a renewal of this moment stands. */
	if (until)
		__atomic_compare_exchange_n((uint64_t *)capture_until, &until, 0, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	return false;
}

/* ---- the beginning of a thread ---- */

static void prepare_thread(struct scope_header *header)
{
	self.tid = scope_platform_tid();
	self.clock = header->clock;
	self.ring = scope_ring_at(header, scope_ring_of(self.tid, header->ring_count));
	self.slot_mask = header->slots_per_ring - 1;
	self.generation = (uint64_t)header->generation << GENERATION_SHIFT;
	self.capture_until = &scope_control_of(header)->capture_until;
}

/*
 * A thread's first record. The claim comes before the thread counts as begun, so that claim 0 of a ring is
 * always a thread start, and no token is 0. A signal handler that records meanwhile begins the thread itself;
 * its scopes are over when ours begin.
 */
static void write_thread_start(uintptr_t segment)
{
	uint64_t ticks = clock_ticks(self.clock);
	uint64_t claim = claim_slot();
	uint64_t word[SCOPE_RECORD_WORDS] = {ticks, claim, fields_word(SCOPE_KIND_THREAD_START, 0, 0)};

	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	self.segment = segment;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	publish(claim, word);
}

static bool begin_captured(struct scope_header *header)
{
	uintptr_t segment = (uintptr_t)header;

	prepare_thread(header);
	if (!capturing(self.capture_until, clock_ticks(self.clock)))
		return false;
	scope_platform_populate(self.ring, header->ring_size);
	if (self.segment == segment)
		return true;
	if (scope_threads_enter(header, self.tid, &self))
		self.segment = segment;
	else
		write_thread_start(segment);
	if (self.kept_length)
		write_named(SCOPE_KIND_THREAD_NAME, clock_ticks(self.clock), self.kept_name,
			    self.kept_length);
	return true;
}

/* Begins the thread if somebody records; else false. */
static COLD bool begin_thread(void)
{
	int saved = errno;
	struct scope_header *header;
	bool begun;

	/* Called without the test that the macros make. */
	if (!scope_enabled())
		return false;
	header = find_segment();
	begun = header && begin_captured(header);
	errno = saved;
	return begun;
}

/* One compare for: a thread's first record, a forked child's first, a segment replaced by scope_init. */
ALWAYS_INLINE bool ready(void)
{
	return __builtin_expect(self.segment == __atomic_load_n(&scope_gate.segment, __ATOMIC_RELAXED), 1) ||
	       begin_thread();
}

/* ---- what programs call ---- */

HOT scope_token scope_start(const char *name, size_t length)
{
	uint64_t ticks;

	if (UNLIKELY(!ready()))
		return 0;
	ticks = clock_ticks(self.clock);
	if (UNLIKELY(!capturing(self.capture_until, ticks)))
		return 0;
	return write_named(SCOPE_KIND_START, ticks, name, length) | self.generation;
}

HOT void scope_stop(scope_token token)
{
	uint64_t ticks = clock_ticks(self.clock);
	uint64_t scope_id = token ^ self.generation;

	/* A scope of another process: its parent's, or its own from before this segment. */
	if (UNLIKELY(!token || scope_id >> GENERATION_SHIFT ||
		     self.segment != __atomic_load_n(&scope_gate.segment, __ATOMIC_RELAXED)))
		return;
	publish(claim_event(),
		(const uint64_t[SCOPE_RECORD_WORDS]){ticks, scope_id, fields_word(SCOPE_KIND_STOP, 0, 0)});
}

HOT void scope_hot_start(struct scope_hot *hot, const char *name, size_t length)
{
	uint64_t ticks;

	hot->ticks = 0;
	if (UNLIKELY(!ready()))
		return;
	ticks = clock_ticks(self.clock);
	if (UNLIKELY(!capturing(self.capture_until, ticks)))
		return;
	hot->ticks = ticks;
	hot->segment = self.segment;
	hot->name = name;
	hot->length = length;
	hot->events = self.events;
}

HOT void scope_hot_stop(const struct scope_hot *hot)
{
	uint64_t ticks = clock_ticks(self.clock);
	uint32_t inside = self.events - hot->events;

	if (UNLIKELY(!hot->ticks || hot->segment != self.segment ||
		     self.segment != __atomic_load_n(&scope_gate.segment, __ATOMIC_RELAXED)))
		return;
	if (UNLIKELY(inside > SCOPE_RECORD_INSIDE_MAX))
		inside = SCOPE_RECORD_INSIDE_MAX;
	write_valued(SCOPE_KIND_COMPLETE, inside << SCOPE_RECORD_INSIDE_SHIFT, hot->ticks, ticks, hot->name,
		     hot->length);
}

/* True while somebody records, and then `*ticks` is now. */
ALWAYS_INLINE bool recording(uint64_t *ticks)
{
	if (UNLIKELY(!ready()))
		return false;
	*ticks = clock_ticks(self.clock);
	return capturing(self.capture_until, *ticks);
}

static HOT void write_mark(uint32_t kind, const char *name, size_t length)
{
	uint64_t ticks;

	if (recording(&ticks))
		write_named(kind, ticks, name, length);
}

static HOT void write_value(uint32_t kind, const char *name, size_t length, uint64_t value)
{
	uint64_t ticks;

	if (recording(&ticks))
		write_valued(kind, 0, ticks, value, name, length);
}

HOT void scope_instant(const char *name, size_t length)
{
	write_mark(SCOPE_KIND_INSTANT, name, length);
}

HOT void scope_frame(const char *name, size_t length)
{
	write_mark(SCOPE_KIND_FRAME, name, length);
}

HOT void scope_counter(const char *name, size_t length, int64_t value)
{
	write_value(SCOPE_KIND_COUNTER_INT, name, length, (uint64_t)value);
}

HOT void scope_counter_double(const char *name, size_t length, double value)
{
	uint64_t bits;

	static_assert(sizeof(bits) == sizeof(value), "the value of a record");
	memcpy(&bits, &value, sizeof(bits));
	write_value(SCOPE_KIND_COUNTER_DOUBLE, name, length, bits);
}

HOT void scope_async_start(const char *name, size_t length, uint64_t id)
{
	write_value(SCOPE_KIND_ASYNC_START, name, length, id);
}

HOT void scope_async_stop(const char *name, size_t length, uint64_t id)
{
	write_value(SCOPE_KIND_ASYNC_STOP, name, length, id);
}

HOT void scope_argument(const char *key, size_t length, int64_t value)
{
	write_value(SCOPE_KIND_ARGUMENT, key, length, (uint64_t)value);
}

HOT void scope_flow(uint64_t id)
{
	write_value(SCOPE_KIND_FLOW, "", 0, id);
}

int scope_is_enabled(void)
{
	return scope_enabled();
}

void scope_thread_name(const char *name, size_t length)
{
	uint32_t kept = (uint32_t)(length < KEPT_NAME_MAX ? length : KEPT_NAME_MAX);

	/* First the record: beginning the thread writes the name that was kept before. */
	if (scope_enabled() && ready()) {
		uint64_t ticks = clock_ticks(self.clock);

		if (capturing(self.capture_until, ticks))
			write_named(SCOPE_KIND_THREAD_NAME, ticks, name, length);
	}
	memcpy(self.kept_name, name, kept);
	self.kept_length = kept;
}

/* ---- setting up ---- */

/* Nobody has written to it, nobody reads it, no other copy of the library knows it. */
static bool unused(struct scope_header *header)
{
	for (uint32_t i = 0; i < header->ring_count; i++)
		if (__atomic_load_n(&scope_ring_at(header, i)->write_cursor, __ATOMIC_RELAXED))
			return false;
	return header->copies == 1 && descriptor >= 0 &&
	       !__atomic_load_n(&scope_control_of(header)->capture_until, __ATOMIC_RELAXED);
}

int scope_init(const struct scope_options *options)
{
	int saved = errno, err;
	struct scope_header *old = find_segment();
	struct scope_attachment made, replaced = {.header = old, .descriptor = descriptor};
	struct scope_config wanted;

	err = options ? scope_config_read(&wanted, options) : -EINVAL;
	if (!err && (!scope_gate.armed || (old && !unused(old))))
		err = -EBUSY;
	if (!err)
		err = scope_attach_create(&made, &wanted, last_generation + 1);
	if (!err) {
		config = wanted;
		__atomic_store_n(&scope_gate.segment, (uintptr_t)made.header, __ATOMIC_RELEASE);
		use_segment(&made);
		if (old)
			scope_attach_discard(&replaced);
	}
	errno = saved;
	return err;
}

/* Where the kernel cannot wipe the page (before Linux 4.14), at least fork() shall. */
static void wipe_gate(void)
{
	memset(&scope_gate, 0, offsetof(struct scope_gate, armed));
}

/* A recorder that launched this process wants all of it, however short it is. */
static void wait_if_launched(struct scope_header *header)
{
	if (header && config.capture_pid != SCOPE_CAPTURE_ANY && config.capture_pid == header->pid &&
	    header->copies == 1)
		scope_attach_wait_for_reader(header);
}

/* Early, so that scopes of other constructors are caught. Where copies share the gate, the first sets it up.
 */
__attribute__((constructor(101))) static void set_up(void)
{
	int saved = errno;

	if (!scope_gate.armed && scope_config_read(&config, NULL) == 0) {
		if (scope_platform_wipe_on_fork(&scope_gate, offsetof(struct scope_gate, armed)) != 0)
			scope_platform_at_fork(wipe_gate);
		__atomic_store_n(&scope_gate.armed, 1, __ATOMIC_RELEASE);
		wait_if_launched(find_segment());
	}
	errno = saved;
}
