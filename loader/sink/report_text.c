// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "sink/cell.h"
#include "sink/output.h"
#include "sink/report.h"
#include "sink/table.h"
#include "sink/words.h"

#define LOSSES_SHOWN 20

static const struct table_column function_columns[] = {
	{"NAME", false}, {"KIND", false}, {"CALLS", true}, {"TOTAL", true}, {"SELF", true},    {"MEAN", true},
	{"P50", true},	 {"P90", true},	  {"P99", true},   {"MAX", true},   {"MODULE", false},
};

/* The same, for a capture in which some call never ended: the times of such calls are only known to be at
 * least so long. */
static const struct table_column unfinished_columns[] = {
	{"NAME", false}, {"KIND", false}, {"CALLS", true}, {"UNFINISHED", true},
	{"TOTAL", true}, {"SELF", true},  {"MEAN", true},  {"P50", true},
	{"P90", true},	 {"P99", true},	  {"MAX", true},   {"MODULE", false},
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

static int add_function(struct table *table, const struct timeline *timeline,
			const struct function_statistics *function, enum time_unit unit,
			bool shows_unfinished)
{
	const uint64_t sums[] = {function->total_ns, function->self_ns};
	const uint64_t finished[] = {function->mean_ns, function->p50_ns, function->p90_ns, function->p99_ns,
				     function->max_ns};
	int err = cell_name(table, timeline->names[function->name]);

	if (!err)
		err = table_cell(table, "%s", words_kind(function->kind));
	if (!err)
		err = table_cell(table, "%" PRIu64, function->calls);
	if (!err && shows_unfinished)
		err = table_cell(table, "%" PRIu64, function->unfinished);
	for (size_t i = 0; i < COLUMNS(sums) && !err; i++)
		err = function->calls ? cell_time(table, sums[i], unit) : table_cell(table, "-");
	for (size_t i = 0; i < COLUMNS(finished) && !err; i++) {
		bool known = function->calls > function->unfinished;

		err = known ? cell_time(table, finished[i], unit) : table_cell(table, "-");
	}
	return err ? err : cell_name(table, timeline->names[function->module]);
}

static int print_functions(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct function_statistics *functions;
	struct table *table;
	bool unfinished = false;
	size_t count;
	int err = report_functions(timeline, options->sort, &functions, &count);

	if (err)
		return err;
	for (size_t i = 0; i < count; i++)
		unfinished = unfinished || functions[i].unfinished;
	table = unfinished ? table_create(unfinished_columns, COLUMNS(unfinished_columns))
			   : table_create(function_columns, COLUMNS(function_columns));
	err = table ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && !err; i++)
		err = add_function(table, timeline, &functions[i], options->unit, unfinished);
	if (!err && count)
		table_print(table, out, REPORT_WIDEST_NAME, options->colour);
	else if (!err)
		fputs("no scopes\n", out);
	table_destroy(table);
	free(functions);
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
	return lane->scope_count ? table_cell(table, "%" PRIu32, lane->max_depth) : table_cell(table, "-");
}

static int print_threads(const struct timeline *timeline, FILE *out, const struct sink_options *options)
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
static int add_loss(struct table *table, const struct timeline *timeline, const struct loss_event *loss)
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

static int print_losses(const struct timeline *timeline, FILE *out, const struct sink_options *options)
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

static void print_end(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	const struct accounting_total *total = &timeline->accounting;
	bool red = options->colour && !total->balanced;
	char line[1024];

	putc('\n', out);
	if (timeline->truncated)
		fprintf(out,
			"The file was cut short: it is read up to its last whole chunk, at byte %" PRIu64
			".\n",
			timeline->truncated_at);
	accounting_line(total, line, sizeof(line));
	fprintf(out, "%s%s%s\n", red ? "\033[1;31m" : "", line, red ? "\033[0m" : "");
}

int report_text(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	int err;

	errno = 0;
	err = print_functions(timeline, out, options);
	if (!err)
		err = print_threads(timeline, out, options);
	if (!err)
		err = report_marks_text(timeline, out, options);
	if (!err)
		err = print_losses(timeline, out, options);
	if (err)
		return err;
	print_end(timeline, out, options);
	return output_result(out);
}
