// SPDX-License-Identifier: GPL-2.0-or-later
#include "file/join.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/search.h"
#include "base/vec.h"
#include "file/join_losses.h"

#define CANDIDATES_MAX (4u << 20) /* records that may be in an earlier file: 160 MiB of memory */

/*
 * What is numbered on its own: the kernel's ring, a ring of a segment, the losses, the capture's
 * end.
 */
struct place {
	uint64_t last;		  /* the greatest number in the files before the present one */
	uint64_t last_here;	  /* and with it */
	uint64_t lowest, highest; /* of its candidates */
};
enum { PLACE_RING, PLACE_LOSS, PLACE_END, PLACE_SEGMENT_END, PLACE_FIRST_SEGMENT };

/* A record that an earlier file may have as well. */
struct candidate {
	uint64_t number;
	uint64_t offset; /* of its chunk */
	uint32_t place;
	uint32_t file;
	uint32_t record; /* in the chunk */
	bool repeated;
};

struct scope_file_join {
	struct scope_file *const *files;
	size_t file_count;
	struct place *places;
	size_t place_count, place_capacity;
	struct hash_map place_index; /* segment << 8 | ring -> place */
	/* pid -> segment, as the file at hand has declared it so far */
	struct hash_map segments;
	uint64_t *accounts;	      /* of functions, by file */
	struct candidate *candidates; /* while collecting; afterwards by place, number, file */
	size_t candidate_count, candidate_capacity;
	struct lost_ranges lost;
	struct chunk_drop **drops; /* by file */
	size_t *drop_counts;
	uint64_t repeats;
};

/* ---- where a record came from ---- */

static int add_place(struct scope_file_join *join)
{
	if (vec_grow(&join->places, &join->place_capacity, join->place_count))
		return -ENOMEM;
	join->places[join->place_count++] = (struct place){.lowest = UINT64_MAX};
	return 0;
}

/* 0 with *place, or -ENOMEM. */
static int place_of_ring(struct scope_file_join *join, uint32_t segment, uint8_t ring,
			 uint32_t *place)
{
	uint64_t key = (uint64_t)segment << 8 | ring;
	int err;

	if (hash_map_get(&join->place_index, key, place))
		return 0;
	*place = (uint32_t)join->place_count;
	err = add_place(join);
	return err ? err : hash_map_put(&join->place_index, key, *place);
}

/*
 * The low half that is kept with a scope, made whole by the span that it lies in. 0: it has none.
 * That is also what is kept of one position in 2^32, which only its span tells from none.
 */
static uint64_t ring_position(const struct ring_span *span, const struct hooked_scope *scope)
{
	uint64_t first = span->first / 8;
	uint64_t position = first + (uint32_t)(scope->position - (uint32_t)first);

	if (!span->last || (!scope->position && position > span->last / 8))
		return 0;
	return position;
}

struct origin {
	uint32_t place;
	uint64_t number;
	uint64_t end; /* of losses whose claims are known: behind the last; `number` is the first */
	bool known;
};

static int origin_of_manual(struct scope_file_join *join, const struct manual_event *event,
			    struct origin *origin)
{
	uint32_t segment;

	origin->known = hash_map_get(&join->segments, event->pid, &segment) && segment;
	origin->number = event->kind == MANUAL_STOP ? event->value : event->scope_id;
	return origin->known ? place_of_ring(join, segment, event->ring, &origin->place) : 0;
}

/*
 * What was still running and the accounts are written once, when the capture of a ring is over. A
 * drainer that is killed at that leaves them to the next, which tells them all again.
 */
static void set_origin_of_end(const struct scope_file_join *join, struct origin *origin)
{
	if (join->files[0]->header.capture_kind == SCOPE_FILE_OF_RING)
		*origin = (struct origin){.place = PLACE_END, .known = true};
}

/*
 * By the claims if they are known, as another reader tells the same with other times, and with
 * more.
 */
static int origin_of_loss(struct scope_file_join *join, const struct loss_event *loss,
			  struct origin *origin)
{
	uint32_t segment;

	origin->known = true;
	if (loss->claim && loss->count && loss->count < UINT64_MAX - loss->claim &&
	    loss->index <= UINT8_MAX && hash_map_get(&join->segments, loss->pid, &segment) &&
	    segment) {
		origin->number = loss->claim - 1;
		origin->end = origin->number + loss->count;
		return place_of_ring(join, segment, (uint8_t)loss->index, &origin->place);
	}
	origin->place = PLACE_LOSS;
	origin->number = hash_bytes(loss, sizeof(*loss));
	return 0;
}

/* A segment's account says all from the beginning on: the last file's holds. */
static void origin_of_account(const struct segment_accounting *account, struct origin *origin)
{
	origin->place = PLACE_SEGMENT_END;
	origin->number = (uint64_t)account->pid << 32 | account->segment;
	origin->known = account->segment != 0;
}

/* Where record `i` of the chunk came from. 0 or -ENOMEM. */
static int find_origin(struct scope_file_join *join, const struct chunk *chunk, uint32_t i,
		       struct origin *origin)
{
	const void *record = chunk->payload + (size_t)i * chunk->size;

	*origin = (struct origin){0};
	switch (chunk->type) {
	case CHUNK_HOOKED:
		origin->place = PLACE_RING;
		origin->number = ring_position(&chunk->span, record);
		origin->known = origin->number;
		if (!origin->known)
			set_origin_of_end(join, origin);
		return 0;
	case CHUNK_FUNCTION_ACCOUNTING:
		set_origin_of_end(join, origin);
		return 0;
	case CHUNK_LOSS:
		return origin_of_loss(join, record, origin);
	case CHUNK_SEGMENT_ACCOUNTING:
		origin_of_account(record, origin);
		return 0;
	case CHUNK_MANUAL:
		return origin_of_manual(join, record, origin);
	default:
		return 0;
	}
}

/* ---- reading all files, record by record ---- */

typedef int (*record_visitor)(struct scope_file_join *join, uint32_t file,
			      const struct chunk *chunk, uint32_t record,
			      const struct origin *origin);

static int note_segments(struct scope_file_join *join, const struct chunk *chunk)
{
	const struct process_info *infos = (const struct process_info *)chunk->payload;
	int err = 0;

	for (uint32_t i = 0; i < chunk->count && !err; i++)
		err = hash_map_put(&join->segments, infos[i].pid, infos[i].segment);
	return err;
}

static int visit_chunk(struct scope_file_join *join, uint32_t file, const struct chunk *chunk,
		       record_visitor visit)
{
	if (chunk->type == CHUNK_PROCESS)
		return note_segments(join, chunk);
	if (chunk->type != CHUNK_HOOKED && chunk->type != CHUNK_MANUAL &&
	    chunk->type != CHUNK_LOSS && chunk->type != CHUNK_FUNCTION_ACCOUNTING &&
	    chunk->type != CHUNK_SEGMENT_ACCOUNTING)
		return 0;
	for (uint32_t i = 0; i < chunk->count; i++) {
		struct origin origin;
		int err = find_origin(join, chunk, i, &origin);

		if (!err && origin.known)
			err = visit(join, file, chunk, i, &origin);
		if (err)
			return err;
	}
	return 0;
}

static int visit_file(struct scope_file_join *join, uint32_t file, record_visitor visit)
{
	struct chunk_reader *reader = chunk_reader_create(join->files[file]);
	struct chunk chunk;
	int more = reader ? 1 : -ENOMEM, err = 0;

	hash_map_clear(&join->segments);
	while (more > 0 && !err && (more = chunk_reader_next(reader, &chunk)) > 0)
		err = visit_chunk(join, file, &chunk, visit);
	chunk_reader_destroy(reader);
	return err ? err : more;
}

/*
 * ---- first: which records may be in an earlier file, as their numbers do not lie behind it ----
 */

static int collect(struct scope_file_join *join, uint32_t file, const struct chunk *chunk,
		   uint32_t record, const struct origin *origin)
{
	struct place *place = &join->places[origin->place];
	uint64_t number = origin->number;

	if (origin->end)
		return lost_ranges_add(&join->lost, &(struct lost_range){.first = number,
									 .end = origin->end,
									 .offset = chunk->offset,
									 .record = record,
									 .place = origin->place,
									 .file = file});
	if (number > place->last_here)
		place->last_here = number;
	join->accounts[file] += chunk->type == CHUNK_FUNCTION_ACCOUNTING;
	if (origin->place != PLACE_END && origin->place != PLACE_SEGMENT_END &&
	    (!file || (origin->place != PLACE_LOSS && number > place->last)))
		return 0;
	if (join->candidate_count == CANDIDATES_MAX) {
		log_error(
			"the captures %s and those before it have more than %u records in common: is one a "
			"copy of another?",
			join->files[file]->path, CANDIDATES_MAX);
		return -EFBIG;
	}
	if (vec_grow(&join->candidates, &join->candidate_capacity, join->candidate_count))
		return -ENOMEM;
	join->candidates[join->candidate_count++] = (struct candidate){.number = number,
								       .offset = chunk->offset,
								       .place = origin->place,
								       .file = file,
								       .record = record};
	place->lowest = number < place->lowest ? number : place->lowest;
	place->highest = number > place->highest ? number : place->highest;
	return 0;
}

static int collect_all(struct scope_file_join *join)
{
	int err = 0;

	for (uint32_t file = 0; file < join->file_count && !err; file++) {
		err = visit_file(join, file, collect);
		for (size_t i = 0; i < join->place_count; i++)
			join->places[i].last = join->places[i].last_here;
	}
	return err;
}

/* ---- then: which of them are ---- */

static int compare(const struct candidate *a, const struct candidate *b)
{
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	return (a->file > b->file) - (a->file < b->file);
}

static int by_origin(const void *a, const void *b)
{
	return compare(a, b);
}

/* The first candidate of this origin in a file behind `file`. */
static size_t first_behind(const struct scope_file_join *join, const struct origin *origin,
			   uint32_t file)
{
	struct candidate wanted = {
		.place = origin->place, .number = origin->number, .file = file + 1};
	size_t low;

	SEARCH_FIRST(low, join->candidate_count, compare(&join->candidates[low], &wanted) < 0);
	return low;
}

/* A record of an earlier file: the candidates of the same origin are repeats of it. */
static int match(struct scope_file_join *join, uint32_t file, const struct chunk *chunk,
		 uint32_t record, const struct origin *origin)
{
	const struct place *place = &join->places[origin->place];

	(void)chunk, (void)record;
	if (origin->place == PLACE_END || origin->place == PLACE_SEGMENT_END || origin->end ||
	    origin->number < place->lowest || origin->number > place->highest)
		return 0;
	for (size_t i = first_behind(join, origin, file); i < join->candidate_count; i++) {
		struct candidate *candidate = &join->candidates[i];

		if (candidate->place != origin->place || candidate->number != origin->number)
			break;
		candidate->repeated = true;
	}
	return 0;
}

/* The end of the capture is told by the file that has most of it, the last of several. */
static void match_end(struct scope_file_join *join)
{
	size_t chosen = 0;

	for (size_t file = 1; file < join->file_count; file++)
		if (join->accounts[file] >= join->accounts[chosen])
			chosen = file;
	for (size_t i = 0; i < join->candidate_count; i++)
		if (join->candidates[i].place == PLACE_END)
			join->candidates[i].repeated = join->candidates[i].file != chosen;
	for (size_t i = 0; i + 1 < join->candidate_count; i++) {
		const struct candidate *next = &join->candidates[i + 1];

		if (next->place == PLACE_SEGMENT_END &&
		    join->candidates[i].place == PLACE_SEGMENT_END &&
		    join->candidates[i].number == next->number)
			join->candidates[i].repeated = true;
	}
}

/* What a file has of that which another one lost. */
static int find_written(struct scope_file_join *join, uint32_t file, const struct chunk *chunk,
			uint32_t record, const struct origin *origin)
{
	int err = 0;

	(void)file, (void)record;
	if (chunk->type == CHUNK_MANUAL)
		err = lost_ranges_written(&join->lost, origin->place, origin->number,
					  CANDIDATES_MAX);
	if (err == -EFBIG)
		log_error(
			"the captures have more than %u manual events that others of them have lost",
			CANDIDATES_MAX);
	return err;
}

static int match_losses(struct scope_file_join *join)
{
	int err = lost_ranges_sort(&join->lost);

	for (uint32_t file = 0; file < join->file_count && !err && join->lost.count; file++)
		err = visit_file(join, file, find_written);
	if (err)
		return err;
	err = lost_ranges_settle(&join->lost);
	if (err == -EFBIG)
		log_error("the captures have thousands of losses of one and the same manual event");
	return err;
}

static int match_all(struct scope_file_join *join)
{
	int err = 0;

	if (!join->candidate_count)
		return 0;
	qsort(join->candidates, join->candidate_count, sizeof(*join->candidates), by_origin);
	match_end(join);
	for (uint32_t file = 0; file + 1 < join->file_count && !err; file++)
		err = visit_file(join, file, match);
	return err;
}

/* ---- last: what each reader passes over ---- */

static int by_place_in_file(const void *a, const void *b)
{
	const struct chunk_drop *x = a, *y = b;

	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return (x->record > y->record) - (x->record < y->record);
}

/* The losses of a file that others tell, in whole or in part. 0 or -ENOMEM. */
static int reduce_losses(struct scope_file_join *join, size_t file, size_t *capacity)
{
	for (size_t i = 0; i < join->lost.count; i++) {
		const struct lost_range *range = &join->lost.items[i];

		if (range->file != file || range->left == range->end - range->first)
			continue;
		if (vec_grow(&join->drops[file], capacity, join->drop_counts[file]))
			return -ENOMEM;
		join->drops[file][join->drop_counts[file]++] =
			(struct chunk_drop){range->offset, range->record, range->left};
	}
	return 0;
}

static int make_drops(struct scope_file_join *join)
{
	for (size_t file = 0; file < join->file_count; file++) {
		size_t *count = &join->drop_counts[file], capacity = 0;
		int err = reduce_losses(join, file, &capacity);

		if (err)
			return err;

		for (size_t i = 0; i < join->candidate_count; i++) {
			const struct candidate *candidate = &join->candidates[i];

			if (!candidate->repeated || candidate->file != file)
				continue;
			if (vec_grow(&join->drops[file], &capacity, *count))
				return -ENOMEM;
			join->drops[file][(*count)++] =
				(struct chunk_drop){candidate->offset, candidate->record, 0};
		}
		if (*count)
			qsort(join->drops[file], *count, sizeof(**join->drops), by_place_in_file);
		join->repeats += *count;
	}
	return 0;
}

/* ---- the join ---- */

static int refuse(const struct scope_file *a, const struct scope_file *b, const char *why)
{
	log_error("the captures %s and %s cannot be read together: %s", a->path, b->path, why);
	return -EINVAL;
}

/*
 * They begin alike to the nanosecond: one file, or copies, one of which may have been made while it
 * grew.
 */
static int refuse_copy(const struct scope_file *a, const struct scope_file *b)
{
	struct stat first, second;

	if (fstat(a->fd, &first) || fstat(b->fd, &second) || first.st_size == second.st_size)
		return refuse(a, b, "they are one and the same; name it once");
	if (first.st_size < second.st_size)
		return refuse(
			a, b,
			"the first is an earlier part of the same file as the second; leave it out");
	return refuse(a, b,
		      "the second is an earlier part of the same file as the first; leave it out");
}

/* Are they parts of one capture, each given once? */
static int check_pair(const struct scope_file *a, const struct scope_file *b)
{
	const struct header_payload *x = &a->header, *y = &b->header;

	if (!x->capture_kind || memcmp(x->boot_id, y->boot_id, sizeof(x->boot_id)) ||
	    x->capture_kind != y->capture_kind || x->capture_number != y->capture_number ||
	    x->capture_start_ns != y->capture_start_ns)
		return refuse(a, b, "they are not parts of one capture; read them one by one");
	if (x->monotonic_ns == y->monotonic_ns && x->realtime_ns == y->realtime_ns)
		return refuse_copy(a, b);
	return a->seekable && b->seekable ? 0
					  : refuse(a, b, "a pipe cannot be read twice; give files");
}

static int check_files(const struct scope_file_join *join)
{
	int err = 0;

	for (size_t i = 1; i < join->file_count; i++) {
		for (size_t j = 0; j < i && !err; j++)
			err = check_pair(join->files[j], join->files[i]);
	}
	return err;
}

static int build(struct scope_file_join *join)
{
	int err = check_files(join);

	for (int i = 0; i < PLACE_FIRST_SEGMENT && !err; i++)
		err = add_place(join);
	if (!err)
		err = collect_all(join);
	if (!err)
		err = match_all(join);
	if (!err)
		err = match_losses(join);
	if (!err)
		err = make_drops(join);
	if (err == -ENOMEM)
		log_error("out of memory while comparing %zu captures", join->file_count);
	free(join->candidates);
	join->candidates = NULL;
	hash_map_clear(&join->place_index);
	hash_map_clear(&join->segments);
	return err;
}

struct scope_file_join *scope_file_join_create(struct scope_file *const *files, size_t count)
{
	struct scope_file_join *join = calloc(1, sizeof(*join));
	int err = -ENOMEM;

	if (join) {
		join->files = files;
		join->file_count = count;
		join->drops = calloc(count + 1, sizeof(*join->drops));
		join->drop_counts = calloc(count + 1, sizeof(*join->drop_counts));
		join->accounts = calloc(count + 1, sizeof(*join->accounts));
		if (join->drops && join->drop_counts && join->accounts)
			err = build(join);
	}
	if (!err)
		return join;
	scope_file_join_destroy(join);
	errno = -err;
	return NULL;
}

void scope_file_join_destroy(struct scope_file_join *join)
{
	if (!join)
		return;
	for (size_t i = 0; i < join->file_count && join->drops; i++)
		free(join->drops[i]);
	lost_ranges_clear(&join->lost);
	free(join->drops);
	free(join->drop_counts);
	free(join->accounts);
	free(join->places);
	free(join);
}

void scope_file_join_apply(const struct scope_file_join *join, size_t index,
			   struct chunk_reader *reader)
{
	chunk_reader_drop(reader, join->drops[index], join->drop_counts[index]);
}

uint64_t scope_file_join_repeats(const struct scope_file_join *join)
{
	return join->repeats;
}
