// SPDX-License-Identifier: GPL-2.0-or-later
#include "sink/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "sink/escape.h"
#include "sink/output.h"
#include "sink/spill.h"
#include "sink/words.h"

#define ROWS_FULL (256 * 1024) /* put out when so much is in the buffer */
#define ROW_MAX	  256	       /* of a row without its names */

/*
 * Lanes come in turns where the capture is large. The rows of one lane go straight to the output; those of
 * the lanes behind it wait in a spill until it is their turn.
 */
struct csv {
	const struct timeline *timeline;
	FILE *out;
	bool terminal;
	char **fields; /* of each name: escaped when it is first needed */
	char *rows;
	size_t used, capacity;
	size_t turn;	/* the lane that goes straight to the output */
	bool *complete; /* of each lane: all of its parts have come */
	struct spill *spill;
};

/* ---- rows ---- */

static const char *field_of(struct csv *csv, uint32_t name)
{
	char **field = &csv->fields[name];
	size_t length;
	FILE *text;

	if (*field)
		return *field;
	text = open_memstream(field, &length);
	if (!text)
		return NULL;
	escape_csv(text, csv->timeline->names[name], csv->terminal);
	if (fclose(text)) {
		free(*field);
		*field = NULL;
	}
	return *field;
}

static char *put_number(char *at, uint64_t value, char behind)
{
	char digits[20];
	size_t count = 0;

	do {
		digits[count++] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	while (count)
		*at++ = digits[--count];
	*at++ = behind;
	return at;
}

static int add_row(struct csv *csv, const struct lane *lane, const struct scope *scope)
{
	const char *name = field_of(csv, scope->name), *module = field_of(csv, scope->module);
	char flags[WORDS_FLAGS_SIZE], *at;

	if (!name || !module ||
	    vec_reserve((void **)&csv->rows, &csv->capacity,
			csv->used + ROW_MAX + strlen(name) + strlen(module), 1))
		return -ENOMEM;
	at = csv->rows + csv->used;
	at = put_number(at, scope->start_ns, ',');
	at = put_number(at, scope->end_ns, ',');
	at = put_number(at, lane->pid, ',');
	at = put_number(at, lane->tid, ',');
	at = put_number(at, scope->depth, ',');
	at = stpcpy(at, words_kind(scope->kind));
	*at++ = ',';
	at = stpcpy(at, name);
	*at++ = ',';
	at = stpcpy(at, module);
	*at++ = ',';
	if (scope->flags)
		at = stpcpy(at, words_flags(scope->flags, flags));
	*at++ = '\n';
	csv->used = (size_t)(at - csv->rows);
	return 0;
}

/* ---- whose turn it is ---- */

static int put_rows(struct csv *csv, size_t lane)
{
	size_t used = csv->used;

	csv->used = 0;
	if (!used)
		return 0;
	if (lane != csv->turn) {
		if (!csv->spill)
			csv->spill = spill_create(csv->timeline->lane_count);
		return csv->spill ? spill_add(csv->spill, lane, csv->rows, used) : -errno;
	}
	if (fwrite(csv->rows, 1, used, csv->out) != used)
		return errno ? -errno : -EIO;
	return 0;
}

/* The lane is complete: it is the next one's turn, whose rows so far come out. */
static int next_turn(struct csv *csv)
{
	int err = 0;

	while (!err && csv->turn < csv->timeline->lane_count && csv->complete[csv->turn]) {
		csv->turn++;
		if (csv->spill && csv->turn < csv->timeline->lane_count)
			err = spill_put(csv->spill, csv->turn, csv->out);
	}
	return err;
}

static int add_part(void *context, const struct lane_part *part)
{
	struct csv *csv = context;
	size_t lane = (size_t)(part->lane - csv->timeline->lanes);
	int err = 0;

	for (size_t i = 0; i < part->scope_count && !err; i++) {
		err = add_row(csv, part->lane, &part->scopes[i]);
		if (!err && csv->used >= ROWS_FULL)
			err = put_rows(csv, lane);
	}
	if (!err)
		err = put_rows(csv, lane);
	if (!err && part->last) {
		csv->complete[lane] = true;
		err = next_turn(csv);
	}
	return err;
}

int csv_write(const struct timeline *timeline, FILE *out, const struct sink_options *options)
{
	struct csv csv = {.timeline = timeline, .out = out, .terminal = isatty(fileno(out))};
	int err = -ENOMEM;

	(void)options;
	csv.fields = calloc(timeline->name_count + 1, sizeof(*csv.fields));
	csv.complete = calloc(timeline->lane_count + 1, sizeof(*csv.complete));
	errno = 0;
	fputs("start_ns,end_ns,pid,tid,depth,kind,name,module,flags\n", out);
	if (csv.fields && csv.complete)
		err = timeline_visit(timeline, add_part, &csv);
	for (size_t i = 0; csv.fields && i < timeline->name_count; i++)
		free(csv.fields[i]);
	free(csv.fields);
	free(csv.complete);
	free(csv.rows);
	spill_destroy(csv.spill);
	return err ? err : output_result(out);
}
