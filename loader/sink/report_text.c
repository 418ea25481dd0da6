// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sink/cell.h"
#include "sink/escape.h"
#include "sink/output.h"
#include "sink/report.h"
#include "sink/table.h"
#include "sink/words.h"

#define LOSSES_SHOWN 20
#define NAMES_SHOWN  20

static const struct table_column name_columns[] = {
	{"NAME", false}, {"KIND", false}, {"CALLS", true}};

/* Shown where a capture has such calls. */
static const struct table_column unfinished_column = {"UNFINISHED", true};
static const struct table_column unwound_column = {"UNWOUND", true};

static const struct table_column time_columns[] = {
	{"TOTAL", true}, {"SELF", true}, {"MEAN", true}, {"P50", true},
	{"P90", true},	 {"P99", true},	 {"MAX", true},	 {"MODULE", false},
};

static const struct table_column thread_columns[] = {
	{"PID", true}, {"TID", true}, {"NAME", false}, {"SCOPES", true}, {"MAX DEPTH", true},
};

static const struct table_column loss_columns[] = {
	{"TIME", true},
	{"LOST", true},
	{"PID", true},
	{"WHERE", false},
};

#define COLUMNS(array) (sizeof(array) / sizeof((array)[0]))

/* The columns of a table of functions, and which it has of those that are not always there. */
struct function_columns {
	struct table_column columns[COLUMNS(name_columns) + 2 + COLUMNS(time_columns)];
	size_t count;
	bool unfinished;
	bool unwound;
};

static void choose_columns(struct function_columns *shown,
			   const struct function_statistics *functions, size_t count)
{
	memset(shown, 0, sizeof(*shown));
	for (size_t i = 0; i < count; i++) {
		shown->unfinished = shown->unfinished || functions[i].unfinished;
		shown->unwound = shown->unwound || functions[i].unwound;
	}
	memcpy(shown->columns, name_columns, sizeof(name_columns));
	shown->count = COLUMNS(name_columns);
	if (shown->unfinished)
		shown->columns[shown->count++] = unfinished_column;
	if (shown->unwound)
		shown->columns[shown->count++] = unwound_column;
	memcpy(&shown->columns[shown->count], time_columns, sizeof(time_columns));
	shown->count += COLUMNS(time_columns);
}

/*
 * The times of a call that did not end by itself are only known to be at least, or at most, so
 * long.
 */
static int add_times(struct table *table, const struct function_statistics *function,
		     enum time_unit unit)
{
	const uint64_t sums[] = {function->total_ns, function->self_ns};
	const uint64_t finished[] = {function->mean_ns, function->p50_ns, function->p90_ns,
				     function->p99_ns, function->max_ns};
	bool timed = function->calls > function->instants;
	bool known =
		function->calls > function->unfinished + function->unwound + function->instants;
	int err = 0;

	for (size_t i = 0; i < COLUMNS(sums) && !err; i++)
		err = timed ? cell_time(table, sums[i], unit) : table_cell(table, "-");
	for (size_t i = 0; i < COLUMNS(finished) && !err; i++)
		err = known ? cell_time(table, finished[i], unit) : table_cell(table, "-");
	return err;
}

static int add_function(struct table *table, const struct timeline *timeline,
			const struct function_statistics *function, enum time_unit unit,
			const struct function_columns *shown)
{
	int err = cell_name(table, timeline->names[function->name]);

	if (!err)
		err = table_cell(table, "%s", words_kind(function->kind));
	if (!err)
		err = table_cell(table, "%" PRIu64, function->calls);
	if (!err && shown->unfinished)
		err = table_cell(table, "%" PRIu64, function->unfinished);
	if (!err && shown->unwound)
		err = table_cell(table, "%" PRIu64, function->unwound);
	if (!err)
		err = add_times(table, function, unit);
	return err ? err : cell_name(table, timeline->names[function->module]);
}

static int print_functions(const struct timeline *timeline, const struct timeline_summary *summary,
			   FILE *out, const struct sink_options *options)
{
	struct function_columns shown;
	struct table *table;
	int err;

	choose_columns(&shown, summary->functions, summary->function_count);
	table = table_create(shown.columns, shown.count);
	err = table ? 0 : -ENOMEM;
	for (size_t i = 0; i < summary->function_count && !err; i++)
		err = add_function(table, timeline, &summary->functions[i], options->unit, &shown);
	if (!err && summary->function_count)
		table_print(table, out, REPORT_WIDEST_NAME, options->colour);
	else if (!err)
		fputs("no scopes\n", out);
	table_destroy(table);
	return err;
}

/* ---- lines of functions under their table ---- */

/* A list that has a beginning once there is something in it, and of which only so much is shown. */
struct name_list {
	FILE *out;
	const char *begin;
	size_t count;
};

/* Its name, and a number where there is one. */
static int list_add(struct name_list *list, const char *name, uint64_t number)
{
	char *shown;

	if (list->count++ >= NAMES_SHOWN)
		return 0;
	shown = escape_text(name);
	if (!shown)
		return -ENOMEM;
	fprintf(list->out, "%s%s", list->count == 1 ? list->begin : ", ", shown);
	if (number)
		fprintf(list->out, " %" PRIu64, number);
	free(shown);
	return 0;
}

static void list_end(struct name_list *list, const char *end)
{
	if (list->count > NAMES_SHOWN)
		fprintf(list->out, " and %zu more", list->count - NAMES_SHOWN);
	if (list->count)
		fprintf(list->out, "%s\n", end);
}

static int print_too_deep(const struct timeline *timeline, FILE *out)
{
	struct name_list list = {out, "Too deep, so not in the table: ", 0};
	int err = 0;

	for (size_t i = 0; i < timeline->function_count && !err; i++) {
		const struct function_entry *entry = &timeline->functions[i];

		if (entry->accounting.too_deep)
			err = list_add(&list, timeline->names[entry->info.name],
				       entry->accounting.too_deep);
	}
	list_end(&list,
		 " (a thread can have 64 calls open with uretprobes, some 16,000 otherwise)");
	return err;
}

/* One line for each reason. */
static int print_not_hooked(const struct timeline *timeline, FILE *out)
{
	uint32_t why = 0, next;
	int err = 0;

	do {
		struct name_list list = {out, "Not hooked: ", 0};
		char end[128];

		next = UINT32_MAX;
		for (size_t i = 0; i < timeline->function_count && !err; i++) {
			const struct function_info *function = &timeline->functions[i].info;

			if (why && function->not_hooked == why)
				err = list_add(&list, timeline->names[function->name], 0);
			if (function->not_hooked > why && function->not_hooked < next)
				next = function->not_hooked;
		}
		snprintf(end, sizeof(end), ": %s", words_not_hooked(why));
		list_end(&list, end);
		why = next;
	} while (next != UINT32_MAX && !err);
	return err;
}

static int add_thread(struct table *table, const struct timeline *timeline, const struct lane *lane)
{
	int err = table_cell(table, "%" PRIu32, lane->pid);

	if (!err)
		err = table_cell(table, "%" PRIu32, lane->tid);
	if (!err)
		err = cell_name(table, timeline->names[lane->name]);
	if (!err)
		err = table_cell(table, "%zu", lane->scope_count);
	if (err)
		return err;
	return lane->scope_count ? table_cell(table, "%" PRIu32, lane->max_depth)
				 : table_cell(table, "-");
}

static int print_threads(const struct timeline *timeline, FILE *out,
			 const struct sink_options *options)
{
	struct table *table;
	int err = 0;

	if (!timeline->lane_count)
		return 0;
	table = table_create(thread_columns, COLUMNS(thread_columns));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < timeline->lane_count && !err; i++)
		err = add_thread(table, timeline, &timeline->lanes[i]);
	if (!err) {
		putc('\n', out);
		table_print(table, out, REPORT_WIDEST_NAME, options->colour);
	}
	table_destroy(table);
	return err;
}

/* Its time counts from the start of the capture, and may lie before it. */
static int add_loss(struct table *table, const struct timeline *timeline,
		    const struct loss_event *loss)
{
	double seconds = loss->first_ns >= timeline->start_ns
				 ? (double)(loss->first_ns - timeline->start_ns) / 1e9
				 : -(double)(timeline->start_ns - loss->first_ns) / 1e9;
	char place[64];
	int err = table_cell(table, "%+.6f s", seconds);

	if (!err)
		err = table_cell(table, "%" PRIu64, loss->count);
	if (!err)
		err = loss->pid ? table_cell(table, "%" PRIu32, loss->pid) : table_cell(table, "-");
	words_loss(loss, place, sizeof(place));
	return err ? err : table_cell(table, "%s", place);
}

static int print_losses(const struct timeline *timeline, FILE *out,
			const struct sink_options *options)
{
	size_t shown = timeline->loss_count < LOSSES_SHOWN ? timeline->loss_count : LOSSES_SHOWN;
	struct table *table;
	uint64_t rest = 0;
	int err = 0;

	if (!shown)
		return 0;
	table = table_create(loss_columns, COLUMNS(loss_columns));
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < shown && !err; i++)
		err = add_loss(table, timeline, &timeline->losses[i]);
	for (size_t i = shown; i < timeline->loss_count; i++)
		rest += timeline->losses[i].count;
	if (!err) {
		putc('\n', out);
		table_print(table, out, REPORT_WIDEST_NAME, options->colour);
		if (timeline->loss_count > shown)
			fprintf(out, "and %zu more losses of %" PRIu64 " events\n",
				timeline->loss_count - shown, rest);
	}
	table_destroy(table);
	return err;
}

static void print_end(const struct timeline *timeline, FILE *out,
		      const struct sink_options *options)
{
	const struct accounting_total *total = &timeline->accounting;
	bool red = options->colour && !total->balanced;
	char line[1024];

	putc('\n', out);
	if (timeline->truncated)
		fprintf(out,
			"The file was cut short: it is read up to its last whole chunk, at byte %" PRIu64
			"; %" PRIu64
			" bytes behind that are no whole chunk. What came later than %.6f s is missing.\n",
			timeline->truncated_at, timeline->truncated_rest,
			(double)(timeline->end_ns - timeline->start_ns) / 1e9);
	accounting_line(total, line, sizeof(line));
	fprintf(out, "%s%s%s\n", red ? "\033[1;31m" : "", line, red ? "\033[0m" : "");
}

static int print_all(const struct timeline *timeline, const struct timeline_summary *summary,
		     FILE *out, const struct sink_options *options)
{
	int err;

	errno = 0;
	err = print_functions(timeline, summary, out, options);
	if (!err)
		err = print_too_deep(timeline, out);
	if (!err)
		err = print_not_hooked(timeline, out);
	if (!err)
		err = print_threads(timeline, out, options);
	if (!err)
		err = report_marks_text(timeline, summary, out, options);
	if (!err)
		err = print_losses(timeline, out, options);
	if (err)
		return err;
	print_end(timeline, out, options);
	return output_result(out);
}

int report_text(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct timeline_summary summary;
	int err = timeline_summarise(timeline, &summary);

	if (err)
		return err;
	err = report_sort(timeline, options->sort, summary.functions, summary.function_count);
	if (!err)
		err = print_all(timeline, &summary, out, options);
	timeline_summary_clear(&summary);
	return err;
}
