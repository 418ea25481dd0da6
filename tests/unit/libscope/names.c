// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "helper.h"

enum { LONGEST = 1024 };

/* A name that ends where readable memory ends, and begins where it begins if it is a page long: no byte
 * beside it. */
static char *guarded_page(size_t *size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *at = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq((void *)at, MAP_FAILED);
	cr_assert_eq(mprotect(at + page, page, PROT_READ | PROT_WRITE), 0);
	*size = page;
	for (size_t i = 0; i < page; i++)
		at[page + i] = (char)(i * 7 + i / 256 + 1);
	return at + page;
}

/* The record at `index` of the log with its continuations is `name` and fills the log from there to its end.
 */
static void check_name(const struct log *log, size_t index, uint8_t kind, const char *name, size_t length)
{
	const struct scope_record *first = &log->records[index].record;
	char joined[2 * LONGEST];
	size_t joined_length = 0;
	bool more = true;

	cr_assert_eq(first->kind, kind);
	for (size_t i = index; i < log->count; i++) {
		const struct scope_record *record = &log->records[i].record;

		cr_assert(more, "a record too many");
		cr_assert(i == index || record->kind == SCOPE_KIND_CONTINUATION);
		cr_assert_eq(record->scope_id, first->scope_id);
		cr_assert_eq(record->tid, first->tid);
		memcpy(joined + joined_length, record->name, record->name_length);
		joined_length += record->name_length;
		more = record->flags & SCOPE_RECORD_CONTINUED;
	}
	cr_assert_not(more, "a continuation is missing");
	cr_assert_eq(joined_length, length);
	cr_assert(memcmp(joined, name, length) == 0, "length %zu", length);
}

static void check_unused_bytes_are_zero(const struct scope_record *record)
{
	for (size_t i = record->name_length; i < (scope_kind_has_value(record->kind) ? 24 : 32); i++)
		cr_assert_eq(record->name[i], 0);
}

Test(names, every_length_is_read_back_whole)
{
	struct log log;
	size_t page;
	char *names = guarded_page(&page);

	start_capture(&log, 1, 8192);
	SCOPE_INSTANT("begins the thread");
	for (size_t length = 0; length <= LONGEST; length++) {
		/* At the end of the page, and at its beginning. */
		const char *name = length % 2 ? names : names + page - length;

		drain_and_check(&log);
		log.count = 0;
		{
			SCOPE_DYNAMIC(name, length);
			cr_assert(drain(&log) >= 1);
			check_name(&log, 0, SCOPE_KIND_START, name, length);
			check_unused_bytes_are_zero(&log.records[0].record);
			log.count = 0;
		}
		cr_assert_eq(drain(&log), 1);
		cr_assert_eq(log.records[0].record.kind, SCOPE_KIND_STOP);
		log.count = 0;
		scope_instant(name, length);
		drain(&log);
		check_name(&log, 0, SCOPE_KIND_INSTANT, name, length);
		log.count = 0;
		scope_thread_name(name, length);
		drain(&log);
		check_name(&log, 0, SCOPE_KIND_THREAD_NAME, name, length);
	}
	finish(&log);
}

Test(names, complete_keeps_its_end_beside_names_of_every_length)
{
	struct log log;
	size_t page;
	char *names = guarded_page(&page);

	start_capture(&log, 1, 8192);
	SCOPE_INSTANT("begins the thread");
	for (size_t length = 0; length <= LONGEST; length++) {
		const char *name = names + page - length;
		struct scope_hot hot;
		uint64_t before, end;

		drain(&log);
		log.count = 0;
		before = scope_reader_ticks(log.reader);
		scope_hot_start(&hot, name, length);
		scope_hot_stop(&hot);
		drain(&log);
		check_name(&log, 0, SCOPE_KIND_COMPLETE, name, length);
		check_unused_bytes_are_zero(&log.records[0].record);
		memcpy(&end, log.records[0].record.name + SCOPE_VALUE_OFFSET, sizeof(end));
		cr_assert(before <= log.records[0].record.ticks && log.records[0].record.ticks <= end);
		cr_assert(end <= scope_reader_ticks(log.reader));
	}
	finish(&log);
}

Test(names, longer_names_are_cut_at_1024_bytes)
{
	char *name = malloc(5000);
	struct log log;

	memset(name, 'x', 5000);
	start_capture(&log, 1, 8192);
	SCOPE_INSTANT("begins the thread");
	drain(&log);
	log.count = 0;
	scope_instant(name, 5000);
	drain(&log);
	check_name(&log, 0, SCOPE_KIND_INSTANT, name, LONGEST);
	free(name);
	finish(&log);
}

static void a_function(void)
{
	SCOPE_FUNCTION();
}

Test(names, macros_name_what_they_say)
{
	static const char *const expected[] = {"",	"thread", "block", "a \"name\"\n%s",
					       "point", "begun",  "",	   "a_function",
					       "",	"hot",	  "",	   "renamed"};
	static const uint8_t kinds[] = {
		SCOPE_KIND_THREAD_START, SCOPE_KIND_THREAD_NAME, SCOPE_KIND_START, SCOPE_KIND_START,
		SCOPE_KIND_INSTANT,	 SCOPE_KIND_START,	 SCOPE_KIND_STOP,  SCOPE_KIND_START,
		SCOPE_KIND_STOP,	 SCOPE_KIND_COMPLETE,	 SCOPE_KIND_STOP,  SCOPE_KIND_THREAD_NAME};
	struct log log;

	SCOPE_THREAD_NAME("thread");
	start_capture(&log, 1, 64);
	{
		SCOPE("block");
		scope_token token;

		SCOPE("a \"name\"\n%s");
		SCOPE_INSTANT("point");
		SCOPE_BEGIN(token, "begun");
		SCOPE_END(token);
		a_function();
		{
			SCOPE_HOT("hot");
		}
		drain_and_check(&log);
	}
	SCOPE_THREAD_NAME("renamed");
	drain_and_check(&log);
	cr_assert_eq(log.count, 13);
	for (size_t i = 0; i < 10; i++) {
		cr_assert_eq(log.records[i].record.kind, kinds[i]);
		cr_assert(name_is(&log.records[i].record, expected[i]), "record %zu", i);
	}
	cr_assert(log.records[10].record.kind == SCOPE_KIND_STOP &&
		  log.records[11].record.kind == SCOPE_KIND_STOP);
	cr_assert_eq(log.records[10].record.scope_id, log.records[3].record.scope_id);
	cr_assert_eq(log.records[11].record.scope_id, log.records[2].record.scope_id);
	cr_assert(name_is(&log.records[12].record, "renamed"));
	for (size_t i = 1; i < log.count; i++)
		cr_assert(log.records[i].record.kind == SCOPE_KIND_COMPLETE ||
			  log.records[i].record.ticks >= log.records[i - 1].record.ticks);
	finish(&log);
}
