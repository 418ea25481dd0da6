// SPDX-License-Identifier: GPL-2.0-or-later
/* The CSV export: its exact text, and what a real CSV reader makes of it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decoded.h"
#include "sample.h"
#include "sink/csv.h"
#include "sink/escape.h"

Test(csv, golden)
{
	char *text = written(csv_write, sample_timeline(), NULL, NULL);

	expect_golden(text, "sink.csv");
	free(text);
}

Test(csv, empty_timeline_is_a_header)
{
	char *text = written(csv_write, empty_timeline(), NULL, NULL);

	cr_assert_str_eq(text, "start_ns,end_ns,pid,tid,depth,kind,name,module,flags\n");
	free(text);
}

/* Python's reader gives back each field as it was, and finds nine in each row. */
Test(csv, read_back)
{
	size_t length;
	char *text = written(csv_write, sample_timeline(), NULL, &length);

	free(output_of(
		"python3 -c \"import csv; r=list(csv.reader(open(0,newline='',encoding='utf-8')));"
		"evil='evil<\\\"a\\\",b>\\n\\x1b[31m\\\\\\\\\\t\\x9b\\u202e'+'\\ufffd'*4;"
		"assert len(r)==18 and all(len(x)==9 for x in r) and sum(x[6]==evil for x in r)==4\"",
		text, length));
	free(text);
}

static void expect_csv(const char *name, bool terminal, const char *expected)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	escape_csv(out, name, terminal);
	fclose(out);
	cr_expect_str_eq(text, expected);
	free(text);
}

Test(csv, quoting)
{
	expect_csv("plain", false, "plain");
	expect_csv("", false, "");
	expect_csv("a,b", false, "\"a,b\"");
	expect_csv("say \"x\"", false, "\"say \"\"x\"\"\"");
	expect_csv("two\nlines", false, "\"two\nlines\"");
	expect_csv("\r", false, "\"\r\"");
	expect_csv("\x1b[2J", false, "\x1b[2J");
	expect_csv("\x1b[2J", true, "\\u001b[2J");
	expect_csv("\xc3\xa9\xff", false, "\xc3\xa9\xef\xbf\xbd");
}

Test(csv, full_disk_is_reported)
{
	FILE *full = fopen("/dev/full", "w");

	cr_assert_eq(csv_write(sample_timeline(), full, NULL), -ENOSPC);
	setvbuf(full, NULL, _IONBF, 0);
	cr_assert_eq(csv_write(sample_timeline(), full, NULL), -ENOSPC);
	fclose(full);
}
