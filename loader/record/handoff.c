// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/handoff.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "record/pending.h"

/*
 * A position: words in the low 32 bits, two flags, tags in the 30 bits above. Both run on and on;
 * what is left of them by the size of the ring is the offset. The flags are of the write position
 * alone: the reader sets the one when it goes to sleep, the writer the other when there is
 * something that is no record yet.
 */
#define READER_SLEEPS (1ull << 32)
#define EXTRA	      (1ull << 33) /* discarded writes, or the end */
#define TAG_SHIFT     34

#define CACHE_LINE 64

struct handoff {
	/* The writer's. The reader changes only flags in it. */
	_Alignas(CACHE_LINE) _Atomic uint64_t written;
	struct pending pending;
	atomic_bool closed;

	/* The reader's. */
	_Alignas(CACHE_LINE) _Atomic uint64_t read;
	/* where the next read begins: `read` follows when that gives back the last */
	uint64_t next;
	uint64_t empty_at;   /* the write position at which there was nothing to read */
	uint64_t *discarded; /* the record of discarded writes that the reader makes itself */
	void *no_tag[1];

	/* const */
	_Alignas(CACHE_LINE) uint64_t *data;
	void **tags;
	uint32_t data_size;
	uint32_t tag_size;
	uint32_t header_words;
	int fd; /* eventfd: wakes the reader */
};

/* ---- positions ---- */

static uint32_t words_of(uint64_t position)
{
	return (uint32_t)position;
}

static uint32_t tags_of(uint64_t position)
{
	return (uint32_t)(position >> TAG_SHIFT);
}

/* Further on by so many; flags are cleared. */
static uint64_t advance(uint64_t position, uint32_t words, uint32_t tags)
{
	return (uint64_t)(tags_of(position) + tags) << TAG_SHIFT |
	       (uint32_t)(words_of(position) + words);
}

static uint32_t words_between(uint64_t from, uint64_t to)
{
	return words_of(to) - words_of(from);
}

static uint32_t tags_between(uint64_t from, uint64_t to)
{
	return (tags_of(to) - tags_of(from)) & (UINT32_MAX >> (TAG_SHIFT - 32));
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static _Noreturn void damaged(const char *what, uint64_t value)
{
	log_error(
		"the hand-off buffer is damaged: %s (%llu). This is a bug of scopetrace, or of its memory; "
		"the capture ends here, what is in its file can be read",
		what, (unsigned long long)value);
	abort();
}

/* ---- making it ---- */

static bool is_size(size_t size, size_t minimum)
{
	return size >= minimum && size < HANDOFF_SIZE_END && (size & (size - 1)) == 0;
}

struct handoff *handoff_create(size_t header_words, size_t data_words, size_t tags)
{
	struct handoff *handoff;
	int err = ENOMEM;

	if (header_words >= HANDOFF_SIZE_END || !is_size(tags, 1) ||
	    !is_size(data_words, HANDOFF_FIXED_WORDS + header_words + 1)) {
		errno = EINVAL;
		return NULL;
	}
	handoff = aligned_alloc(CACHE_LINE, sizeof(*handoff));
	if (!handoff)
		return NULL;
	memset(handoff, 0, sizeof(*handoff));
	handoff->data_size = (uint32_t)data_words;
	handoff->tag_size = (uint32_t)tags;
	handoff->header_words = (uint32_t)header_words;
	handoff->fd = -1;
	handoff->data = calloc(data_words, sizeof(*handoff->data));
	handoff->tags = calloc(tags, sizeof(*handoff->tags));
	handoff->discarded =
		calloc(HANDOFF_FIXED_WORDS + header_words + 1, sizeof(*handoff->discarded));
	if (handoff->data && handoff->tags && handoff->discarded) {
		handoff->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (handoff->fd >= 0)
			return handoff;
		err = errno;
	}
	handoff_destroy(handoff);
	errno = err;
	return NULL;
}

void handoff_destroy(struct handoff *handoff)
{
	if (!handoff)
		return;
	if (handoff->fd >= 0)
		close(handoff->fd);
	free(handoff->discarded);
	free(handoff->tags);
	free(handoff->data);
	free(handoff);
}

/* ---- the writer ---- */

/* What the interrupted code knows of errno stays so. */
static void wake(const struct handoff *handoff)
{
	const uint64_t one = 1;
	int saved = errno;

	/* Full (EAGAIN) it is readable all the same. */
	if (write(handoff->fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		damaged("its reader cannot be woken, errno", (uint64_t)errno);
	errno = saved;
}

/*
 * Replaces the write position by what it is `words` and `tags` further on, with `flags`; a reader
 * that sleeps is woken. Only flags change under us, and only a few times for each call.
 */
static void publish(struct handoff *handoff, uint32_t words, uint32_t tags, uint64_t flags)
{
	uint64_t old = atomic_load_explicit(&handoff->written, memory_order_relaxed);

	/*
	 * Release: pairs with the reader's acquire of the position, before it looks at what was
	 * published. Also when nothing changes, as EXTRA was set already: the reader that clears it
	 * then sees this one.
	 */
	while (!atomic_compare_exchange_weak_explicit(&handoff->written, &old,
						      advance(old, words, tags) | flags,
						      memory_order_release, memory_order_relaxed))
		;
	if (old & READER_SLEEPS)
		wake(handoff);
}

/* What must be skipped at this position so that so many words lie in a row. */
static uint32_t skipped(const struct handoff *handoff, uint64_t position, uint32_t words)
{
	uint32_t before_end = handoff->data_size - (words_of(position) & (handoff->data_size - 1));

	return words <= before_end ? 0 : before_end;
}

/*
 * Room at `at` for a record of `second` words, and before it for one of `first` if that is not 0.
 */
static bool has_room(const struct handoff *handoff, uint64_t at, uint32_t first, size_t second)
{
	/*
	 * Acquire: pairs with the release of give_back, after which the reader looks there no more.
	 */
	uint64_t read = atomic_load_explicit(&handoff->read, memory_order_acquire);
	uint32_t free_words = handoff->data_size - words_between(read, at);
	uint32_t free_tags = handoff->tag_size - tags_between(read, at);
	uint64_t needed = 0;

	if (second > handoff->data_size)
		return false;
	if (first)
		needed = skipped(handoff, at, first) + first;
	needed += skipped(handoff, advance(at, (uint32_t)needed, 0), (uint32_t)second) + second;
	return needed <= free_words && (first ? 2 : 1) <= free_tags;
}

/* Puts a record for which there is room; without a tag it is the one of discarded writes. */
static void put(struct handoff *handoff, const struct handoff_record *record)
{
	uint64_t at = atomic_load_explicit(&handoff->written, memory_order_relaxed);
	uint32_t words =
		HANDOFF_FIXED_WORDS + handoff->header_words + (uint32_t)record->payload_words;
	uint32_t skip = skipped(handoff, at, words);
	uint32_t offset = words_of(at) & (handoff->data_size - 1);
	void **tag = &handoff->tags[tags_of(at) & (handoff->tag_size - 1)];
	uint64_t *word;

	if (*tag)
		damaged("a tag that was not taken lies where the next one belongs, at",
			tags_of(at));
	*tag = record->tag;
	if (skip) {
		handoff->data[offset] = 0;
		offset = 0;
	}
	word = &handoff->data[offset];
	*word++ = words;
	*word++ = record->time_ns;
	for (size_t i = 0; i < handoff->header_words; i++)
		*word++ = i < record->header_words ? record->header[i] : 0;
	if (record->payload_words)
		memcpy(word, record->payload, record->payload_words * sizeof(*word));
	publish(handoff, skip + words, 1, 0);
}

/* The pending entry as a record, unless the reader takes it first. */
static void put_discarded(struct handoff *handoff)
{
	struct handoff_record record = {.payload_words = 1};
	uint64_t word, count;

	do {
		word = pending_load(&handoff->pending);
		count = pending_count(word);
		if (!count)
			return;
	} while (!pending_take(&handoff->pending, word, &record.time_ns));
	record.payload = &count;
	put(handoff, &record);
}

int handoff_write(struct handoff *handoff, const struct handoff_record *record)
{
	size_t fixed;
	uint64_t at;
	bool behind;

	if (!handoff)
		return 0;
	if (!record->tag || record->header_words > handoff->header_words)
		return -EINVAL;
	if (atomic_load_explicit(&handoff->closed, memory_order_relaxed))
		return -EPIPE;
	fixed = HANDOFF_FIXED_WORDS + handoff->header_words;
	at = atomic_load_explicit(&handoff->written, memory_order_relaxed);
	/* Behind discarded writes a record waits for room for both: the stream tells them first. */
	behind = pending_count(pending_load(&handoff->pending));
	if (record->payload_words > handoff->data_size ||
	    !has_room(handoff, at, behind ? (uint32_t)fixed + 1 : 0,
		      fixed + record->payload_words)) {
		pending_add(&handoff->pending, record->time_ns);
		publish(handoff, 0, 0, EXTRA);
		return -ENOBUFS;
	}
	if (behind)
		put_discarded(handoff);
	put(handoff, record);
	return 0;
}

int handoff_close(struct handoff *handoff)
{
	if (!handoff)
		return 0;
	if (atomic_load_explicit(&handoff->closed, memory_order_relaxed))
		return -EPIPE;
	/* Release: pairs with the acquire of look. */
	atomic_store_explicit(&handoff->closed, true, memory_order_release);
	publish(handoff, 0, 0, EXTRA);
	return 0;
}

/* ---- the reader ---- */

/*
 * Ends the read before: tags are cleared, for the writer to find them so, and all of it is the
 * writer's.
 */
static uint64_t give_back(struct handoff *handoff)
{
	uint64_t from = atomic_load_explicit(&handoff->read, memory_order_relaxed);
	uint32_t tags = tags_between(from, handoff->next);

	if (from == handoff->next)
		return from;
	for (uint32_t i = 0; i < tags; i++)
		handoff->tags[(tags_of(from) + i) & (handoff->tag_size - 1)] = NULL;
	/* Release: pairs with the acquire of has_room. */
	atomic_store_explicit(&handoff->read, handoff->next, memory_order_release);
	return handoff->next;
}

/* The whole records in a row of `limit` words at `data`, at most `tags` of them. */
static void count_records(const struct handoff *handoff, const uint64_t *data, uint32_t limit,
			  uint32_t tags, struct handoff_batch *batch)
{
	batch->data = data;
	batch->words = 0;
	batch->records = 0;
	while (batch->words < limit && data[batch->words] && batch->records < tags) {
		uint64_t length = data[batch->words];

		if (length < HANDOFF_FIXED_WORDS + handoff->header_words ||
		    length > limit - batch->words)
			damaged("a record of impossible length", length);
		batch->words += length;
		batch->records++;
	}
	if (!batch->records)
		damaged("words without a record, and tags", tags);
}

/* Everything between two positions that lies in a row. */
static void take_records(struct handoff *handoff, uint64_t from, uint64_t to,
			 struct handoff_batch *batch)
{
	uint32_t offset = words_of(from) & (handoff->data_size - 1), skip = 0;
	uint32_t tag = tags_of(from) & (handoff->tag_size - 1);
	uint32_t words = words_between(from, to), tags = tags_between(from, to);

	if (words > handoff->data_size || tags > handoff->tag_size)
		damaged("more is written than it can hold, words", words);
	if (!handoff->data[offset]) {
		skip = handoff->data_size - offset;
		if (skip >= words)
			damaged("nothing follows where it should go on at the beginning, words",
				words);
		offset = 0;
	}
	batch->tags = &handoff->tags[tag];
	count_records(handoff, &handoff->data[offset],
		      least(words - skip, handoff->data_size - offset),
		      least(tags, handoff->tag_size - tag), batch);
	handoff->next = advance(from, skip + (uint32_t)batch->words, (uint32_t)batch->records);
}

/* The pending entry, as `word` has it, as a record of our own; false if it has changed. */
static bool take_discarded(struct handoff *handoff, uint64_t word, struct handoff_batch *batch)
{
	size_t words = HANDOFF_FIXED_WORDS + handoff->header_words + 1;

	if (!pending_take(&handoff->pending, word, &handoff->discarded[1]))
		return false;
	handoff->discarded[0] = words;
	handoff->discarded[words - 1] = pending_count(word);
	*batch = (struct handoff_batch){handoff->discarded, words, handoff->no_tag, 1};
	return true;
}

/* What there is behind `from`; EMPTY: at the write position that is then in empty_at. */
static enum handoff_state look(struct handoff *handoff, uint64_t from, struct handoff_batch *batch)
{
	for (;;) {
		/*
		 * In this order: then what is seen of the first two came behind every record that
		 * the third does not show as written; and a record that comes later first turns the
		 * pending entry into one, so that it is no more ours to take. Acquire: pairs with
		 * the release of handoff_close, and of publish.
		 */
		bool closed = atomic_load_explicit(&handoff->closed, memory_order_acquire);
		uint64_t pending = pending_load(&handoff->pending);
		uint64_t written = atomic_load_explicit(&handoff->written, memory_order_acquire);

		if (words_between(from, written)) {
			take_records(handoff, from, written, batch);
			return HANDOFF_RECORDS;
		}
		if (pending_count(pending)) {
			if (take_discarded(handoff, pending, batch))
				return HANDOFF_RECORDS;
			continue;
		}
		if (closed)
			return HANDOFF_END;
		handoff->empty_at = written;
		if (!(written & EXTRA))
			return HANDOFF_EMPTY;
		/* Cleared, and only then looked for. Acquire: all that the writer had to tell when it last
		 * set it. */
		atomic_compare_exchange_strong_explicit(&handoff->written, &written,
							written & ~EXTRA, memory_order_acquire,
							memory_order_relaxed);
	}
}

enum handoff_state handoff_read(struct handoff *handoff, bool wait, struct handoff_batch *batch)
{
	enum handoff_state state;
	struct pollfd waited;
	uint64_t from;

	if (!handoff)
		return HANDOFF_END;
	waited = (struct pollfd){.fd = handoff->fd, .events = POLLIN};
	from = give_back(handoff);
	while ((state = look(handoff, from, batch)) == HANDOFF_EMPTY && wait) {
		if (handoff_sleep(handoff))
			poll(&waited, 1, -1);
	}
	return state;
}

bool handoff_sleep(struct handoff *handoff)
{
	uint64_t empty_at = handoff->empty_at, wakes;

	/*
	 * Those that woke us, or were for what we have read meanwhile. A later one is for the flag
	 * set below.
	 */
	if (read(handoff->fd, &wakes, sizeof(wakes)) < 0 && errno != EAGAIN && errno != EINTR)
		damaged("its eventfd cannot be read, errno", (uint64_t)errno);
	/*
	 * Fails if the writer has done anything since we looked. Relaxed: nothing is read on
	 * account of it.
	 */
	if (!atomic_compare_exchange_strong_explicit(&handoff->written, &empty_at,
						     empty_at | READER_SLEEPS, memory_order_relaxed,
						     memory_order_relaxed))
		return false;
	handoff->empty_at = empty_at | READER_SLEEPS;
	return true;
}

int handoff_fd(const struct handoff *handoff)
{
	return handoff->fd;
}
