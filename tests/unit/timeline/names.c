// SPDX-License-Identifier: GPL-2.0-or-later
/* Names: interned, made valid, demangled. */
#include "support/capture.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>

#include "base/intern.h"
#include "base/demangle.h"
#include "base/utf8.h"

#define BAD "\xef\xbf\xbd"

static void expect_name(const char *bytes, size_t length, const char *expected)
{
	char *name = name_from_bytes(bytes, length);

	cr_assert_str_eq(name, expected);
	free(name);
}

Test(names, valid_bytes_stay)
{
	static const char *const valid[] = {"",
					    "plain",
					    "\xc3\xa9",
					    "\xe2\x82\xac",
					    "\xf0\x9f\x98\x80",
					    "\xf4\x8f\xbf\xbf",
					    "\xed\x9f\xbf",
					    "tab\tand\nline\x1b[0m\"'"};

	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++)
		expect_name(valid[i], strlen(valid[i]), valid[i]);
}

Test(names, invalid_bytes_are_replaced)
{
	expect_name("a\0b", 3, "a" BAD "b");
	expect_name("\x80", 1, BAD);
	expect_name("\xff\xfe", 2, BAD BAD);
	expect_name("\xc3", 1, BAD);
	expect_name("\xc3(", 2, BAD "(");
	expect_name("\xe2\x82", 2, BAD);
	expect_name("\xe2\x82(", 3, BAD "(");
	expect_name("\xf0\x9f\x98", 3, BAD);
	expect_name("\xc0\xaf", 2, BAD BAD);	     /* overlong */
	expect_name("\xe0\x80\xaf", 3, BAD BAD BAD); /* overlong */
	expect_name("\xed\xa0\x80", 3, BAD BAD BAD); /* a surrogate */
	expect_name("\xf4\x90\x80\x80", 4, BAD BAD BAD BAD);
	expect_name("\xf5", 1, BAD);
}

/* Any bytes at all become text that needs no second mending. */
Test(names, any_bytes)
{
	unsigned short seed[3] = {4, 5, 6};

	for (int round = 0; round < 20000; round++) {
		char bytes[24];
		size_t length = (size_t)nrand48(seed) % sizeof(bytes);
		char *once, *twice;

		for (size_t i = 0; i < length; i++)
			bytes[i] = (char)(nrand48(seed) & 1 ? 0x80 | nrand48(seed) : nrand48(seed));
		once = name_from_bytes(bytes, length);
		twice = name_from_bytes(once, strlen(once));
		cr_assert_str_eq(once, twice);
		free(once);
		free(twice);
	}
}

Test(names, cut_between_characters)
{
	cr_assert_eq(name_cut("abc", 5), 3);
	cr_assert_eq(name_cut("abc", 2), 2);
	cr_assert_eq(name_cut("a\xe2\x82\xac", 3), 1);
	cr_assert_eq(name_cut("a\xe2\x82\xac", 4), 4);
	cr_assert_eq(name_cut("\xe2\x82\xac", 2), 0);
}

static void expect_demangled(const char *symbol, const char *expected)
{
	char *shown = demangle(symbol);

	if (expected)
		cr_assert_str_eq(shown, expected);
	else
		cr_assert_null(shown, "%s became %s", symbol, shown);
	free(shown);
}

Test(names, demangled)
{
	expect_demangled("_ZN3geo4areaEii", "geo::area(int, int)");
	expect_demangled("_ZNSt6vectorIiSaIiEE9push_backERKi",
			 "std::vector<int, std::allocator<int> >::push_back(int const&)");
	expect_demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
			 "core::fmt::Write::write_fmt");
	expect_demangled("_RNvCs1234_7mycrate3foo", "mycrate::foo");
	expect_demangled("_Z3foov.isra.0", "foo() [clone .isra.0]");
}

Test(names, c_names_stay)
{
	static const char *const names[] = {"main",
					    "_start",
					    "i",
					    "_Zebra",
					    "_Read",
					    "_R",
					    "_Z",
					    "",
					    "Z3foov",
					    "__libc_start_main",
					    "foo.constprop.0",
					    "f@plt"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		expect_demangled(names[i], NULL);
}

/* Each parameter stands for twice the one before: 2^40 names in a few hundred bytes. */
Test(names, a_bomb_is_shown_as_it_is, .timeout = 20)
{
	char symbol[2048] = "_Z1f1XIiiE";

	for (int i = 0; i < 60; i++) {
		char previous[8];

		if (!i)
			strcpy(previous, "S0_");
		else if (i < 35)
			snprintf(previous, sizeof(previous), "S%c_",
				 i < 10 ? '0' + i : 'A' + i - 10);
		else
			snprintf(previous, sizeof(previous), "S1%c_",
				 i - 35 < 10 ? '0' + i - 35 : 'A' + i - 45);
		sprintf(symbol + strlen(symbol), "S_I%s%sE", previous, previous);
	}
	expect_demangled(symbol, NULL);
}

Test(names, only_functions_are_demangled)
{
	struct maker maker;
	struct timeline *timeline;

	make_begin(&maker);
	make_process(&maker, 1, "program", CLOCK_ID_MONOTONIC);
	make_function(&maker, "_Z1fv", "program");
	make_call(&maker, 1, 1, 0, 10, 50, 0);
	make_start(&maker, 1, 1, 20, 1, "_Z1fv");
	make_stop(&maker, 1, 1, 30, 1);
	timeline = make_open(&maker, 100);
	cr_assert_str_eq(lane_text(timeline, lane_of(timeline, 1, 1, 0)), "f() 10-50\n"
									  " _Z1fv 20-30\n");
	timeline_close(timeline);
	make_remove(&maker);
}

Test(intern, ids_follow_one_another)
{
	struct intern table = {0};
	char name[16];
	uint32_t id;
	bool added;

	cr_assert(!intern_put(&table, "", 0, &id, &added));
	cr_assert(!added && id == 0);
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 1; i <= 5000; i++) {
			int length = snprintf(name, sizeof(name), "name %u", i);

			cr_assert(!intern_put(&table, name, (size_t)length, &id, &added));
			cr_assert_eq(id, i);
			cr_assert_eq(added, !round);
		}
	}
	cr_assert(!intern_put(&table, "a\0b", 3, &id, &added));
	cr_assert(added);
	cr_assert(!intern_put(&table, "a\0c", 3, &id, &added));
	cr_assert(added);
	cr_assert_eq(table.count, 5002);
	intern_clear(&table);
}

/* Strings whose hashes are the same are told apart by their bytes. */
Test(intern, colliding_hashes)
{
	struct intern table = {0};
	uint32_t first, second;
	bool added;

	cr_assert(!intern_put(&table, "first", 5, &first, &added));
	/* As if "second" had the hash of "first". */
	cr_assert(!hash_map_put(&table.ids, hash_bytes("second", 6), first));
	cr_assert(!intern_put(&table, "second", 6, &second, &added));
	cr_assert(added);
	cr_assert_neq(first, second);
	cr_assert(!intern_put(&table, "second", 6, &first, &added));
	cr_assert(!added);
	cr_assert_eq(first, second);
	intern_clear(&table);
}
