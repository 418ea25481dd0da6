// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The report for people and for programs: exact text, real JSON, order, units, and the closing
 * line.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "decoded.h"
#include "sample.h"
#include "sink/escape.h"
#include "sink/report.h"

Test(report, golden)
{
	char *text = written(report_text, sample_timeline(), NULL, NULL);

	expect_golden(text, "report.txt");
	free(text);
}

Test(report, golden_json)
{
	char *text = written(report_json, sample_timeline(), NULL, NULL);

	expect_golden(text, "report.json");
	free(text);
}

/* Any JSON reader takes it, and finds the hostile name as it was. */
Test(report, json_is_json)
{
	size_t length;
	char *text = written(report_json, sample_timeline(), NULL, &length);

	free(output_of("python3 -m json.tool", text, length));
	free(output_of(
		"python3 -c \"import json,sys; d=json.load(sys.stdin); names=[f['name'] for f in "
		"d['functions']];"
		"evil='evil<\\\"a\\\",b>\\n\\x1b[31m\\\\\\\\\\t\\x9b\\u202e'+'\\ufffd'*4;"
		"assert evil in names and d['threads'][2]['name']==evil and "
		"d['accounting']['balanced'] is True\"",
		text, length));
	free(text);
}

/* The keys are a promise to programs. */
Test(report, json_keys)
{
	size_t length;
	char *text = written(report_json, sample_timeline(), NULL, &length);

	free(output_of(
		"python3 -c \"import json,sys; d=json.load(sys.stdin);"
		"a=set('entries returns completed discarded duplicates orphans too_deep unfinished "
		"unwound not_a_call instants segment_handoff_lost "
		"not_a_return map_full chain_full below_minimum ring_lost handoff_lost in_file "
		"segment_lost segment_handoff_lost written_off expired segment_expired "
		"filtered opened recursion_misses segment_delivered segment_holes balanced'.split());"
		"f=set('name module kind calls unfinished unwound instants exact total_ns self_ns min_ns mean_ns p50_ns "
		"p90_ns p99_ns "
		"max_ns'.split());"
		"h=f|a-set('segment_lost segment_handoff_lost segment_expired written_off recursion_misses segment_delivered segment_holes "
		"balanced'.split());"
		"assert list(d)=='functions not_hooked threads processes losses frames asyncs async_orphans counters arguments instants accounting'.split();"
		"assert set(d['accounting'])==a, a^set(d['accounting']);"
		"assert all(set(x)==(h if x['kind']=='hooked' else f) for x in d['functions']);"
		"assert all(list(x)=='pid tid name scopes max_depth'.split()+['names']*(x['tid']==101 "
		"and x['name']=='worker-1') for x in d['threads']);"
		"assert all(list(x)=='pid parent start_ns name command'.split()+['names']*(x['pid']==100) "
		"for x in d['processes']), d['processes']\"",
		text, length));
	free(text);
}

Test(report, empty_timeline)
{
	size_t length;
	char *text = written(report_json, empty_timeline(), NULL, &length);

	free(output_of("python3 -m json.tool", text, length));
	free(text);
	text = written(report_text, empty_timeline(), NULL, NULL);
	cr_assert(strncmp(text, "no scopes\n", 10) == 0);
	cr_assert_not_null(strstr(text, "0 calls; "));
	free(text);
}

/* Nothing in the text may drive a terminal, unless colour was asked for. */
Test(report, text_has_no_controls)
{
	char *text = written(report_text, sample_timeline(), NULL, NULL);
	uint32_t code;

	for (const char *at = text; *at;) {
		at += escape_decode(at, &code);
		cr_assert(code == '\n' || (code != ESCAPE_INVALID && !escape_is_control(code)),
			  "%x", code);
	}
	free(text);
	text = written(report_text, sample_timeline(), &(struct sink_options){.colour = 1}, NULL);
	cr_assert_not_null(strstr(text, "\033[1mNAME"));
	free(text);
}

static uint64_t value_of(const struct function_statistics *f, const char *key)
{
	return strcmp(key, "calls") == 0  ? f->calls
	       : strcmp(key, "self") == 0 ? f->self_ns
	       : strcmp(key, "mean") == 0 ? f->mean_ns
	       : strcmp(key, "p50") == 0  ? f->p50_ns
	       : strcmp(key, "p90") == 0  ? f->p90_ns
	       : strcmp(key, "p99") == 0  ? f->p99_ns
	       : strcmp(key, "max") == 0  ? f->max_ns
	       : strcmp(key, "min") == 0  ? f->min_ns
					  : f->total_ns;
}

Test(report, order)
{
	static const char *const keys[] = {"total", "self", "calls", "mean", "p50",
					   "p90",   "p99",  "max",   "min",  NULL};
	const struct timeline *timeline = sample_timeline();
	struct timeline_summary summary;
	const struct function_statistics *functions;
	size_t count;

	cr_assert_eq(timeline_summarise(timeline, &summary), 0);
	functions = summary.functions;
	count = summary.function_count;
	cr_assert_eq(count, 6, "update, and five hooked functions, one never called");
	for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++) {
		cr_assert_eq(report_sort(timeline, keys[k], summary.functions, count), 0);
		for (size_t i = 1; i < count; i++)
			cr_assert_geq(value_of(&functions[i - 1], keys[k] ? keys[k] : "total"),
				      value_of(&functions[i], keys[k] ? keys[k] : "total"));
	}
	cr_assert_eq(report_sort(timeline, "name", summary.functions, count), 0);
	for (size_t i = 1; i < count; i++)
		cr_assert_leq(strcmp(timeline->names[functions[i - 1].name],
				     timeline->names[functions[i].name]),
			      0);
	timeline_summary_clear(&summary);
}

/* Every key that the help names is known, and no other. */
Test(report, sort_keys)
{
	char keys[] = REPORT_SORT_KEYS, *rest = keys, *key;

	while ((key = strsep(&rest, ", "))) {
		if (*key)
			cr_expect(report_sort_known(key), "%s", key);
	}
	cr_assert_not(report_sort_known("median"));
	cr_assert_not(report_sort_known(""));
	cr_assert_eq(
		report_text(sample_timeline(), stderr, &(struct sink_options){.sort = "median"}),
		-EINVAL);
}

static void expect_unit(enum time_unit unit, const char *expected)
{
	char *text =
		written(report_text, sample_timeline(), &(struct sink_options){.unit = unit}, NULL);

	cr_expect_not_null(strstr(text, expected), "no %s in:\n%s", expected, text);
	free(text);
}

Test(report, units)
{
	expect_unit(UNIT_AUTO, "11.0 ms");
	expect_unit(UNIT_NS, "11001179 ns");
	expect_unit(UNIT_US, "11001.179 us");
	expect_unit(UNIT_MS, "11.001179 ms");
}

Test(report, cut_short)
{
	struct timeline timeline = *sample_timeline();
	char *text;

	timeline.truncated = true;
	timeline.truncated_at = 4242;
	timeline.accounting.balanced = false;
	strcpy(timeline.accounting.imbalance, "the file has\x1b[2J no footer");
	text = written(report_text, &timeline, NULL, NULL);
	cr_assert_not_null(strstr(text, "cut short"));
	cr_assert_not_null(strstr(text, "byte 4242"));
	cr_assert_not_null(strstr(text, "; NOT BALANCED: the file has\\u001b[2J no footer\n"));
	free(text);
	text = written(report_json, &timeline, NULL, NULL);
	cr_assert_not_null(strstr(text, "\"balanced\":false}"));
	free(text);
}

/* A function that could not be hooked must not look like one that was never called. */
Test(report, not_hooked)
{
	struct timeline timeline = *sample_timeline();
	struct function_entry functions[5];
	char *text;

	memcpy(functions, timeline.functions, sizeof(functions));
	functions[3].info.not_hooked = NOT_HOOKED_SITE;
	timeline.functions = functions;
	text = written(report_text, &timeline, NULL, NULL);
	cr_expect_null(strstr(text, "\nidle, \"never\" called  hooked"), "%s", text);
	cr_expect_not_null(
		strstr(text,
		       "\nNot hooked: idle, \"never\" called: the kernel takes no probe there\n"),
		"%s", text);
	free(text);
	functions[3].info.not_hooked = NOT_HOOKED_RETURNS;
	text = written(report_json, &timeline, NULL, NULL);
	cr_expect_null(strstr(
		text, "{\"name\":\"idle, \\\"never\\\" called\",\"module\":\"demo\",\"kind\""));
	cr_expect_not_null(
		strstr(text,
		       "\"not_hooked\":[\n{\"name\":\"idle, \\\"never\\\" called\",\"module\":\"demo\","
		       "\"reason\":\"where it returns cannot be told\"}],\n"),
		"%s", text);
	free(text);
}

Test(report, many_losses_are_summed_up)
{
	struct timeline timeline = *sample_timeline();
	struct loss_event losses[30];
	char *text;

	for (size_t i = 0; i < 30; i++)
		losses[i] = (struct loss_event){.first_ns = i, .count = 3, .place = LOSS_HANDOFF};
	timeline.losses = losses;
	timeline.loss_count = 30;
	text = written(report_text, &timeline, NULL, NULL);
	cr_assert_not_null(strstr(text, "and 10 more losses of 30 events\n"));
	cr_assert_not_null(strstr(text, "-0.000900 s"), "before the capture's start:\n%s", text);
	free(text);
}

Test(report, closing_line)
{
	struct accounting_total total = sample_timeline()->accounting;
	char line[1024], small[16];

	accounting_line(&total, line, sizeof(line));
	cr_assert_str_eq(
		line,
		"11 calls; 0 duplicate entries, 1 entries with no return discarded, 0 returns with no entry "
		"dropped, 2 lost in the ring, 1 too deep, 1 unfinished, 1 unwound, 1 entries alone; 6 manual events, 12 lost; balanced");
	/* Every term, as large as it gets, and a reason of two lines. */
	memset(&total, 0xff, sizeof(total.sum));
	total.in_file = total.recursion_misses = total.segment_delivered = total.segment_lost =
		UINT64_MAX;
	total.segment_written_off = total.segment_holes = total.manual_orphans = UINT64_MAX;
	total.balanced = false;
	strcpy(total.imbalance, "two\nlines");
	accounting_line(&total, line, sizeof(line));
	cr_assert_null(strchr(line, '\n'));
	cr_assert_not_null(strstr(line, "; NOT BALANCED: two\\nlines"));
	accounting_line(&total, small, sizeof(small));
	cr_assert_eq(strlen(small), sizeof(small) - 1, "cut where the buffer ends");
	accounting_line(&total, NULL, 0);
}

Test(report, full_disk_is_reported)
{
	static const struct sink_options options;
	FILE *full = fopen("/dev/full", "w");

	cr_assert_eq(report_text(sample_timeline(), full, &options), -ENOSPC);
	cr_assert_eq(report_json(sample_timeline(), full, &options), -ENOSPC);
	fclose(full);
}

Test(report, formats)
{
	cr_assert_str_eq(sink_find("perfetto")->name, "perfetto");
	cr_assert_str_eq(sink_find("csv")->extension, ".csv");
	cr_assert_null(sink_find("chrome"));
	cr_assert_null(sink_find(""));
}
