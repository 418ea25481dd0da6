// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every interleaving of the ring protocol, of the product's own code: producer.c and reader.c run as
 * coroutines that stop before each access to the ring. From each state that is met for the first time, each
 * thing that can happen next is tried: a step of a writer or of the reader, a delayed store becoming visible,
 * the death of the process or of the reader. A state is the memory and, of each coroutine, all that it ever
 * read: its own variables follow from that. States are told apart by 64 bits of hash.
 *
 * What must hold: a record is delivered as its writer wrote it, once, after all older ones of its thread;
 * nobody waits for anybody; at the end cursor = delivered + lost + written off + holes, what is still in the
 * ring whole has been delivered, and no more is lost than was overwritten.
 *
 * Prints a line per scenario. The first violation is printed with the steps that lead to it; exit status 1.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coroutine.h"
#include "hooks.h"
#include "sides.h"

#undef __atomic_load_n
#undef __atomic_store_n
#undef __atomic_fetch_add

enum {
	WRITERS = 3,
	READER = WRITERS,
	ACTORS = WRITERS + 1,
	SLOTS = 8,
	CLAIMS = 16,
	DEPTH = 400,
	FIRST_TID = 1000,
	PATIENCE = 300, /* steps of one coroutine */
};

/* What can happen next: a step of one of the actors, or one of these. */
enum event { FLUSH = ACTORS, KILL_PROCESS = FLUSH + WRITERS, KILL_READER, EVENTS };

struct scenario {
	const char *name;
	uint32_t slots;
	unsigned writers;
	unsigned each;	 /* records of each writer */
	unsigned drains; /* by the reader, while they write; the last ones come when they are done */
	uint64_t holes_max;
	bool every_word; /* stop before each word of a record; else before two of the seven */
	bool late_stamp; /* a stamp may become visible after what its writer does next, as on arm64 */
	bool process_dies;
	bool slow;
	unsigned reader_deaths;
};

struct delayed {
	uint64_t *address; /* NULL: none */
	uint64_t value;
};

/* All that a run changes. */
static struct {
	_Alignas(128) struct scope_ring ring;
	struct scope_slot slot[SLOTS];
	struct scope_ring_position saved;
	uint64_t capture_until;
	struct side_thread thread[WRITERS];
	struct delayed delayed[WRITERS];
	uint64_t history[ACTORS];
	unsigned steps[ACTORS];
	bool process_dead;
	unsigned reader_deaths;
	/* The truth: who took a claim, and with which of his records. */
	unsigned written[WRITERS];
	int owner[CLAIMS];
	unsigned number[CLAIMS];
	/* What the consumer of the reader has. */
	bool delivered[CLAIMS];
	unsigned delivered_count;
	int newest[WRITERS];
	unsigned repeated; /* at most one for each reader that died: then the consumer has it already */
	uint64_t lost;
	uint64_t written_off;
	char violation[160];
} m;

static const struct scenario *scenario;
static struct scope_reader *reader;
static struct coroutine actor[ACTORS];
static bool exploring; /* hooks stop coroutines */
static bool tracing;

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
	return hash ^ hash >> 31;
}

static void __attribute__((format(printf, 1, 2))) violate(const char *format, ...)
{
	va_list arguments;

	if (m.violation[0])
		return;
	va_start(arguments, format);
	vsnprintf(m.violation, sizeof(m.violation), format, arguments);
	va_end(arguments);
}

/* ---- hooks ---- */

static int current_actor(void)
{
	return coroutine_current() ? (int)(coroutine_current() - actor) : -1;
}

/* Where a step ends: the cursor, stamps, the words that stand for all of a record, the reader's position. */
static bool is_stop(uintptr_t at)
{
	uintptr_t slots = (uintptr_t)m.slot, saved = (uintptr_t)&m.saved;
	unsigned word;

	if (at == (uintptr_t)&m.ring.write_cursor || (at >= saved && at < saved + sizeof(m.saved)))
		return true;
	if (at < slots || at >= slots + sizeof(m.slot))
		return false;
	word = (unsigned)((at - slots) / sizeof(uint64_t) % 8);
	return scenario->every_word || word == 0 || word == 3 || word == 7;
}

static bool is_shared(uintptr_t at)
{
	return at >= (uintptr_t)&m && at < (uintptr_t)&m.capture_until;
}

static const char *actor_name(int index)
{
	static const char *const names[] = {"writer A", "writer B", "writer C", "reader"};

	return names[index];
}

static void print_address(int index, uintptr_t at)
{
	uintptr_t slots = (uintptr_t)m.slot;

	printf("    %s: ", actor_name(index));
	if (at == (uintptr_t)&m.ring.write_cursor)
		printf("the cursor, now %" PRIu64 "\n", m.ring.write_cursor);
	else if (at < slots || at >= slots + sizeof(m.slot))
		printf("its position\n");
	else if ((at - slots) / 8 % 8 == 7)
		printf("slot %zu, the stamp\n", (size_t)(at - slots) / 64);
	else
		printf("slot %zu, from word %zu\n", (size_t)(at - slots) / 64, (size_t)(at - slots) / 8 % 8);
}

void hook_point(const volatile void *address)
{
	int index = current_actor();

	if (!exploring || index < 0 || !is_stop((uintptr_t)address))
		return;
	if (++m.steps[index] > PATIENCE) {
		violate("%s does not come to an end", actor_name(index));
		m.steps[index] = 0;
	}
	coroutine_stop();
	if (tracing)
		print_address(index, (uintptr_t)address);
}

static void note_claim(int writer, uint64_t claim)
{
	if (claim >= CLAIMS) {
		violate("claim %" PRIu64 " from a cursor that ran away", claim);
		return;
	}
	m.owner[claim] = writer;
	m.number[claim] = m.written[writer]++;
}

void hook_loaded(const volatile void *address, uint64_t value)
{
	int index = current_actor();

	if (!exploring || index < 0 || !is_shared((uintptr_t)address))
		return;
	m.history[index] = mix(m.history[index], value);
	if (index < READER && address == &m.ring.write_cursor)
		note_claim(index, value);
}

static void flush(int writer)
{
	if (m.delayed[writer].address)
		*m.delayed[writer].address = m.delayed[writer].value;
	m.delayed[writer].address = NULL;
}

/* Of the stores of a record only the stamp has an order, after all before it: what follows may be seen first.
 */
bool hook_delays(volatile void *address, uint64_t value)
{
	int index = current_actor();
	bool stamp = ((uintptr_t)address - (uintptr_t)m.slot) / 8 % 8 == 7;

	if (!exploring || !scenario->late_stamp || index < 0 || index >= READER || !stamp)
		return false;
	flush(index); /* stamps keep their own order */
	m.delayed[index] = (struct delayed){(uint64_t *)address, value};
	return true;
}

/* ---- the actors ---- */

static uint64_t name_of(int writer, unsigned number)
{
	return 0x6162630000000000u + (uint64_t)writer * 256 + number;
}

static void write_records(void *argument)
{
	int index = (int)(intptr_t)argument;

	for (unsigned i = 0; i < scenario->each; i++) {
		uint64_t name[4];

		for (unsigned j = 0; j < 4; j++)
			name[j] = name_of(index, i);
		scope_instant((const char *)name, sizeof(name));
	}
}

static bool as_written(const struct scope_record *record, uint64_t claim)
{
	uint64_t name[4];

	memcpy(name, record->name, sizeof(name));
	for (unsigned j = 0; j < 4; j++)
		if (name[j] != name_of(m.owner[claim], m.number[claim]))
			return false;
	return record->scope_id == claim && record->tid == FIRST_TID + (uint32_t)m.owner[claim] &&
	       record->kind == SCOPE_KIND_INSTANT && record->name_length == 32 && record->ticks == 1;
}

static int take_record(void *context, uint32_t ring, const struct scope_record *record)
{
	uint64_t claim = scope_reader_claim(reader);
	int owner;

	(void)context, (void)ring;
	if (claim >= CLAIMS || m.owner[claim] < 0) {
		violate("claim %" PRIu64 " is delivered and nobody has it", claim);
		return 0;
	}
	owner = m.owner[claim];
	if (!as_written(record, claim))
		violate("a torn record is believed: claim %" PRIu64 ", thread %u, of %s", claim, record->tid,
			actor_name(owner));
	if (m.delivered[claim]) {
		if (++m.repeated > m.reader_deaths)
			violate("claim %" PRIu64 " is delivered twice", claim);
		return 0;
	}
	if (m.newest[owner] >= (int)m.number[claim])
		violate("record %u of %s comes after record %d", m.number[claim], actor_name(owner),
			m.newest[owner]);
	m.newest[owner] = (int)m.number[claim];
	m.delivered[claim] = true;
	m.delivered_count++;
	if (tracing)
		printf("    delivered: claim %" PRIu64 "\n", claim);
	/* Here it may be killed, with the record written and its position not. */
	if (scenario->reader_deaths)
		hook_point(&m.saved);
	return 0;
}

static int take_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	(void)context, (void)ring;
	*(reason == SCOPE_GAP_LAPPED ? &m.lost : &m.written_off) += count;
	return 0;
}

static const struct scope_reader_events events = {.record = take_record, .gap = take_gap};

static void open_reader(void)
{
	struct side_segment segment = {&m.ring, &m.saved, scenario->slots};

	reader = side_reader_open(&segment);
	if (!reader)
		violate("the position that a reader left is refused by the next one");
}

/* All of what a reader is, between two drains, follows from this. */
static uint64_t hash_reader(void)
{
	const struct scope_position *at = side_reader_position(reader);
	uint64_t hash = mix(mix(mix(at->next, at->lost), at->written_off), at->hole_count);

	for (uint64_t i = 0; i < at->hole_count; i++)
		hash = mix(hash, at->hole[i]);
	for (unsigned i = 0; i < CLAIMS; i++)
		hash = mix(hash, m.delivered[i]);
	for (unsigned i = 0; i < WRITERS; i++)
		hash = mix(hash, (uint64_t)m.newest[i]);
	return mix(mix(mix(hash, m.repeated), m.lost), m.written_off);
}

static void read_records(void *argument)
{
	(void)argument;
	open_reader();
	for (unsigned i = 0; reader && i < scenario->drains; i++) {
		m.history[READER] = mix(hash_reader(), i);
		scope_reader_drain(reader, &events, 0);
	}
}

/* ---- one run ---- */

static void reset(void)
{
	memset(&m, 0, sizeof(m));
	m.capture_until = UINT64_MAX;
	for (unsigned i = 0; i < CLAIMS; i++)
		m.owner[i] = -1;
	for (unsigned i = 0; i < WRITERS; i++) {
		m.newest[i] = -1;
		side_thread_begin(FIRST_TID + i, &m.ring, scenario->slots, &m.capture_until);
		side_thread_leave(&m.thread[i]);
		coroutine_prepare(&actor[i], write_records, (void *)(intptr_t)i);
		actor[i].done = i >= scenario->writers;
	}
	side_holes_max = scenario->holes_max;
	coroutine_prepare(&actor[READER], read_records, NULL);
	actor[READER].done = scenario->drains == 0;
	if (actor[READER].done)
		open_reader();
}

static bool writers_done(void)
{
	for (unsigned i = 0; i < WRITERS; i++)
		if (!actor[i].done || m.delayed[i].address)
			return false;
	return true;
}

static bool possible(unsigned event)
{
	if (event < ACTORS)
		return !actor[event].done;
	if (event < KILL_PROCESS)
		return m.delayed[event - FLUSH].address != NULL;
	if (event == KILL_PROCESS)
		return scenario->process_dies && !m.process_dead && !writers_done();
	return m.reader_deaths < scenario->reader_deaths && actor[READER].started && !actor[READER].done;
}

static void kill_process(void)
{
	m.process_dead = true;
	for (unsigned i = 0; i < WRITERS; i++) {
		actor[i].done = true;
		flush((int)i); /* what the processor has taken does not die */
	}
	if (tracing)
		printf("    the process dies\n");
}

static void kill_reader(void)
{
	m.reader_deaths++;
	m.history[READER] = mix(m.history[READER], m.reader_deaths);
	coroutine_prepare(&actor[READER], read_records, NULL);
	if (tracing)
		printf("    the reader dies, and another begins\n");
}

static void happen(unsigned event)
{
	if (event < READER) {
		side_thread_enter(&m.thread[event]);
		coroutine_resume(&actor[event]);
		side_thread_leave(&m.thread[event]);
	} else if (event == READER) {
		coroutine_resume(&actor[event]);
	} else if (event < KILL_PROCESS) {
		flush((int)event - FLUSH);
		if (tracing)
			printf("    %s: its stamp is seen\n", actor_name((int)event - FLUSH));
	} else if (event == KILL_PROCESS) {
		kill_process();
	} else {
		kill_reader();
	}
}

static uint64_t hash_state(void)
{
	uint64_t hash = mix(0, m.ring.write_cursor);

	for (unsigned i = 0; i < scenario->slots; i++) {
		for (unsigned j = 0; j < SCOPE_RECORD_WORDS; j++)
			hash = mix(hash, m.slot[i].word[j]);
		hash = mix(hash, m.slot[i].stamp);
	}
	for (unsigned i = 0; i < ACTORS; i++)
		hash = mix(mix(hash, m.history[i]),
			   (uint64_t)m.steps[i] * 4 + actor[i].done * 2 + actor[i].started);
	for (unsigned i = 0; i < WRITERS; i++)
		hash = mix(mix(hash, (uintptr_t)m.delayed[i].address), m.delayed[i].value);
	return mix(mix(hash, m.process_dead), m.reader_deaths);
}

/* ---- the end of a run ---- */

/* Whether the slot of `claim` still holds what its owner wrote, published. */
static bool whole(uint64_t claim)
{
	const struct scope_slot *slot = &m.slot[claim % scenario->slots];
	uint64_t word[SCOPE_RECORD_WORDS];
	struct scope_record record;

	memcpy(word, slot->word, sizeof(word));
	memcpy(&record, word, sizeof(record));
#ifdef PLAIN_STAMP
	return as_written(&record, claim) && slot->stamp == claim + 1;
#else
	return as_written(&record, claim) && slot->stamp == scope_check(claim, word);
#endif
}

static void check_counts(void)
{
	struct scope_reader_counts counts = scope_reader_counts(reader);
	uint64_t made = m.ring.write_cursor, room = scenario->slots, undelivered = 0;

	if (counts.backlog || counts.cursor != m.ring.write_cursor)
		violate("the reader stopped short of the cursor, by %" PRIu64, counts.backlog);
	if (m.delivered_count + m.lost + m.written_off + counts.holes != made)
		violate("%u delivered + %" PRIu64 " lost + %" PRIu64 " written off + %" PRIu64
			" holes are not %" PRIu64 " claims",
			m.delivered_count, m.lost, m.written_off, counts.holes, made);
	if (m.lost > (made > room ? made - room : 0))
		violate("%" PRIu64 " are lost, more than were overwritten", m.lost);
	for (uint64_t i = made > room ? made - room : 0; i < made; i++)
		undelivered += m.owner[i] >= 0 && !m.delivered[i] && whole(i);
	if (undelivered > (scenario->holes_max < SCOPE_HOLES_MAX ? m.written_off : 0))
		violate("%" PRIu64 " whole records are not delivered", undelivered);
	if (m.process_dead && counts.holes)
		violate("%" PRIu64 " holes are left of a dead process", counts.holes);
}

/* Everybody has stopped: the reader's last two drains, at rest. */
static void check_end(void)
{
	exploring = false;
	scope_reader_drain(reader, &events, 0);
	scope_reader_drain(reader, &events, 0);
	if (m.process_dead)
		scope_reader_write_off(reader, &events);
	check_counts();
	exploring = true;
}

/* ---- all runs ---- */

struct choice {
	uint16_t chosen;
	uint16_t open; /* the events not tried yet, as bits */
};

struct exploration {
	struct choice path[DEPTH];
	unsigned depth;
	uint64_t *seen; /* open addressing; 0 is free */
	uint64_t mask;
	uint64_t states;
	uint64_t ends;
};

/* True if it was not there. */
static bool remember(struct exploration *e, uint64_t hash)
{
	uint64_t at = (hash |= 1) >> 3 & e->mask;

	while (e->seen[at] && e->seen[at] != hash)
		at = (at + 1) & e->mask;
	if (e->seen[at])
		return false;
	e->seen[at] = hash;
	if (++e->states > e->mask / 4 * 3)
		violate("more states than the table holds");
	return true;
}

static void replay(const struct exploration *e)
{
	reset();
	exploring = true;
	for (unsigned i = 0; i < e->depth; i++)
		happen(e->path[i].chosen);
}

/* From the present state as far as it leads to new ones. */
static void go_on(struct exploration *e)
{
	while (!m.violation[0] && remember(e, hash_state())) {
		struct choice *choice = &e->path[e->depth];

		choice->open = 0;
		for (unsigned i = EVENTS; i-- > 0;)
			if (possible(i)) {
				choice->open |= (uint16_t)(1u << i);
				choice->chosen = (uint16_t)i;
			}
		if (!choice->open) {
			e->ends++;
			check_end();
			return;
		}
		choice->open &= (uint16_t) ~(1u << choice->chosen);
		if (++e->depth == DEPTH)
			violate("no end after %d steps", DEPTH);
		else
			happen(choice->chosen);
	}
}

/* To the latest choice that has something untried. False when there is none left. */
static bool turn_back(struct exploration *e)
{
	while (e->depth && !e->path[e->depth - 1].open)
		e->depth--;
	if (!e->depth)
		return false;
	e->path[e->depth - 1].chosen = (uint16_t)__builtin_ctz(e->path[e->depth - 1].open);
	e->path[e->depth - 1].open &= (uint16_t)(e->path[e->depth - 1].open - 1);
	return true;
}

static bool explore(const struct scenario *wanted)
{
	struct exploration e = {.mask = (1u << 23) - 1};

	scenario = wanted;
	e.seen = calloc(e.mask + 1, sizeof(*e.seen));
	if (!e.seen)
		exit(2);
	do {
		replay(&e);
		go_on(&e);
	} while (!m.violation[0] && turn_back(&e));
	free(e.seen);
	if (m.violation[0]) {
		printf("VIOLATED  %s: %s, after\n", scenario->name, m.violation);
		tracing = true;
		replay(&e);
		check_end();
		tracing = false;
		return false;
	}
	printf("holds     %s: %" PRIu64 " states, %" PRIu64 " ends\n", scenario->name, e.states, e.ends);
	fflush(stdout);
	return true;
}

/* clang-format off */
static const struct scenario scenarios[] = {
	{.name = "two writers of one slot, a lap apart, each word a step; read at rest",
	 .slots = 1, .writers = 2, .each = 1, .drains = 0, .holes_max = 64, .every_word = true},
	{.name = "two writers of one slot, a lap apart; read meanwhile",
	 .slots = 1, .writers = 2, .each = 1, .drains = 2, .holes_max = 64},
	{.name = "two writers, two records each, a slot",
	 .slots = 1, .writers = 2, .each = 2, .drains = 1, .holes_max = 64},
	{.name = "two writers, two records each, two slots",
	 .slots = 2, .writers = 2, .each = 2, .drains = 1, .holes_max = 64},
	{.name = "three writers of two slots",
	 .slots = 2, .writers = 3, .each = 1, .drains = 1, .holes_max = 64},
	{.name = "stamps seen late, a writer of two records",
	 .slots = 4, .writers = 1, .each = 2, .drains = 2, .holes_max = 64, .late_stamp = true},
	{.name = "stamps seen late, two writers of two records", .slow = true,
	 .slots = 4, .writers = 2, .each = 2, .drains = 2, .holes_max = 64, .late_stamp = true},
	{.name = "stamps seen late, two writers, two slots", .slow = true,
	 .slots = 2, .writers = 2, .each = 2, .drains = 1, .holes_max = 64, .late_stamp = true},
	{.name = "one hole at most",
	 .slots = 4, .writers = 3, .each = 1, .drains = 2, .holes_max = 1},
	{.name = "the process dies, two slots",
	 .slots = 2, .writers = 2, .each = 2, .drains = 1, .holes_max = 64, .process_dies = true},
	{.name = "two readers die and others follow",
	 .slots = 4, .writers = 2, .each = 1, .drains = 1, .holes_max = 64, .reader_deaths = 2},
	{.name = "two readers die, two records each", .slow = true,
	 .slots = 4, .writers = 2, .each = 2, .drains = 1, .holes_max = 64, .reader_deaths = 2},
};
/* clang-format on */

/* `model all`: the slow ones too. */
int main(int argc, char **argv)
{
	bool all = argc > 1 && strcmp(argv[1], "all") == 0, failed = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); i++)
		if (all || !scenarios[i].slow)
			failed |= !explore(&scenarios[i]);
	return failed;
}
