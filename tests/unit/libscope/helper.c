// SPDX-License-Identifier: GPL-2.0-or-later
#include "helper.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

static int log_record(void *context, uint32_t ring, const struct scope_record *record)
{
	struct log *log = context;

	if (log->count == log->room) {
		log->room = log->room ? log->room * 2 : 1024;
		log->records = realloc(log->records, log->room * sizeof(*log->records));
		cr_assert_not_null(log->records);
	}
	log->records[log->count].record = *record;
	log->total++;
	log->records[log->count].ring = ring;
	log->records[log->count++].claim = scope_reader_claim(log->reader);
	if (log->hook)
		log->hook(log, record);
	return log->answer;
}

static int log_gap(void *context, uint32_t ring, enum scope_gap_reason reason, uint64_t count)
{
	struct log *log = context;

	(void)ring;
	cr_assert(count > 0);
	log->gaps++;
	if (reason == SCOPE_GAP_LAPPED)
		log->lapped += count;
	else
		log->written_off += count;
	return log->answer;
}

void start_capture(struct log *log, uint32_t rings, uint32_t slots)
{
	struct scope_options options = {.size = sizeof(options), .rings = rings, .slots_per_ring = slots};

	memset(log, 0, sizeof(*log));
	cr_assert_eq(scope_init(&options), 0);
	log->reader = scope_reader_open(getpid());
	cr_assert_not_null(log->reader, "%s", strerror(errno));
	scope_reader_capture(log->reader, LONG_CAPTURE_NS);
}

struct scope_reader_events log_events(struct log *log)
{
	return (struct scope_reader_events){.context = log, .record = log_record, .gap = log_gap};
}

int64_t drain(struct log *log)
{
	struct scope_reader_events events = log_events(log);

	return scope_reader_drain(log->reader, &events, 0);
}

void drain_and_check(struct log *log)
{
	struct scope_reader_counts counts;

	cr_assert(drain(log) >= 0);
	counts = scope_reader_counts(log->reader);
	cr_assert_eq(counts.cursor,
		     counts.delivered + counts.lost + counts.written_off + counts.holes + counts.backlog);
	cr_assert_eq(counts.delivered, log->total);
	cr_assert_eq(counts.lost, log->lapped);
	cr_assert_eq(counts.written_off, log->written_off);
}

void finish(struct log *log)
{
	scope_reader_close(log->reader);
	free(log->records);
}

struct scope_header *own_header(void)
{
	return (struct scope_header *)scope_gate.segment;
}

struct scope_control *own_control(void)
{
	return (struct scope_control *)((char *)own_header() + own_header()->control_offset);
}

struct scope_ring *own_ring(uint32_t index)
{
	return (struct scope_ring *)((char *)own_header() + own_header()->rings_offset +
				     index * own_header()->ring_size);
}

struct scope_slot *own_slot(uint32_t ring, uint64_t claim)
{
	return (struct scope_slot *)(own_ring(ring) + 1) + claim % own_header()->slots_per_ring;
}

uint64_t forge_claim(uint32_t ring)
{
	return __atomic_fetch_add(&own_ring(ring)->write_cursor, 1, __ATOMIC_RELAXED);
}

struct scope_record forge_record(uint32_t tid, uint64_t claim, const char *name)
{
	struct scope_record record = {.ticks = clock_ticks(own_header()->clock),
				      .scope_id = claim,
				      .tid = tid,
				      .kind = SCOPE_KIND_INSTANT,
				      .name_length = (uint8_t)strlen(name)};

	memcpy(record.name, name, strlen(name));
	return record;
}

void forge_publish(uint32_t ring, uint64_t claim, const struct scope_record *record)
{
	struct scope_slot *slot = own_slot(ring, claim);
	uint64_t word[SCOPE_RECORD_WORDS];

	memcpy(word, record, sizeof(word));
	for (unsigned i = 0; i < SCOPE_RECORD_WORDS; i++)
		__atomic_store_n(&slot->word[i], word[i], __ATOMIC_RELAXED);
	__atomic_store_n(&slot->stamp, scope_check(claim, word), __ATOMIC_RELEASE);
}

bool name_is(const struct scope_record *record, const char *name)
{
	return record->name_length == strlen(name) && memcmp(record->name, name, strlen(name)) == 0;
}

static bool in_child;

struct child start_child_by(fork_function how, child_body body)
{
	int to[2], from[2];
	struct child child;

	cr_assert(pipe(to) == 0 && pipe(from) == 0);
	child.pid = how();
	cr_assert(child.pid >= 0, "%s", strerror(errno));
	if (child.pid == 0) {
		in_child = true;
		close(to[1]);
		close(from[0]);
		body(to[0], from[1]);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	child.to = to[1];
	child.from = from[0];
	return child;
}

struct child start_child(child_body body)
{
	return start_child_by(fork, body);
}

void step(int descriptor)
{
	char byte = 1;

	if (write(descriptor, &byte, 1) == 1)
		return;
	if (in_child)
		_exit(101);
	cr_assert_fail("the child has gone");
}

void wait_step(int descriptor)
{
	char byte;

	if (read(descriptor, &byte, 1) == 1)
		return;
	/* A broken pipe ends a child whose test has failed. It must not speak to Criterion, which would never
	 * answer. */
	if (in_child)
		_exit(102);
	cr_assert_fail("the child has gone");
}

int end_child(struct child *child, int signal)
{
	int status = -1;

	if (signal)
		kill(child->pid, signal);
	cr_assert_eq(waitpid(child->pid, &status, 0), child->pid);
	close(child->to);
	close(child->from);
	return status;
}

void become_role(const char *role, int from_parent, int to_parent)
{
	char from[16], to[16];

	snprintf(from, sizeof(from), "%d", from_parent);
	snprintf(to, sizeof(to), "%d", to_parent);
	setenv("LIBSCOPE_ROLE", role, 1);
	setenv("LIBSCOPE_ROLE_FROM", from, 1);
	setenv("LIBSCOPE_ROLE_TO", to, 1);
	execl("/proc/self/exe", "role", (char *)NULL);
	_exit(103);
}

static const char *role_wanted;

static void become_wanted(int from_parent, int to_parent)
{
	become_role(role_wanted, from_parent, to_parent);
}

struct child start_role(const char *role)
{
	role_wanted = role;
	return start_child(become_wanted);
}

bool wait_until(bool (*condition)(void *context), void *context)
{
	uint64_t deadline = clock_monotonic_ns() + 10000000000ull;

	do {
		if (condition(context))
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
	} while (clock_monotonic_ns() < deadline);
	return false;
}
