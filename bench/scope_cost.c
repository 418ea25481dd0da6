// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What does a manual scope cost? `scope_cost [ROUNDS]` (default 7), also linked as scope_cost_shared with
 * libscope.so. All variants run in turn in each round, on 1, 2 and 8 threads, while another process drains
 * the rings every millisecond. `ns` is the median over the rounds of the mean CPU time of one turn; a ratio
 * or a difference is the median of those of each round. Prints a JSON line each.
 *
 *	empty		the loop alone, with a store that stands for work
 *	disabled	SCOPE("...") with nobody recording
 *	clock		two counter reads
 *	floor		the same and two stores of 64 bytes, walking through a buffer like a ring
 *	claim		the floor, where each line is claimed by a fetch_add
 *	stamp		the same, with the check over the line in its last word: all inline
 *	no clock	the same without the counter reads, behind which it hides
 *	enabled		SCOPE("..."), recorded: the stamp and the call into libscope
 *	hot		SCOPE_HOT("..."), recorded
 *	name N		SCOPE with a name of N bytes, recorded
 *	system clock	two clock_gettime: the floor of the fallback
 *
 * The fallback is measured last, in a process of its own with SCOPE_CLOCK=monotonic.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "scope.h"
#include "scope_harness.h"

#define NAME_16 "sixteen letters."
#define NAME_32 "thirty-two letters are this name"
#define NAME_100 \
	"a name of one hundred letters, which does not fit into one record and goes on in three more of these"

_Static_assert(sizeof(NAME_16) == 17 && sizeof(NAME_32) == 33 && sizeof(NAME_100) == 100 + 1, "as they say");

static void run_empty(struct work *work)
{
	for (unsigned i = 0; i < TURNS; i++)
		TURN_WORK(work);
}

static inline struct scope_slot *line_of(struct work *work, uint64_t at)
{
	return (struct scope_slot *)(work->ring + 1) + at % LINES;
}

static inline void store_line(struct work *work, uint64_t at, uint64_t ticks)
{
	struct scope_slot *line = line_of(work, at);

	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		__atomic_store_n(&line->word[i], ticks + i, __ATOMIC_RELAXED);
	__atomic_store_n(&line->stamp, at, __ATOMIC_RELEASE);
}

static void run_clock(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		__atomic_store_n(&work->ring->reserved0[0], (uint8_t)clock_raw(), __ATOMIC_RELAXED);
		TURN_WORK(work);
		__atomic_store_n(&work->ring->reserved0[0], (uint8_t)clock_raw(), __ATOMIC_RELAXED);
	}
}

static void run_floor(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		store_line(work, 2 * i, clock_raw());
		TURN_WORK(work);
		store_line(work, 2 * i + 1, clock_raw());
	}
}

static inline uint64_t claim_line(struct work *work)
{
	return __atomic_fetch_add(&work->ring->write_cursor, 1, __ATOMIC_RELAXED);
}

static void run_claim(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		uint64_t ticks = clock_raw();

		store_line(work, claim_line(work), ticks);
		TURN_WORK(work);
		ticks = clock_raw();
		store_line(work, claim_line(work), ticks);
	}
}

static inline void publish_line(struct work *work, uint64_t ticks, uint64_t name)
{
	uint64_t claim = claim_line(work);
	uint64_t word[SCOPE_RECORD_WORDS] = {ticks, claim, 7, name, name, name, 0};
	struct scope_slot *line = line_of(work, claim);

	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		__atomic_store_n(&line->word[i], word[i], __ATOMIC_RELAXED);
	__atomic_store_n(&line->stamp, scope_check(claim, word), __ATOMIC_RELEASE);
}

static void run_stamp(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		publish_line(work, clock_raw(), 0x656d616e);
		TURN_WORK(work);
		publish_line(work, clock_raw(), 0);
	}
}

static void run_no_clock(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		publish_line(work, 2 * i, 0x656d616e);
		TURN_WORK(work);
		publish_line(work, 2 * i + 1, 0);
	}
}

static void run_system_clock(struct work *work)
{
	for (uint64_t i = 0; i < TURNS; i++) {
		store_line(work, 2 * i, clock_monotonic_ns());
		TURN_WORK(work);
		store_line(work, 2 * i + 1, clock_monotonic_ns());
	}
}

#define RUN_SCOPE(function, macro)                     \
	static void function(struct work *work)        \
	{                                              \
		for (unsigned i = 0; i < TURNS; i++) { \
			macro;                         \
			TURN_WORK(work);               \
		}                                      \
	}

RUN_SCOPE(run_scope, SCOPE("a scope of the benchmark"))
RUN_SCOPE(run_hot, SCOPE_HOT("a hot scope of bench"))
RUN_SCOPE(run_name_0, SCOPE(""))
RUN_SCOPE(run_name_16, SCOPE(NAME_16))
RUN_SCOPE(run_name_32, SCOPE(NAME_32))
RUN_SCOPE(run_name_100, SCOPE(NAME_100))

enum variant_id {
	EMPTY,
	DISABLED,
	CLOCK,
	FLOOR,
	CLAIM,
	STAMP,
	NO_CLOCK,
	ENABLED,
	HOT,
	NAME_LENGTH_0,
	NAME_LENGTH_16,
	NAME_LENGTH_32,
	NAME_LENGTH_100,
	SYSTEM_CLOCK,
	VARIANTS
};

struct variant {
	const char *name;
	void (*turns)(struct work *work);
	bool recorded;
};

static const struct variant variants[VARIANTS] = {
	[EMPTY] = {"empty", run_empty, false},
	[DISABLED] = {"disabled", run_scope, false},
	[CLOCK] = {"clock", run_clock, true},
	[FLOOR] = {"floor", run_floor, true},
	[CLAIM] = {"claim", run_claim, true},
	[STAMP] = {"stamp", run_stamp, true},
	[NO_CLOCK] = {"no clock", run_no_clock, true},
	[ENABLED] = {"enabled", run_scope, true},
	[HOT] = {"hot", run_hot, true},
	[NAME_LENGTH_0] = {"name 0", run_name_0, true},
	[NAME_LENGTH_16] = {"name 16", run_name_16, true},
	[NAME_LENGTH_32] = {"name 32", run_name_32, true},
	[NAME_LENGTH_100] = {"name 100", run_name_100, true},
	[SYSTEM_CLOCK] = {"system clock", run_system_clock, true},
};

/* Two variants set against each other; no bar: 0. */
struct comparison {
	const char *name;
	enum variant_id of, to;
	bool difference;
	double bar;
};

#ifdef SCOPE_COST_SHARED
#define LINKED "libscope.so"
#define BAR    1.15
#else
#define LINKED "libscope.a"
#define BAR    1.10
#endif

static const struct comparison comparisons[] = {
	{"enabled / floor", ENABLED, FLOOR, false, BAR},
	{"hot / floor", HOT, FLOOR, false, 0},
	{"disabled - empty", DISABLED, EMPTY, true, 0.5},
	{"share of the clock", CLOCK, EMPTY, true, 0},
	{"share of the payload", FLOOR, CLOCK, true, 0},
	{"share of the claim", CLAIM, FLOOR, true, 0},
	{"share of the stamp", STAMP, CLAIM, true, 0},
	{"share of the call", ENABLED, STAMP, true, 0},
	{"name 16 / name 0", NAME_LENGTH_16, NAME_LENGTH_0, false, 0},
	{"name 32 / name 0", NAME_LENGTH_32, NAME_LENGTH_0, false, 0},
	{"name 100 / name 0", NAME_LENGTH_100, NAME_LENGTH_0, false, 0},
};

static const struct comparison fallback_comparisons[] = {
	{"fallback: enabled / system clock", ENABLED, SYSTEM_CLOCK, false, 1.25},
	{"fallback: hot / system clock", HOT, SYSTEM_CLOCK, false, 0},
};

struct figures {
	unsigned threads;
	unsigned rounds;
	double ns[VARIANTS][ROUNDS_MAX];
};

static void print_figure(const struct figures *figures, const struct variant *variant, const double *rounds)
{
	double sorted[ROUNDS_MAX], middle;

	memcpy(sorted, rounds, sizeof(sorted));
	middle = median(sorted, figures->rounds);
	printf("{\"bench\":\"scope_cost\",\"linked\":\"" LINKED
	       "\",\"threads\":%u,\"figure\":\"%s\",\"ns\":%.2f,"
	       "\"min\":%.2f,\"max\":%.2f}\n",
	       figures->threads, variant->name, middle, sorted[0], sorted[figures->rounds - 1]);
}

static void print_comparison(const struct figures *figures, const struct comparison *comparison)
{
	double values[ROUNDS_MAX], value;

	for (unsigned i = 0; i < figures->rounds; i++) {
		double of = figures->ns[comparison->of][i], to = figures->ns[comparison->to][i];

		values[i] = comparison->difference ? of - to : of / to;
	}
	value = median(values, figures->rounds);
	printf("{\"bench\":\"scope_cost\",\"linked\":\"" LINKED
	       "\",\"threads\":%u,\"figure\":\"%s\",\"%s\":%.3f",
	       figures->threads, comparison->name, comparison->difference ? "ns" : "ratio", value);
	if (comparison->bar > 0)
		printf(",\"bar\":%.2f,\"met\":%s", comparison->bar,
		       value <= comparison->bar ? "true" : "false");
	printf("}\n");
}

static void measure(struct figures *figures, const struct recorder *recorder, uint32_t chosen)
{
	for (unsigned round = 0; round < figures->rounds; round++) {
		for (unsigned i = 0; i < VARIANTS; i++) {
			if (!(chosen & 1u << i))
				continue;
			recorder_record(recorder, variants[i].recorded);
			figures->ns[i][round] = run_turns(variants[i].turns, figures->threads);
		}
	}
}

static void measure_raw(struct figures *figures, const struct recorder *recorder)
{
	measure(figures, recorder, (1u << VARIANTS) - 1);
	for (unsigned i = 0; i < VARIANTS; i++)
		print_figure(figures, &variants[i], figures->ns[i]);
	for (unsigned i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
		print_comparison(figures, &comparisons[i]);
	fflush(stdout);
}

static void measure_fallback(struct figures *figures, const struct recorder *recorder)
{
	measure(figures, recorder, 1u << ENABLED | 1u << HOT | 1u << SYSTEM_CLOCK);
	for (unsigned i = 0; i < sizeof(fallback_comparisons) / sizeof(fallback_comparisons[0]); i++)
		print_comparison(figures, &fallback_comparisons[i]);
	fflush(stdout);
}

static int run_again_with_system_clock(char **argv, unsigned rounds)
{
	char text[16];
	int status;
	pid_t pid;

	snprintf(text, sizeof(text), "%u", rounds);
	pid = fork();
	if (pid == 0) {
		setenv("SCOPE_CLOCK", "monotonic", 1);
		execl("/proc/self/exe", argv[0], text, (char *)NULL);
		_exit(127);
	}
	return waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	static const unsigned thread_counts[] = {1, 2, 8};
	static struct figures figures;
	const char *clock = getenv("SCOPE_CLOCK");
	bool fallback = clock && strcmp(clock, "monotonic") == 0;
	struct recorder recorder;

	figures.rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 7;
	if (argc > 2 || figures.rounds < 1 || figures.rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: scope_cost [ROUNDS]\n");
		return 2;
	}
	recorder = recorder_start();
	for (unsigned i = 0; i < sizeof(thread_counts) / sizeof(thread_counts[0]); i++) {
		figures.threads = thread_counts[i];
		if (fallback)
			measure_fallback(&figures, &recorder);
		else
			measure_raw(&figures, &recorder);
	}
	recorder_end(&recorder);
	return fallback ? 0 : run_again_with_system_clock(argv, figures.rounds);
}
