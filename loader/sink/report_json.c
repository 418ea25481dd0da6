// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/accounting.h"
#include "sink/escape.h"
#include "sink/output.h"
#include "sink/report.h"
#include "sink/words.h"

static void put_member(FILE *out, const char *key, uint64_t value)
{
	fprintf(out, ",\"%s\":%" PRIu64, key, value);
}

/* The terms of a hooked function; `unfinished` is there already, from the scopes themselves. */
static void put_function_accounting(FILE *out, const struct function_entry *entry)
{
	for (const struct accounting_term *term = accounting_terms; term->name; term++) {
		if (strcmp(term->name, "unfinished") != 0)
			put_member(out, term->name, accounting_value(&entry->accounting, term));
	}
	put_member(out, "in_file", entry->in_file);
}

static void put_function(const struct timeline *timeline, FILE *out,
			 const struct function_statistics *function)
{
	fputs("{\"name\":", out);
	escape_json(out, timeline->names[function->name]);
	fputs(",\"module\":", out);
	escape_json(out, timeline->names[function->module]);
	fprintf(out, ",\"kind\":\"%s\"", words_kind(function->kind));
	put_member(out, "calls", function->calls);
	put_member(out, "unfinished", function->unfinished);
	put_member(out, "total_ns", function->total_ns);
	put_member(out, "self_ns", function->self_ns);
	put_member(out, "min_ns", function->min_ns);
	put_member(out, "mean_ns", function->mean_ns);
	put_member(out, "p50_ns", function->p50_ns);
	put_member(out, "p90_ns", function->p90_ns);
	put_member(out, "p99_ns", function->p99_ns);
	put_member(out, "max_ns", function->max_ns);
	if (function->function < timeline->function_count &&
	    timeline->functions[function->function].accounted)
		put_function_accounting(out, &timeline->functions[function->function]);
	putc('}', out);
}

static void put_thread(const struct timeline *timeline, FILE *out, const struct lane *lane)
{
	fprintf(out, "{\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":", lane->pid, lane->tid);
	escape_json(out, timeline->names[lane->name]);
	put_member(out, "scopes", lane->scope_count);
	put_member(out, "max_depth", lane->scope_count ? lane->max_depth : 0);
	putc('}', out);
}

void report_accounting_json(const struct accounting_total *total, FILE *out)
{
	char separator = '{';

	for (const struct accounting_term *term = accounting_terms; term->name; term++) {
		fprintf(out, "%c\"%s\":%" PRIu64, separator, term->name, accounting_value(&total->sum, term));
		separator = ',';
	}
	put_member(out, "in_file", total->in_file);
	put_member(out, "segment_lost", total->segment_lost);
	put_member(out, "written_off", total->segment_written_off);
	put_member(out, "recursion_misses", total->recursion_misses);
	put_member(out, "segment_delivered", total->segment_delivered);
	put_member(out, "segment_holes", total->segment_holes);
	fprintf(out, ",\"balanced\":%s}", total->balanced ? "true" : "false");
}

int report_json(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct function_statistics *functions;
	size_t count;
	int err = report_functions(timeline, options->sort, &functions, &count);

	if (err)
		return err;
	errno = 0;
	fputs("{\"functions\":[", out);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_function(timeline, out, &functions[i]);
	}
	fputs("],\n\"threads\":[", out);
	for (size_t i = 0; i < timeline->lane_count; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_thread(timeline, out, &timeline->lanes[i]);
	}
	fputs("],\n", out);
	err = report_marks_json(timeline, out);
	fputs("\"accounting\":", out);
	report_accounting_json(&timeline->accounting, out);
	fputs("}\n", out);
	if (!err)
		err = output_result(out);
	free(functions);
	return err;
}
