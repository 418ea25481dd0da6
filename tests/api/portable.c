/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Records with every macro in four threads, then reads its own segment as the format says, slot by slot,
 * without the reader of libscope, which is for Linux. For all platforms: plain C11, and POSIX or Windows
 * threads. `--no-fork` leaves out the forked child, for emulators that accept MADV_WIPEONFORK and do nothing
 * (qemu-user).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#else
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "scope.h"
#include "segment.h"

enum { THREADS = 4, EACH = 500 };

static void work(void)
{
	SCOPE_THREAD_NAME("worker");
	for (int i = 0; i < EACH; i++) {
		scope_token token;

		SCOPE("a scope whose name does not fit into one record");
		SCOPE_HOT("hot");
		SCOPE_BEGIN(token, "begun");
		SCOPE_ARGUMENT("i", i);
		SCOPE_FLOW(7);
		SCOPE_INSTANT("now");
		SCOPE_FRAME("loop");
		SCOPE_COUNTER("integer", i);
		SCOPE_COUNTER("double", i * 0.5);
		SCOPE_ASYNC_BEGIN("request", i);
		SCOPE_ASYNC_END("request", i);
		SCOPE_END(token);
	}
}

#ifdef _WIN32
static DWORD WINAPI run(void *argument)
{
	(void)argument;
	work();
	return 0;
}

static void run_threads(void)
{
	HANDLE threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		threads[i] = CreateThread(NULL, 0, run, NULL, 0, NULL);
	WaitForMultipleObjects(THREADS, threads, TRUE, INFINITE);
}
#else
static void *run(void *argument)
{
	(void)argument;
	work();
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL) != 0)
			return;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}
#endif

static uint64_t kinds[SCOPE_KIND_LAST + 1], doubles, wrong;

/* 0 where the slot is not what the claim's writer wrote. */
static void take(const struct scope_slot *slot, uint64_t claim)
{
	struct scope_record record;
	uint64_t value;
	double real;

	if (slot->stamp != scope_check(claim, slot->word)) {
		wrong++;
		return;
	}
	memcpy(&record, slot->word, sizeof(record));
	memcpy(&value, record.name + SCOPE_VALUE_OFFSET, sizeof(value));
	memcpy(&real, &value, sizeof(real));
	kinds[record.kind <= SCOPE_KIND_LAST ? record.kind : 0]++;
	if (record.kind == SCOPE_KIND_COUNTER_DOUBLE)
		doubles += (uint64_t)(real * 2);
	wrong += record.kind == SCOPE_KIND_FLOW && value != 7;
	wrong += record.kind == SCOPE_KIND_ARGUMENT && (value >= EACH || memcmp(record.name, "i", 2) != 0);
}

static int check_all(const struct scope_header *header)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < header->ring_count; i++) {
		const char *at = (const char *)header + header->rings_offset + i * header->ring_size;
		const struct scope_ring *ring = (const struct scope_ring *)at;
		const struct scope_slot *slots = (const struct scope_slot *)(ring + 1);

		for (uint64_t claim = 0; claim < ring->write_cursor; claim++)
			take(&slots[claim & (header->slots_per_ring - 1)], claim);
		total += ring->write_cursor;
	}
	for (int kind = 0; kind <= SCOPE_KIND_LAST; kind++) {
		static const uint64_t each[SCOPE_KIND_LAST + 1] = {0, 2, 2, 1, 1, 1, 1, 1,
								   1, 1, 0, 0, 1, 1, 1};
		uint64_t expected = kind == SCOPE_KIND_THREAD_START || kind == SCOPE_KIND_THREAD_NAME
					    ? THREADS
					    : THREADS * EACH * each[kind];

		if (kinds[kind] != expected) {
			printf("kind %d: %d, not %d\n", kind, (int)kinds[kind], (int)expected);
			wrong++;
		}
	}
	printf("clock %u, pid %u, %d records, %d wrong\n", header->clock, header->pid, (int)total,
	       (int)wrong);
	return wrong || doubles != (uint64_t)THREADS * EACH * (EACH - 1) / 2;
}

#ifdef _WIN32
static int check_fork(const struct scope_header *header)
{
	(void)header;
	return 0;
}
#else
/* A forked child gets a segment of its own with its first scope. */
static int check_fork(const struct scope_header *header)
{
	uint32_t pid = header->pid;
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();

	if (child == 0) {
		const struct scope_header *own;

		SCOPE("of the child");
		own = (const struct scope_header *)scope_gate.segment;
		exit(!(own && own != header && own->pid == (uint32_t)getpid() && header->pid == pid));
	}
	return child < 0 || waitpid(child, &status, 0) != child || status != 0;
}
#endif

int main(int argc, char **argv)
{
	struct scope_options options = {sizeof(options), 3, 32768, SCOPE_CLOCK_DEFAULT, 0};
	struct scope_header *header;
	struct scope_control *control;

	if (scope_init(&options) != 0) {
		printf("scope_init failed\n");
		return 1;
	}
	header = (struct scope_header *)scope_gate.segment;
	if (!header || header->magic != SCOPE_MAGIC || header->ring_count != 3 || scope_enabled()) {
		printf("no segment\n");
		return 1;
	}
	control = (struct scope_control *)((char *)header + header->control_offset);
	/* As a reader would turn capture on, for as long as a clock can tell. */
	control->capture_until = UINT64_MAX & ~(uint64_t)SCOPE_EPOCH_MASK;
	run_threads();
	control->capture_until = 0;
	if (check_all(header) != 0)
		return 1;
	return argc > 1 && strcmp(argv[1], "--no-fork") == 0 ? 0 : check_fork(header);
}
