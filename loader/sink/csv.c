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

#define ROWS_FULL  (256 * 1024) /* put out when so much is in the buffer */
#define ROW_MAX	   256		/* of a row without its names */
#define PACKED_MAX 40		/* of a scope that waits */

/*
 * Lanes come in turns where the capture is large. The rows of one lane go straight to the output;
 * the scopes of the lanes behind it wait in a spill until it is their turn, in some ten bytes each.
 */
struct csv {
	const struct timeline *timeline;
	FILE *out;
	bool terminal;
	char **fields; /* of each name: escaped when it is first needed */
	char *rows;    /* or scopes that are to wait */
	size_t used, capacity;
	size_t turn;	/* the lane that goes straight to the output */
	bool *complete; /* of each lane: all of its parts have come */
	/* of each lane: start of the last scope that waits, and of the last that came back */
	uint64_t *latest;
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

/* ---- scopes that wait ---- */

/* Seven bits a byte, the lowest first; the eighth is set in all but the last. */
static char *pack(char *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (char)(value | 0x80);
	*at++ = (char)value;
	return at;
}

static bool unpack(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
	*value = 0;
	for (unsigned int shift = 0; *at < end && shift < 64; shift += 7) {
		uint64_t bits = *(*at)++;

		*value |= (bits & 0x7f) << shift;
		if (!(bits & 0x80))
			return true;
	}
	return false;
}

static int add_packed(struct csv *csv, size_t lane, const struct scope *scope)
{
	char *at;

	if (vec_reserve((void **)&csv->rows, &csv->capacity, csv->used + PACKED_MAX, 1))
		return -ENOMEM;
	at = csv->rows + csv->used;
	at = pack(at, scope->start_ns - csv->latest[lane]);
	at = pack(at, scope->end_ns - scope->start_ns);
	at = pack(at, scope->name);
	at = pack(at, scope->module);
	at = pack(at, scope->depth);
	at = pack(at, (uint64_t)scope->flags << 2 | scope->kind);
	csv->latest[lane] = scope->start_ns;
	csv->used = (size_t)(at - csv->rows);
	return 0;
}

/* False: its end is not there yet. */
static bool unpack_scope(const unsigned char **at, const unsigned char *end, uint64_t latest,
			 struct scope *scope)
{
	uint64_t start, duration, name, module, depth, kind;

	if (!unpack(at, end, &start) || !unpack(at, end, &duration) || !unpack(at, end, &name) ||
	    !unpack(at, end, &module) || !unpack(at, end, &depth) || !unpack(at, end, &kind))
		return false;
	*scope = (struct scope){.start_ns = latest + start,
				.end_ns = latest + start + duration,
				.name = (uint32_t)name,
				.module = (uint32_t)module,
				.depth = (uint16_t)depth,
				.kind = kind & 3,
				.flags = (uint16_t)(kind >> 2)};
	return true;
}

/* ---- whose turn it is ---- */

static int put_rows(struct csv *csv)
{
	size_t used = csv->used;

	csv->used = 0;
	return fwrite(csv->rows, 1, used, csv->out) == used ? 0 : errno ? -errno : -EIO;
}

static int put_packed(struct csv *csv, size_t lane)
{
	size_t used = csv->used;

	csv->used = 0;
	if (!csv->spill)
		csv->spill = spill_create(csv->timeline->lane_count);
	return csv->spill ? spill_add(csv->spill, lane, csv->rows, used) : -errno;
}

static int put(struct csv *csv, size_t lane)
{
	if (!csv->used)
		return 0;
	return lane == csv->turn ? put_rows(csv) : put_packed(csv, lane);
}

/* The scopes that waited come out as rows, of the lane whose turn it is. */
static ssize_t take_packed(void *context, const unsigned char *bytes, size_t length)
{
	struct csv *csv = context;
	const unsigned char *at = bytes, *taken = bytes;
	uint64_t *latest = &csv->latest[csv->turn];
	struct scope scope;
	int err = 0;

	for (; !err && unpack_scope(&at, bytes + length, *latest, &scope); taken = at) {
		*latest = scope.start_ns;
		err = add_row(csv, &csv->timeline->lanes[csv->turn], &scope);
		if (!err && csv->used >= ROWS_FULL)
			err = put_rows(csv);
	}
	return err ? err : taken - bytes;
}

static int take_waiting(struct csv *csv)
{
	int err;

	csv->latest[csv->turn] = 0;
	err = spill_take(csv->spill, csv->turn, take_packed, csv);
	return err ? err : put(csv, csv->turn);
}

/* The lane is complete: it is the next one's turn, whose rows so far come out. */
static int next_turn(struct csv *csv)
{
	int err = 0;

	while (!err && csv->turn < csv->timeline->lane_count && csv->complete[csv->turn]) {
		csv->turn++;
		if (csv->spill && csv->turn < csv->timeline->lane_count)
			err = take_waiting(csv);
	}
	return err;
}

static int add_part(void *context, const struct lane_part *part)
{
	struct csv *csv = context;
	size_t lane = (size_t)(part->lane - csv->timeline->lanes);
	bool waits = lane != csv->turn;
	int err = 0;

	for (size_t i = 0; i < part->scope_count && !err; i++) {
		err = waits ? add_packed(csv, lane, &part->scopes[i])
			    : add_row(csv, part->lane, &part->scopes[i]);
		if (!err && csv->used >= ROWS_FULL)
			err = put(csv, lane);
	}
	if (!err)
		err = put(csv, lane);
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
	csv.latest = calloc(timeline->lane_count + 1, sizeof(*csv.latest));
	errno = 0;
	fputs("start_ns,end_ns,pid,tid,depth,kind,name,module,flags\n", out);
	if (csv.fields && csv.complete && csv.latest)
		err = timeline_visit(timeline, add_part, &csv);
	for (size_t i = 0; csv.fields && i < timeline->name_count; i++)
		free(csv.fields[i]);
	free(csv.fields);
	free(csv.complete);
	free(csv.latest);
	free(csv.rows);
	spill_destroy(csv.spill);
	return err ? err : output_result(out);
}
