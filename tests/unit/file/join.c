// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files of one capture, as killed drainers leave them. A ring is drained by one after another; each
 * is killed after it has written more than it has given back, so that the next reads the same
 * again.
 */
#include "support/capture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>

#include "file/join.h"
#include "file/concat.h"

enum { PID = 100, FILES = 5, RECORD = 64 };

static struct maker maker;
static char paths[FILES][128];

static void begin(void)
{
	make_begin(&maker);
	for (int i = 0; i < FILES; i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%d.scope", maker.directory, i);
}

static void end(void)
{
	make_remove(&maker);
}

TestSuite(scope_file_join, .init = begin, .fini = end);

static const struct scope_file_writer_options of_ring = {.kind = SCOPE_FILE_OF_RING, .number = 7};

/* A drainer's file, with its process and function. */
static struct scope_file_writer *begin_file(int file,
					    const struct scope_file_writer_options *options)
{
	struct scope_file_writer *writer =
		scope_file_writer_create_with(paths[file], options, 0, NULL);
	struct function_info function = {0};
	struct process_info process = {.pid = PID, .clock = CLOCK_ID_MONOTONIC, .segment = 77};

	cr_assert(writer, "%s", said(&maker));
	cr_assert(!scope_file_writer_function(writer, &function));
	cr_assert(!scope_file_writer_process(writer, &process));
	return writer;
}

/* Scope number `i` of the ring, which begins `base` bytes behind the ring's first. */
static struct hooked_scope scope_of(uint64_t base, uint64_t i)
{
	return (struct hooked_scope){.start_ns = i * 100,
				     .end_ns = i * 100 + 50,
				     .pid = PID,
				     .tid = 1 + (uint32_t)(i % 3),
				     .position = (uint32_t)((base + (i + 1) * RECORD) / 8)};
}

/* Scopes `first` to `last`, in batches of some size. */
static void put_scopes(struct scope_file_writer *writer, uint64_t base, uint64_t first,
		       uint64_t last, uint64_t batch)
{
	struct event_output *output = scope_file_writer_output(writer);

	for (uint64_t i = first; i < last; i++) {
		struct hooked_scope scope = scope_of(base, i);

		if ((i - first) % batch == 0)
			output->span(output, base + i * RECORD, base + (i + batch) * RECORD);
		cr_assert(!output->hooked(output, &scope, 1));
	}
}

/* Counts how often each number is told by all the files together; how many records were dropped. */
static uint64_t tell_all(size_t file_count, uint32_t type, uint64_t (*number)(const void *record),
			 unsigned *told, size_t numbers)
{
	struct scope_file *files[FILES];
	struct scope_file_join *join;
	uint64_t repeats;
	struct chunk chunk;

	for (size_t i = 0; i < file_count; i++)
		cr_assert(files[i] = scope_file_open(paths[i]));
	join = scope_file_join_create(files, file_count);
	cr_assert(join, "%s", said(&maker));
	memset(told, 0, numbers * sizeof(*told));
	for (size_t i = 0; i < file_count; i++) {
		struct chunk_reader *reader = chunk_reader_create(files[i]);

		scope_file_join_apply(join, i, reader);
		while (chunk_reader_next(reader, &chunk) > 0) {
			for (uint32_t j = 0; j < chunk.count && chunk.type == type; j++)
				told[number(chunk.payload + (size_t)j * chunk.size)]++;
		}
		chunk_reader_destroy(reader);
		scope_file_close(files[i]);
	}
	repeats = scope_file_join_repeats(join);
	scope_file_join_destroy(join);
	return repeats;
}

static uint64_t number_of_scope(const void *record)
{
	return ((const struct hooked_scope *)record)->start_ns / 100;
}

static void each_once(const unsigned *told, size_t numbers)
{
	for (size_t i = 0; i < numbers; i++)
		cr_assert_eq(told[i], 1, "%zu is told %u times", i, told[i]);
}

/* Wherever the ring's positions stand, below and above what 32 bits hold. */
Test(scope_file_join, scopes)
{
	static const uint64_t bases[] = {0, (1ull << 35) - 64 * RECORD, (1ull << 40) + 8};
	enum { ALL = 9000 };
	static unsigned told[ALL];

	for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
		struct scope_file_writer *writers[3];

		for (int file = 0; file < 3; file++)
			writers[file] = begin_file(file, &of_ring);
		put_scopes(writers[0], bases[i], 0, 3100, 100);
		put_scopes(writers[1], bases[i], 3000, 6700, 170);
		put_scopes(writers[2], bases[i], 6001, ALL, 41);
		for (int file = 0; file < 3; file++)
			cr_assert(!scope_file_writer_finish(writers[file], 0, 1, 0));
		cr_assert_eq(tell_all(3, CHUNK_HOOKED, number_of_scope, told, ALL), 100 + 699);
		each_once(told, ALL);
	}
	cr_assert_str_empty(said(&maker));
}

/* Killed again and again before anything new was read: the same scopes in every file. */
Test(scope_file_join, the_same_in_all)
{
	static unsigned told[500];

	for (int file = 0; file < FILES; file++) {
		struct scope_file_writer *writer = begin_file(file, &of_ring);

		put_scopes(writer, 0, 0, 100 * (uint64_t)(file + 1), 7);
		scope_file_writer_flush(writer);
		cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
	}
	cr_assert_eq(tell_all(FILES, CHUNK_HOOKED, number_of_scope, told, 500),
		     100 + 200 + 300 + 400);
	each_once(told, 500);
}

static uint64_t number_of_account(const void *record)
{
	return ((const struct function_account *)record)->function;
}

/*
 * The capture's end: scopes 50 to 59 were still running. The first drainer was killed when it had
 * written some of them, or all and some accounts, or it had just finished and was started again for
 * nothing.
 */
static void put_end(struct scope_file_writer *writer, uint64_t scopes, uint32_t accounts)
{
	struct event_output *output = scope_file_writer_output(writer);

	for (uint64_t i = 50; i < 50 + scopes; i++) {
		struct hooked_scope scope = scope_of(0, i);

		scope.position = 0;
		scope.flags = SCOPE_FLAG_UNFINISHED;
		cr_assert(!output->hooked(output, &scope, 1));
	}
	for (uint32_t i = 0; i < accounts; i++) {
		struct function_accounting terms = {
			.entries = 60, .completed = 50, .unfinished = 10};

		cr_assert(!scope_file_writer_function_accounting(writer, i, &terms));
	}
}

Test(scope_file_join, ends)
{
	static const struct {
		uint64_t scopes[3];
		uint32_t accounts[3];
	} cases[] = {
		{{3, 10, 0}, {0, 1, 0}},  {{10, 10, 0}, {1, 1, 0}},  {{10, 4, 0}, {1, 0, 0}},
		{{1, 2, 10}, {0, 0, 1}},  {{10, 10, 10}, {1, 1, 1}}, {{10, 0, 0}, {1, 0, 0}},
		{{3, 10, 10}, {0, 0, 0}},
	};
	static unsigned told[60], accounts[1];
	const char *files[] = {paths[0], paths[1], paths[2]};
	char *missing;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd;

		for (int file = 0; file < 3; file++) {
			struct scope_file_writer *writer = begin_file(file, &of_ring);

			put_scopes(writer, 0, 0, file ? 50 : 20, 7);
			put_end(writer, cases[i].scopes[file], cases[i].accounts[file]);
			cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
		}
		tell_all(3, CHUNK_HOOKED, number_of_scope, told, 60);
		each_once(told, 60);
		tell_all(3, CHUNK_FUNCTION_ACCOUNTING, number_of_account, accounts, 1);
		cr_assert_eq(accounts[0], i + 1 < sizeof(cases) / sizeof(cases[0]), "case %zu", i);
		fd = scope_file_concat(files, 3, &missing);
		cr_assert_geq(fd, 0, "%s", said(&maker));
		close(fd);
	}
	cr_assert_str_empty(said(&maker));
}

static uint64_t number_of_event(const void *record)
{
	return ((const struct manual_event *)record)->ticks;
}

/* A START or a STOP with this claim in one of two rings; its number is in its ticks. */
static void put_event(struct scope_file_writer *writer, uint8_t ring, uint64_t claim)
{
	struct event_output *output = scope_file_writer_output(writer);
	struct manual_event event = {.ticks = claim * 2 + ring,
				     .pid = PID,
				     .tid = ring,
				     .ring = ring,
				     .kind = claim & 1 ? MANUAL_STOP : MANUAL_START,
				     .scope_id = claim & ~1ull,
				     .value = claim & 1 ? claim : 0};

	cr_assert(!output->manual(output, &event, 1));
}

/*
 * Claims of two rings; 40 and 41 were holes when the first file was written, and are told by the
 * second.
 */
Test(scope_file_join, claims)
{
	static unsigned told[400];
	struct scope_file_writer *first = begin_file(0, &of_ring),
				 *second = begin_file(1, &of_ring);

	for (uint64_t claim = 0; claim < 120; claim++) {
		if (claim != 40 && claim != 41)
			put_event(first, 0, claim);
	}
	for (uint64_t claim = 0; claim < 80; claim++)
		put_event(first, 1, claim);
	for (uint64_t claim = 110; claim < 150; claim++)
		put_event(second, 0, claim);
	put_event(second, 0, 41);
	put_event(second, 0, 40);
	for (uint64_t claim = 80; claim < 200; claim++)
		put_event(second, 1, claim);
	for (uint64_t claim = 150; claim < 200; claim++)
		put_event(second, 0, claim);
	cr_assert(!scope_file_writer_finish(first, 0, 1, 0));
	cr_assert(!scope_file_writer_finish(second, 0, 1, 0));
	cr_assert_eq(tell_all(2, CHUNK_MANUAL, number_of_event, told, 400), 10);
	each_once(told, 400);
}

/* Another program of the same process has another segment, in which claims begin anew. */
Test(scope_file_join, segments)
{
	static unsigned told[100];
	struct scope_file_writer *first = begin_file(0, &of_ring),
				 *second = begin_file(1, &of_ring);
	struct process_info process = {.pid = PID, .clock = CLOCK_ID_MONOTONIC, .segment = 78};

	for (uint64_t claim = 0; claim < 40; claim++)
		put_event(first, 0, claim);
	for (uint64_t claim = 30; claim < 40; claim++)
		put_event(second, 0, claim);
	cr_assert(!scope_file_writer_process(second, &process));
	for (uint64_t claim = 0; claim < 40; claim++)
		put_event(second, 0, claim);
	cr_assert(!scope_file_writer_finish(first, 0, 1, 0));
	cr_assert(!scope_file_writer_finish(second, 0, 1, 0));
	cr_assert_eq(tell_all(2, CHUNK_MANUAL, number_of_event, told, 100), 10);
	for (size_t i = 0; i < 80; i += 2)
		cr_assert_eq(told[i], 2);
}

static uint64_t number_of_loss(const void *record)
{
	return ((const struct loss_event *)record)->count;
}

Test(scope_file_join, losses)
{
	static unsigned told[20];

	for (int file = 0; file < 2; file++) {
		struct scope_file_writer *writer = begin_file(file, &of_ring);
		struct event_output *output = scope_file_writer_output(writer);

		for (uint64_t i = 0; i < 10; i++) {
			struct loss_event loss = {i + 5 * (uint64_t)file,
						  20,
						  i + 5 * (uint64_t)file,
						  0,
						  LOSS_KERNEL_RING,
						  1,
						  0};

			cr_assert(!output->loss(output, &loss));
		}
		cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
	}
	cr_assert_eq(tell_all(2, CHUNK_LOSS, number_of_loss, told, 15), 5);
	each_once(told, 15);
}

static void put_lap(struct scope_file_writer *writer, uint8_t ring, uint64_t first, uint64_t end,
		    uint64_t time, uint16_t place)
{
	struct event_output *output = scope_file_writer_output(writer);
	struct loss_event loss = {time, time + 1, end - first, PID, place, ring, first + 1};

	cr_assert(!output->loss(output, &loss));
}

/* How many events the files have lost together, in how many records. */
static uint64_t sum_losses(size_t file_count, size_t *records)
{
	struct scope_file *files[FILES];
	struct scope_file_join *join;
	struct chunk chunk;
	uint64_t sum = 0;

	*records = 0;
	for (size_t i = 0; i < file_count; i++)
		cr_assert(files[i] = scope_file_open(paths[i]));
	join = scope_file_join_create(files, file_count);
	cr_assert(join, "%s", said(&maker));
	for (size_t i = 0; i < file_count; i++) {
		struct chunk_reader *reader = chunk_reader_create(files[i]);

		scope_file_join_apply(join, i, reader);
		while (chunk_reader_next(reader, &chunk) > 0) {
			for (uint32_t j = 0; j < chunk.count && chunk.type == CHUNK_LOSS;
			     j++, ++*records)
				sum += number_of_loss(chunk.payload + (size_t)j * chunk.size);
		}
		chunk_reader_destroy(reader);
	}
	for (size_t i = 0; i < file_count; i++)
		scope_file_close(files[i]);
	scope_file_join_destroy(join);
	return sum;
}

/*
 * Claims of a ring of 10 slots. Each reader was killed when it had written more than it had
 * committed, and the next one loses that again: the same lap with other times, and with what was
 * overwritten since.
 */
Test(scope_file_join, losses_of_known_claims)
{
	struct scope_file_writer *writers[3];
	static unsigned told[400];
	size_t records;

	for (int file = 0; file < 3; file++)
		writers[file] = begin_file(file, &of_ring);
	for (uint64_t claim = 0; claim < 10; claim++)
		put_event(writers[0], 0, claim);
	put_lap(writers[0], 0, 10, 20, 100, LOSS_SEGMENT_LAP);
	/* another ring: nobody tells it again */
	put_lap(writers[0], 1, 10, 20, 100, LOSS_SEGMENT_LAP);
	put_lap(writers[0], 0, 22, 23, 101, LOSS_WRITTEN_OFF); /* which was published after all */
	for (uint64_t claim = 20; claim < 30; claim++)
		if (claim != 22)
			put_event(writers[0], 0, claim);
	/* From 5 on; 20 to 29 are in the first file, 22 in the third. */
	put_lap(writers[1], 0, 5, 40, 200, LOSS_SEGMENT_LAP);
	put_event(writers[1], 0, 40);
	put_lap(writers[1], 0, 41, 60, 210, LOSS_SEGMENT_LAP);
	/* From 5 on as well: nothing of the second was committed. */
	put_lap(writers[2], 0, 5, 22, 300, LOSS_SEGMENT_LAP);
	put_event(writers[2], 0, 22);
	put_lap(writers[2], 0, 23, 70, 300, LOSS_SEGMENT_LAP);
	for (uint64_t claim = 70; claim < 80; claim++)
		put_event(writers[2], 0, claim);
	for (int file = 0; file < 3; file++)
		cr_assert(!scope_file_writer_finish(writers[file], 0, 1, 0));
	/* Ring 0: 80 claims, of which 0 to 9, 20 to 29, 40 and 70 to 79 are there. */
	cr_assert_eq(sum_losses(3, &records), 80 - 31 + 10);
	cr_assert_eq(records, 3);
	tell_all(3, CHUNK_MANUAL, number_of_event, told, 400);
	cr_assert_str_empty(said(&maker));
	/* Told twice and in the same words but for the times. */
	cr_assert_eq(sum_losses(2, &records), 60 - 20 - 1 + 1 + 10);
}

/* A file that was cut short holds what it holds. */
Test(scope_file_join, cut)
{
	static unsigned told[3000];
	struct scope_file_writer *first = begin_file(0, &of_ring),
				 *second = begin_file(1, &of_ring);
	unsigned char *bytes;
	size_t length, at;

	put_scopes(first, 0, 0, 2000, 10);
	scope_file_writer_flush(first);
	put_scopes(first, 0, 2000, 2600, 10);
	put_scopes(second, 0, 2000, 3000, 13);
	cr_assert(!scope_file_writer_finish(first, 0, 1, 0));
	cr_assert(!scope_file_writer_finish(second, 0, 1, 0));
	cr_assert_eq(tell_all(2, CHUNK_HOOKED, number_of_scope, told, 3000), 600);
	each_once(told, 3000);
	/* Inside the last chunk of scopes of the first. */
	bytes = file_read(paths[0], &length);
	at = chunk_at(bytes, length, CHUNK_HOOKED, 2);
	cr_assert_lt(at, length);
	file_write(paths[0], bytes, at + 100);
	tell_all(2, CHUNK_HOOKED, number_of_scope, told, 3000);
	each_once(told, 3000);
	free(bytes);
}

/* ---- as one file ---- */

/*
 * The files of three drainers as `report` and `export` read them: names are numbered anew in each.
 */
Test(scope_file_join, as_one_file)
{
	const char *files[] = {paths[2], paths[0], paths[1]};
	struct timeline *timeline;
	char path[64], *missing;
	int fd;

	for (int file = 0; file < 3; file++) {
		struct scope_file_writer *writer =
			scope_file_writer_create_with(paths[file], &of_ring, 0, NULL);
		struct event_output *output = scope_file_writer_output(writer);
		struct function_info function = {0};
		uint32_t id;

		for (int i = 0; i < file; i++)
			cr_assert(!output->string(output, "another", 7 - (size_t)i, &id));
		cr_assert(!output->string(output, "f", 1, &function.name));
		cr_assert(!scope_file_writer_function(writer, &function));
		put_scopes(writer, 0, (uint64_t)file * 100, (uint64_t)file * 100 + 150, 11);
		cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
	}
	fd = scope_file_concat(files, 3, &missing);
	cr_assert_geq(fd, 0, "%s", said(&maker));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	timeline = timeline_open(path);
	cr_assert(timeline, "%s", said(&maker));
	cr_assert_eq(timeline->function_count, 1);
	cr_assert_str_eq(timeline->names[timeline->functions[0].info.name], "f");
	cr_assert_eq(timeline->accounting.in_file, 350);
	timeline_close(timeline);
	close(fd);
}

/*
 * A file with scopes `first` to `last`; `threads` records of threads stand behind them in the ring.
 */
static void put_part(int file, uint64_t first, uint64_t last, uint64_t threads)
{
	struct scope_file_writer *writer = begin_file(file, &of_ring);
	struct event_output *output = scope_file_writer_output(writer);
	struct thread_info thread = {.pid = PID, .tid = 1};

	put_scopes(writer, 0, first, last, last - first);
	cr_assert(!scope_file_writer_flush(writer));
	for (uint64_t i = last; i < last + threads; i++) {
		output->span(output, i * RECORD, (i + 1) * RECORD);
		cr_assert(!output->thread(output, &thread));
		cr_assert(!scope_file_writer_flush(writer));
	}
	cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
}

static void cut_behind(int file, uint32_t type, size_t more)
{
	size_t length, at;
	unsigned char *bytes = file_read(paths[file], &length);
	struct chunk_header header;

	at = chunk_at(bytes, length, type, 0);
	memcpy(&header, bytes + at, sizeof(header));
	file_write(paths[file], bytes, at + sizeof(header) + chunk_padded(header.length) + more);
	free(bytes);
}

/* NULL, or what is missing in the three files together; to be freed. */
static char *missing_of_three(void)
{
	const char *files[] = {paths[1], paths[0], paths[2]};
	char *missing;
	int fd = scope_file_concat(files, 3, &missing);

	cr_assert_geq(fd, 0, "%s", said(&maker));
	close(fd);
	return missing;
}

/* What none of the files has is told: a drainer's file was cut after it had given the ring back. */
Test(scope_file_join, holes)
{
	char *missing;

	put_part(0, 0, 100, 0);
	put_part(1, 100, 150, 7);
	put_part(2, 157, 300, 0);
	missing = missing_of_three();
	cr_assert_null(missing, "%s", missing);
	cr_assert_str_empty(said(&maker));
	/* One that was killed: the next has what it lacks. */
	cut_behind(0, CHUNK_HOOKED, 20);
	cr_assert_null(missing_of_three());
	cr_assert(strstr(said(&maker), "1 of the 3 files were cut short"));
	cut_behind(2, CHUNK_HOOKED, 0);
	missing = missing_of_three();
	cr_assert(missing && strstr(missing, "2.scope, the last of the files, was cut short"), "%s",
		  missing);
	free(missing);
	put_part(1, 100, 150, 6);
	put_part(2, 157, 300, 0);
	missing = missing_of_three();
	cr_assert(missing && strstr(missing, "2.scope") && strstr(missing, " 64 bytes"), "%s",
		  missing);
	free(missing);
}

/* Strings that reach beyond their chunk, by so little that only the zeros behind them do. */
Test(scope_file_join, as_one_file_forged)
{
	const char *files[] = {paths[0], paths[1]};
	unsigned char *bytes;
	size_t length, at;
	char *missing;
	uint32_t id;

	for (int file = 0; file < 2; file++) {
		struct scope_file_writer *writer = begin_file(file, &of_ring);
		struct event_output *output = scope_file_writer_output(writer);

		cr_assert(!output->string(output, "12345", 5, &id));
		cr_assert(!scope_file_writer_finish(writer, 0, 1, 0));
	}
	bytes = file_read(paths[1], &length);
	at = chunk_at(bytes, length, CHUNK_STRING, 0);
	for (uint32_t count = 2; count < 4; count++) {
		for (uint32_t size = 5; size <= 9; size++) {
			/* The chunk ends behind the fifth byte of its one string. */
			const struct string_batch batch = {1, count};
			uint32_t whole = 17;

			memcpy(bytes + at + offsetof(struct chunk_header, length), &whole,
			       sizeof(whole));
			memcpy(bytes + at + 16, &batch, sizeof(batch));
			memcpy(bytes + at + 24, &size, sizeof(size));
			chunk_sign(bytes, at);
			file_write(paths[1], bytes, length);
			cr_assert_eq(scope_file_concat(files, 2, &missing), -EBADMSG);
			cr_assert(strstr(said(&maker), "damaged"));
		}
	}
	free(bytes);
}

/* ---- not together ---- */

static void expect_refused(const char *words)
{
	struct scope_file *files[2] = {scope_file_open(paths[0]), scope_file_open(paths[1])};

	cr_assert(files[0] && files[1]);
	errno = 0;
	cr_assert(!scope_file_join_create(files, 2));
	cr_assert_eq(errno, EINVAL);
	cr_assert(strstr(said(&maker), words));
	scope_file_close(files[0]);
	scope_file_close(files[1]);
}

Test(scope_file_join, of_other_captures)
{
	static const struct scope_file_writer_options others[] = {
		{.kind = SCOPE_FILE_OF_RING, .number = 8},
		{.kind = SCOPE_FILE_OF_RING, .number = 7, .start_ns = 1},
		{.kind = SCOPE_FILE_OF_PROCESS, .number = 7},
		{0},
	};
	unsigned char *bytes;
	size_t length;

	cr_assert(!scope_file_writer_finish(begin_file(0, &of_ring), 0, 1, 0));
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		cr_assert(!scope_file_writer_finish(begin_file(1, &others[i]), 0, 1, 0));
		expect_refused("not parts of one capture");
	}
	cr_assert(!scope_file_writer_finish(begin_file(1, &of_ring), 0, 1, 0));
	bytes = file_read(paths[1], &length);
	bytes[16 + offsetof(struct header_payload, boot_id)] ^= 1;
	chunk_sign(bytes, 0);
	file_write(paths[1], bytes, length);
	expect_refused("not parts of one capture");
	free(bytes);
	bytes = file_read(paths[0], &length);
	file_write(paths[1], bytes, length);
	expect_refused("one and the same");
	file_write(paths[1], bytes, length - 8);
	expect_refused("the second is an earlier part of the same file");
	free(bytes);
}

/* A segment of 80 claims, of which 10 to 14 were written by a drainer that had not committed them, and lost
 * by the next one; and the same with one event too few in the files. */
Test(scope_file_join, accounts_of_segments)
{
	const char *files[] = {paths[0], paths[1]};
	const struct function_accounting nothing = {0};

	for (uint64_t missing = 0; missing < 2; missing++) {
		struct segment_accounting account = {.cursor = 80,
						     .delivered = 50,
						     .events = 50,
						     .lost = 30,
						     .pid = PID,
						     .segment = 77};
		struct scope_file_writer *first = begin_file(0, &of_ring),
					 *second = begin_file(1, &of_ring);
		struct timeline *timeline;
		char path[64], *unknown;
		int fd;

		for (uint64_t claim = 0; claim < 15; claim++)
			put_event(first, 0, claim);
		put_lap(second, 0, 10, 40, 100, LOSS_SEGMENT_LAP);
		for (uint64_t claim = 40; claim < 80 - missing; claim++)
			put_event(second, 0, claim);
		/* That of the first is of no account: the capture went on. */
		cr_assert(!scope_file_writer_segment_accounting(second, &account));
		account.events = account.delivered = account.cursor = 15;
		account.lost = 0;
		cr_assert(!scope_file_writer_segment_accounting(first, &account));
		cr_assert(!scope_file_writer_function_accounting(second, 0, &nothing));
		cr_assert(!scope_file_writer_finish(first, 0, 1, 0));
		cr_assert(!scope_file_writer_finish(second, 0, 1, 0));
		fd = scope_file_concat(files, 2, &unknown);
		cr_assert_geq(fd, 0, "%s", said(&maker));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		timeline = timeline_open(path);
		cr_assert(timeline, "%s", said(&maker));
		cr_assert_eq(timeline->accounting.balanced, !missing, "%s",
			     timeline->accounting.imbalance);
		cr_assert(!missing || strstr(timeline->accounting.imbalance, "in the files"));
		cr_assert_eq(timeline->accounting.segment_lost, missing ? 26 : 25);
		timeline_close(timeline);
		free(unknown);
		close(fd);
	}
}
