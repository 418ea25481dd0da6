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

/* Terms that each function has already, from the scopes themselves. */
static bool is_told(const char *term)
{
	return strcmp(term, "unfinished") == 0 || strcmp(term, "unwound") == 0 ||
	       strcmp(term, "instants") == 0;
}

/* The other terms of a hooked function. */
static void put_function_accounting(FILE *out, const struct function_entry *entry)
{
	for (const struct accounting_term *term = accounting_terms; term->name; term++) {
		if (!is_told(term->name))
			put_member(out, term->name, accounting_value(&entry->accounting, term));
	}
	put_member(out, "in_file", entry->in_file.completed);
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
	put_member(out, "unwound", function->unwound);
	put_member(out, "instants", function->instants);
	put_member(out, "total_ns", function->total_ns);
	put_member(out, "self_ns", function->self_ns);
	put_member(out, "min_ns", function->min_ns);
	put_member(out, "mean_ns", function->mean_ns);
	put_member(out, "p50_ns", function->p50_ns);
	put_member(out, "p90_ns", function->p90_ns);
	put_member(out, "p99_ns", function->p99_ns);
	put_member(out, "max_ns", function->max_ns);
	fprintf(out, ",\"exact\":%s", function->exact ? "true" : "false");
	if (function->function < timeline->function_count &&
	    timeline->functions[function->function].accounted)
		put_function_accounting(out, &timeline->functions[function->function]);
	putc('}', out);
}

/* What was asked for and is not hooked: nothing is known of its calls. */
static void put_not_hooked(const struct timeline *timeline, FILE *out)
{
	const char *separator = "";

	fputs("\"not_hooked\":[", out);
	for (size_t i = 0; i < timeline->function_count; i++) {
		const struct function_info *function = &timeline->functions[i].info;

		if (!function->not_hooked)
			continue;
		fprintf(out, "%s\n{\"name\":", separator);
		separator = ",";
		escape_json(out, timeline->names[function->name]);
		fputs(",\"module\":", out);
		escape_json(out, timeline->names[function->module]);
		fprintf(out, ",\"reason\":\"%s\"}", words_not_hooked(function->not_hooked));
	}
	fputs("],\n", out);
}

/* Earlier names and the last one, where a thread had several. */
static void put_names(const struct timeline *timeline, FILE *out, const struct lane *lane)
{
	if (lane->name_count < 2)
		return;
	fputs(",\"names\":[", out);
	for (size_t i = 0; i < lane->name_count; i++) {
		fprintf(out, "%s{\"time_ns\":%" PRIu64 ",\"name\":", i ? "," : "",
			lane->names[i].time_ns);
		escape_json(out, timeline->names[lane->names[i].name]);
		putc('}', out);
	}
	putc(']', out);
}

static void put_thread(const struct timeline *timeline, FILE *out, const struct lane *lane)
{
	fprintf(out, "{\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"name\":", lane->pid, lane->tid);
	escape_json(out, timeline->names[lane->name]);
	put_member(out, "scopes", lane->scope_count);
	put_member(out, "max_depth", lane->scope_count ? lane->max_depth : 0);
	put_names(timeline, out, lane);
	putc('}', out);
}

/* What the process was, one after another, where it changed: changes [first, end). */
static void put_changes(const struct timeline *timeline, FILE *out, size_t first, size_t end)
{
	if (end - first < 2)
		return;
	fputs(",\"names\":[", out);
	for (size_t i = first; i < end; i++) {
		const struct process_change *change = &timeline->process_changes[i];

		fprintf(out, "%s{\"time_ns\":%" PRIu64 ",\"name\":", i > first ? "," : "",
			change->time_ns);
		escape_json(out, timeline->names[change->name]);
		fputs(",\"command\":", out);
		escape_json(out, timeline->names[change->command]);
		putc('}', out);
	}
	putc(']', out);
}

static void put_processes(const struct timeline *timeline, FILE *out)
{
	size_t change = 0;

	fputs("\"processes\":[", out);
	for (size_t i = 0; i < timeline->process_count; i++) {
		const struct process_info *process = &timeline->processes[i];
		size_t first = change;

		while (change < timeline->process_change_count &&
		       timeline->process_changes[change].process == i)
			change++;
		fprintf(out,
			"%s\n{\"pid\":%" PRIu32 ",\"parent\":%" PRIu32 ",\"start_ns\":%" PRIu64
			",\"name\":",
			i ? "," : "", process->pid, process->parent, process->start_ns);
		escape_json(out, timeline->names[process->name]);
		fputs(",\"command\":", out);
		escape_json(out, timeline->names[process->command]);
		put_changes(timeline, out, first, change);
		putc('}', out);
	}
	fputs("],\n", out);
}

static void put_losses(const struct timeline *timeline, FILE *out)
{
	char place[128];

	fputs("\"losses\":[", out);
	for (size_t i = 0; i < timeline->loss_count; i++) {
		const struct loss_event *loss = &timeline->losses[i];

		fprintf(out, "%s\n{\"first_ns\":%" PRIu64, i ? "," : "", loss->first_ns);
		put_member(out, "last_ns", loss->last_ns);
		put_member(out, "count", loss->count);
		put_member(out, "pid", loss->pid);
		fputs(",\"place\":", out);
		words_loss(loss, place, sizeof(place));
		escape_json(out, place);
		putc('}', out);
	}
	fputs("],\n", out);
}

void report_accounting_json(const struct accounting_total *total, FILE *out)
{
	char separator = '{';

	for (const struct accounting_term *term = accounting_terms; term->name; term++) {
		fprintf(out, "%c\"%s\":%" PRIu64, separator, term->name,
			accounting_value(&total->sum, term));
		separator = ',';
	}
	put_member(out, "in_file", total->in_file);
	put_member(out, "segment_lost", total->segment_lost);
	put_member(out, "segment_handoff_lost", total->segment_handoff_lost);
	put_member(out, "segment_expired", total->segment_expired);
	put_member(out, "written_off", total->segment_written_off);
	put_member(out, "recursion_misses", total->recursion_misses);
	put_member(out, "segment_delivered", total->segment_delivered);
	put_member(out, "segment_holes", total->segment_holes);
	fprintf(out, ",\"balanced\":%s}", total->balanced ? "true" : "false");
}

static int put_all(const struct timeline *timeline, const struct timeline_summary *summary,
		   FILE *out)
{
	int err;

	errno = 0;
	fputs("{\"functions\":[", out);
	for (size_t i = 0; i < summary->function_count; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_function(timeline, out, &summary->functions[i]);
	}
	fputs("],\n", out);
	put_not_hooked(timeline, out);
	fputs("\"threads\":[", out);
	for (size_t i = 0; i < timeline->lane_count; i++) {
		fputs(i ? ",\n" : "\n", out);
		put_thread(timeline, out, &timeline->lanes[i]);
	}
	fputs("],\n", out);
	put_processes(timeline, out);
	put_losses(timeline, out);
	err = report_marks_json(timeline, summary, out);
	fputs("\"accounting\":", out);
	report_accounting_json(&timeline->accounting, out);
	fputs("}\n", out);
	return err ? err : output_result(out);
}

int report_json(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct timeline_summary summary;
	int err = timeline_summarise(timeline, &summary);

	if (err)
		return err;
	err = report_sort(timeline, options->sort, summary.functions, summary.function_count);
	if (!err)
		err = put_all(timeline, &summary, out);
	timeline_summary_clear(&summary);
	return err;
}
