// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "sink/cell.h"
#include "sink/escape.h"
#include "sink/report.h"

#define COLUMNS(array) (sizeof(array) / sizeof((array)[0]))
#define FRAMES_SHOWN   10 /* of the worst of all */

static const struct table_column async_columns[] = {
	{"ASYNC", false}, {"PID", true}, {"CALLS", true}, {"UNFINISHED", true}, {"TOTAL", true},
	{"MEAN", true},	  {"P50", true}, {"P90", true},	  {"P99", true},	{"MAX", true},
};

static const struct table_column frame_columns[] = {
	{"FRAME", false}, {"PID", true}, {"TID", true}, {"FRAMES", true}, {"LOST", true},
	{"MEAN", true},	  {"P50", true}, {"P90", true}, {"P99", true},	  {"MAX", true},
};

static const struct table_column worst_columns[] = {
	{"WORST FRAME", false}, {"TID", true}, {"NUMBER", true}, {"TIME", true}, {"TOOK", true},
};

static const struct table_column number_columns[] = {
	{"MARK", false}, {"KIND", false}, {"PID", true},  {"COUNT", true},     {"MIN", true},
	{"MEAN", true},	 {"MAX", true},	  {"LAST", true}, {"OF SCOPE", false},
};

/* Prints the table under an empty line, if there is anything in it, and frees it. */
static int finish_table(struct table *table, FILE *out, const struct sink_options *options, int err,
			size_t rows)
{
	if (!err && rows) {
		putc('\n', out);
		table_print(table, out, REPORT_WIDEST_NAME, options->colour);
	}
	table_destroy(table);
	return err;
}

/* Mean, percentiles, maximum. */
static int cell_durations(struct table *table, const struct duration_statistics *durations,
			  enum time_unit unit)
{
	const uint64_t values[] = {durations->mean_ns, durations->p50_ns, durations->p90_ns,
				   durations->p99_ns, durations->max_ns};
	int err = 0;

	for (size_t i = 0; i < COLUMNS(values) && !err; i++)
		err = durations->count ? cell_time(table, values[i], unit) : table_cell(table, "-");
	return err;
}

static int text_asyncs(const struct timeline *timeline, FILE *out,
		       const struct sink_options *options)
{
	struct async_statistics *asyncs;
	struct table *table;
	size_t count;
	int err = timeline_asyncs(timeline, &asyncs, &count);

	if (err)
		return err;
	table = table_create(async_columns, COLUMNS(async_columns));
	err = table ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && !err; i++) {
		const struct async_statistics *one = &asyncs[i];

		err = cell_name(table, timeline->names[one->name]);
		if (!err)
			err = table_cell(table, "%" PRIu32, one->pid);
		if (!err)
			err = table_cell(table, "%" PRIu64, one->finished.count + one->unfinished);
		if (!err)
			err = table_cell(table, "%" PRIu64, one->unfinished);
		if (!err)
			err = cell_time(table, one->finished.total_ns, options->unit);
		if (!err)
			err = cell_durations(table, &one->finished, options->unit);
	}
	free(asyncs);
	return finish_table(table, out, options, err, count);
}

static int add_frames(struct table *table, const struct timeline *timeline,
		      const struct frame_statistics *one, enum time_unit unit)
{
	const struct lane *lane = &timeline->lanes[one->lane];
	int err = cell_name(table, timeline->names[one->name]);

	if (!err)
		err = table_cell(table, "%" PRIu32, lane->pid);
	if (!err)
		err = table_cell(table, "%" PRIu32, lane->tid);
	if (!err)
		err = table_cell(table, "%" PRIu64, one->frames.count);
	if (!err)
		err = table_cell(table, "%" PRIu64, one->lost);
	return err ? err : cell_durations(table, &one->frames, unit);
}

struct worst {
	const struct frame_statistics *of;
	const struct frame *frame;
};

static int longest_first(const void *a, const void *b)
{
	const struct frame *x = ((const struct worst *)a)->frame,
			   *y = ((const struct worst *)b)->frame;
	uint64_t x_ns = x->end_ns - x->start_ns, y_ns = y->end_ns - y->start_ns;

	if (x_ns != y_ns)
		return x_ns > y_ns ? -1 : 1;
	return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Its time counts from the start of the capture. */
static int add_worst(struct table *table, const struct timeline *timeline,
		     const struct worst *worst, enum time_unit unit)
{
	const struct frame *frame = worst->frame;
	int err = cell_name(table, timeline->names[worst->of->name]);

	if (!err)
		err = table_cell(table, "%" PRIu32, timeline->lanes[worst->of->lane].tid);
	if (!err)
		err = table_cell(table, "%" PRIu64, frame->number);
	if (!err)
		err = table_cell(table, "+%.6f s",
				 (double)(frame->start_ns - timeline->start_ns) / 1e9);
	return err ? err : cell_time(table, frame->end_ns - frame->start_ns, unit);
}

static int text_worst(const struct timeline *timeline, FILE *out,
		      const struct sink_options *options, const struct frame_statistics *frames,
		      size_t count)
{
	struct worst *worst = calloc(count * FRAMES_WORST + 1, sizeof(*worst));
	struct table *table = table_create(worst_columns, COLUMNS(worst_columns));
	size_t rows = 0;
	int err = worst && table ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++)
		for (size_t j = 0; j < frames[i].worst_count; j++)
			worst[rows++] = (struct worst){&frames[i], &frames[i].worst[j]};
	if (!err)
		qsort(worst, rows, sizeof(*worst), longest_first);
	rows = rows < FRAMES_SHOWN ? rows : FRAMES_SHOWN;
	for (size_t i = 0; i < rows && !err; i++)
		err = add_worst(table, timeline, &worst[i], options->unit);
	free(worst);
	return finish_table(table, out, options, err, rows);
}

static int text_frames(const struct timeline *timeline, const struct timeline_summary *summary,
		       FILE *out, const struct sink_options *options)
{
	struct table *table = table_create(frame_columns, COLUMNS(frame_columns));
	int err = table ? 0 : -ENOMEM;

	for (size_t i = 0; i < summary->frame_count && !err; i++)
		err = add_frames(table, timeline, &summary->frames[i], options->unit);
	err = finish_table(table, out, options, err, summary->frame_count);
	return err ? err
		   : text_worst(timeline, out, options, summary->frames, summary->frame_count);
}

static const char *kind_of(const struct number_statistics *one)
{
	return one->kind == MANUAL_INSTANT    ? "instant"
	       : one->kind == MANUAL_ARGUMENT ? "argument"
					      : "counter";
}

static int cell_number(struct table *table, const struct number_statistics *one, int64_t integer,
		       double real)
{
	if (one->kind == MANUAL_INSTANT)
		return table_cell(table, "-");
	return one->is_floating ? table_cell(table, "%.6g", real)
				: table_cell(table, "%" PRId64, integer);
}

static int add_number(struct table *table, const struct timeline *timeline,
		      const struct number_statistics *one)
{
	int err = cell_name(table, timeline->names[one->name]);

	if (!err)
		err = table_cell(table, "%s", kind_of(one));
	if (!err)
		err = table_cell(table, "%" PRIu32, one->pid);
	if (!err)
		err = table_cell(table, "%" PRIu64, one->samples);
	if (!err)
		err = cell_number(table, one, one->min_integer, one->min);
	if (!err)
		err = one->kind == MANUAL_INSTANT ? table_cell(table, "-")
						  : table_cell(table, "%.6g", one->mean);
	if (!err)
		err = cell_number(table, one, one->max_integer, one->max);
	if (!err)
		err = cell_number(table, one, one->last_integer, one->last);
	return err ? err : cell_name(table, timeline->names[one->scope]);
}

static int text_numbers(const struct timeline *timeline, const struct timeline_summary *summary,
			FILE *out, const struct sink_options *options)
{
	struct table *table = table_create(number_columns, COLUMNS(number_columns));
	int err = table ? 0 : -ENOMEM;

	for (size_t i = 0; i < summary->number_count && !err; i++)
		err = add_number(table, timeline, &summary->numbers[i]);
	return finish_table(table, out, options, err, summary->number_count);
}

int report_marks_text(const struct timeline *timeline, const struct timeline_summary *summary,
		      FILE *out, const struct sink_options *options)
{
	int err = text_frames(timeline, summary, out, options);

	if (!err)
		err = text_asyncs(timeline, out, options);
	return err ? err : text_numbers(timeline, summary, out, options);
}

/* ---- JSON ---- */

static void put_name(FILE *out, const struct timeline *timeline, const char *key, uint32_t name)
{
	fprintf(out, "\"%s\":", key);
	escape_json(out, timeline->names[name]);
}

static void put_durations(FILE *out, const struct duration_statistics *durations)
{
	fprintf(out,
		",\"total_ns\":%" PRIu64 ",\"min_ns\":%" PRIu64 ",\"mean_ns\":%" PRIu64
		",\"p50_ns\":%" PRIu64 ",\"p90_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64
		",\"max_ns\":%" PRIu64 ",\"exact\":%s",
		durations->total_ns, durations->min_ns, durations->mean_ns, durations->p50_ns,
		durations->p90_ns, durations->p99_ns, durations->max_ns,
		durations->exact ? "true" : "false");
}

static int json_asyncs(const struct timeline *timeline, FILE *out)
{
	struct async_statistics *asyncs;
	size_t count;
	int err = timeline_asyncs(timeline, &asyncs, &count);

	if (err)
		return err;
	fputs("\"asyncs\":[", out);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n{" : "\n{", out);
		put_name(out, timeline, "name", asyncs[i].name);
		fprintf(out, ",\"pid\":%" PRIu32 ",\"calls\":%" PRIu64 ",\"unfinished\":%" PRIu64,
			asyncs[i].pid, asyncs[i].finished.count + asyncs[i].unfinished,
			asyncs[i].unfinished);
		put_durations(out, &asyncs[i].finished);
		putc('}', out);
	}
	fprintf(out, "],\n\"async_orphans\":%" PRIu64 ",\n", timeline->async_orphans);
	free(asyncs);
	return 0;
}

static void put_worst(FILE *out, const struct frame_statistics *frames)
{
	fputs(",\"worst\":[", out);
	for (size_t i = 0; i < frames->worst_count; i++) {
		const struct frame *frame = &frames->worst[i];

		fprintf(out,
			"%s{\"number\":%" PRIu64 ",\"start_ns\":%" PRIu64
			",\"duration_ns\":%" PRIu64 "}",
			i ? "," : "", frame->number, frame->start_ns,
			frame->end_ns - frame->start_ns);
	}
	fputs("]}", out);
}

static void json_frames(const struct timeline *timeline, const struct timeline_summary *summary,
			FILE *out)
{
	fputs("\"frames\":[", out);
	for (size_t i = 0; i < summary->frame_count; i++) {
		const struct frame_statistics *one = &summary->frames[i];
		const struct lane *lane = &timeline->lanes[one->lane];

		fputs(i ? ",\n{" : "\n{", out);
		put_name(out, timeline, "name", one->name);
		fprintf(out,
			",\"pid\":%" PRIu32 ",\"tid\":%" PRIu32 ",\"marks\":%" PRIu64
			",\"frames\":%" PRIu64 ",\"lost\":%" PRIu64,
			lane->pid, lane->tid, one->marks, one->frames.count, one->lost);
		put_durations(out, &one->frames);
		put_worst(out, one);
	}
	fputs("],\n", out);
}

/* JSON has no word for infinity or what is not a number. */
static void put_real(FILE *out, const char *key, double value)
{
	if (isfinite(value))
		fprintf(out, ",\"%s\":%.17g", key, value);
	else
		fprintf(out, ",\"%s\":null", key);
}

static void put_values(FILE *out, const struct number_statistics *one)
{
	if (one->is_floating) {
		put_real(out, "min", one->min);
		put_real(out, "max", one->max);
		put_real(out, "last", one->last);
	} else {
		fprintf(out, ",\"min\":%" PRId64 ",\"max\":%" PRId64 ",\"last\":%" PRId64,
			one->min_integer, one->max_integer, one->last_integer);
	}
	put_real(out, "mean", one->mean);
}

static void put_numbers(const struct timeline *timeline, FILE *out, const char *member,
			uint8_t kind, const struct number_statistics *numbers, size_t count)
{
	bool first = true;

	fprintf(out, "\"%s\":[", member);
	for (size_t i = 0; i < count; i++) {
		if (numbers[i].kind != kind)
			continue;
		fputs(first ? "\n{" : ",\n{", out);
		first = false;
		put_name(out, timeline, "name", numbers[i].name);
		if (kind == MANUAL_ARGUMENT) {
			putc(',', out);
			put_name(out, timeline, "scope", numbers[i].scope);
		}
		fprintf(out, ",\"pid\":%" PRIu32 ",\"count\":%" PRIu64, numbers[i].pid,
			numbers[i].samples);
		if (kind != MANUAL_INSTANT)
			put_values(out, &numbers[i]);
		putc('}', out);
	}
	fputs("],\n", out);
}

int report_marks_json(const struct timeline *timeline, const struct timeline_summary *summary,
		      FILE *out)
{
	int err;

	json_frames(timeline, summary, out);
	err = json_asyncs(timeline, out);
	put_numbers(timeline, out, "counters", MANUAL_COUNTER_INT, summary->numbers,
		    summary->number_count);
	put_numbers(timeline, out, "arguments", MANUAL_ARGUMENT, summary->numbers,
		    summary->number_count);
	put_numbers(timeline, out, "instants", MANUAL_INSTANT, summary->numbers,
		    summary->number_count);
	return err;
}
