// SPDX-License-Identifier: GPL-2.0-or-later
#include "code/shape.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/search.h"
#include "base/vec.h"
#include "program/image.h"
#include "program/name.h"
#include "code/plt.h"
#include "code/reentry.h"
#include "code/return_slot.h"
#include "code/unwind.h"

/* A symbol of a part: NAME.cold, NAME.cold.1. */
struct cold {
	uint64_t address;
	uint64_t size;
	uint64_t function; /* hash of the name of the one it is of */
};

/* A module's file, kept open from its first function on. */
struct source {
	struct image image;
	struct unwind unwind;
	struct stubs stubs;
	struct cold *colds; /* by address */
	size_t cold_count, cold_capacity;
	/* indexes of `colds` by `function`; NOT_ONE where several have it */
	struct hash_map by_name;
	bool is_open;
	int err; /* of opening it */
};

enum closed {
	CLOSED_UNKNOWN = 0,
	CLOSED_YES,
	CLOSED_NO,
};

struct entry {
	struct function_shape shape;
	int err;
	bool is_searched; /* for turns */
	struct exit_site *turns;
	size_t turn_count;
	enum closed closed;
	enum closed looks; /* at its return address, itself or by a tail call */
	uint32_t visit;	   /* the last question of shapes_is_closed that came by */
};

struct shapes {
	const struct symbol_table *table;
	struct source *sources; /* as table->modules */
	struct entry **entries; /* as table->functions */
	uint32_t visit;
};

/* What find_part needs; the bytes it read are freed when the function has been read. */
struct reading {
	const struct shapes *shapes;
	const struct module *module;
	struct source *source;
	uint8_t **buffers;
	size_t count, capacity;
};

enum { MOST_BYTES = 16 << 20 }; /* as disassemble.c takes */

#define NOT_ONE UINT32_MAX

/* ---- files ---- */

static int collect_cold(const struct image_symbol *symbol, void *context)
{
	struct source *source = context;
	size_t length;

	if (symbol->undefined || !symbol->in_code || !name_is_cold(symbol->name))
		return 0;
	if (symbol->type != STT_FUNC && symbol->type != STT_NOTYPE)
		return 0;
	if (vec_grow(&source->colds, &source->cold_capacity, source->cold_count))
		return -ENOMEM;
	length = (size_t)(strstr(symbol->name, ".cold") - symbol->name);
	source->colds[source->cold_count++] =
		(struct cold){symbol->address, symbol->size, hash_bytes(symbol->name, length)};
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct cold *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

static void close_source(struct source *source)
{
	stubs_close(&source->stubs);
	unwind_close(&source->unwind);
	image_close(&source->image);
	hash_map_clear(&source->by_name);
	free(source->colds);
	*source = (struct source){0};
}

static int index_colds(struct source *source)
{
	int err = 0;

	if (source->cold_count)
		qsort(source->colds, source->cold_count, sizeof(*source->colds), by_address);
	for (size_t i = 0; i < source->cold_count && !err; i++) {
		const struct cold *cold = &source->colds[i];
		uint32_t other;

		/* .symtab and .dynsym, or two names: the same one. */
		if (i && cold->address == cold[-1].address)
			continue;
		if (hash_map_get(&source->by_name, cold->function, &other))
			err = hash_map_put(&source->by_name, cold->function, NOT_ONE);
		else
			err = hash_map_put(&source->by_name, cold->function, (uint32_t)i);
	}
	return err;
}

/* -ENOMEM is not kept: the next one may succeed. */
static int open_source(const struct module *module, struct source *source)
{
	int err;

	if (source->is_open)
		return source->err;
	err = image_open(module, &source->image);
	if (!err)
		err = unwind_open(&source->image, &source->unwind);
	if (!err)
		err = stubs_open(&source->image, &source->stubs);
	if (!err)
		err = image_each_symbol(&source->image, collect_cold, source);
	if (!err)
		err = index_colds(source);
	if (err)
		close_source(source);
	source->err = err;
	source->is_open = err != -ENOMEM;
	return err;
}

/* The bytes of a range, which *reading keeps. 0, -ENOMEM, or -ENODATA when they are not all in the file. */
static int read_range(struct reading *reading, uint64_t address, uint64_t size,
		      struct code_range *range)
{
	const struct image *image = &reading->source->image;
	uint64_t offset, last;
	uint8_t *bytes;

	if (!size || size > MOST_BYTES || !image_offset(image, address, &offset) ||
	    !image_offset(image, address + size - 1, &last) || last - offset != size - 1)
		return -ENODATA;
	if (vec_grow(&reading->buffers, &reading->capacity, reading->count))
		return -ENOMEM;
	bytes = malloc(size);
	if (!bytes)
		return -ENOMEM;
	reading->buffers[reading->count++] = bytes;
	if (pread(image->fd, bytes, size, (off_t)offset) != (ssize_t)size)
		return -ENODATA;
	*range = (struct code_range){bytes, address, size};
	return 0;
}

/* ---- what the disassembler asks for ---- */

static bool is_entry_frame(uint64_t address, bool *known, void *context)
{
	const struct reading *reading = context;

	return unwind_is_entry_frame(&reading->source->unwind, address, known);
}

static const char *name_of_slot(uint64_t slot, void *context)
{
	const struct reading *reading = context;

	return stubs_slot_name(&reading->source->stubs, slot);
}

/* The last one that begins at or before the address, if it covers it. */
static const struct cold *cold_of(const struct source *source, uint64_t address)
{
	size_t low;

	SEARCH_FIRST(low, source->cold_count, source->colds[low].address <= address);
	if (!low || address - source->colds[low - 1].address >= source->colds[low - 1].size)
		return NULL;
	return &source->colds[low - 1];
}

/*
 * A jump is what ties a part to its function: names do not, as several files may have a static
 * function of one name. A symbol tells a part even where the frame is as at the entry. Without
 * symbols it is where control goes on in the midst of a frame (as the unwind tables tell of both
 * ends of the jump), in what has a table of its own and is no function that is known. A conditional
 * jump that finds such code is taken to lead to a part wherever it stands: gcc makes no conditional
 * tail calls, and where clang has made one the worst of it is that the call lasts until that
 * function returns, as it does for its caller.
 */
static bool find_part(const struct exit_site *jump, bool is_entry, struct code_range *part,
		      void *context)
{
	uint64_t target = jump->target;
	struct reading *reading = context;
	const struct unwind *unwind = &reading->source->unwind;
	const struct cold *cold = cold_of(reading->source, target);
	const struct unwind_range *range;
	bool known;

	if (cold)
		return read_range(reading, cold->address, cold->size, part) == 0;
	range = unwind_range_of(unwind, target);
	if (!range || symbol_table_find(reading->shapes->table, reading->module, range->address))
		return false;
	if (jump->kind != SITE_CONDITIONAL &&
	    (is_entry || unwind_is_entry_frame(unwind, target, &known) || !known))
		return false;
	return read_range(reading, range->address, range->size, part) == 0;
}

/* ---- shapes ---- */

/* By its symbol, else by its unwind table; 0 if neither tells. */
static uint64_t size_of(const struct source *source, const struct function *function)
{
	const struct unwind_range *range;

	if (function->size)
		return function->size;
	range = unwind_range_of(&source->unwind, function->address);
	return range ? range->size - (function->address - range->address) : 0;
}

/*
 * The part that no direct jump may lead to, but a jump table or an exception: it is told by the
 * unwind tables, or by its name, if only one has it. Returns how many were added.
 */
static size_t add_known_part(struct reading *reading, const struct function *function,
			     struct code_range *part)
{
	const struct source *source = reading->source;
	const struct unwind_range *range = unwind_range_of(&source->unwind, function->address);
	uint64_t name = hash_bytes(function->name, strlen(function->name));
	const struct cold *cold;
	uint32_t index;

	if (range && range->address == function->address)
		range = unwind_part_of(&source->unwind, range);
	else
		range = NULL;
	if (range && !symbol_table_find(reading->shapes->table, reading->module, range->address))
		return read_range(reading, range->address, range->size, part) == 0;
	if (!hash_map_get(&source->by_name, name, &index) || index == NOT_ONE)
		return 0;
	cold = &source->colds[index];
	return cold->size && read_range(reading, cold->address, cold->size, part) == 0;
}

/* A function that is refused is looked through all the same: --returns=uretprobe may want it. */
static int read_code(const struct function_code *code, struct function_shape *shape)
{
	int err = function_shape_read(code, shape);
	bool looks = false;

	if (err != -ENOMEM && return_slot_read(code, &looks) == -ENOMEM)
		return -ENOMEM;
	shape->looks_at_return = looks;
	return err;
}

static int read_function(const struct shapes *shapes, struct source *source,
			 const struct function *function, struct function_shape *shape)
{
	struct reading reading = {.shapes = shapes, .module = function->module, .source = source};
	struct code_range ranges[2];
	struct function_code code = {
		.machine = source->image.machine,
		.ranges = ranges,
		.range_count = 1,
		.probe = function->address + (function->probe_offset - function->file_offset),
		.is_entry_frame = is_entry_frame,
		.find_part = find_part,
		.name_of_slot = name_of_slot,
		.context = &reading,
	};
	uint64_t size = size_of(source, function);
	int err = size ? read_range(&reading, function->address, size, &ranges[0]) : -ENODATA;

	if (!err)
		code.range_count += add_known_part(&reading, function, &ranges[1]);

	if (!err)
		err = read_code(&code, shape);
	else if (err == -ENODATA)
		snprintf(shape->why, sizeof(shape->why), "%s",
			 !size ? "neither its symbol nor an unwind table tells where it ends"
			       : "its bytes are not all in the file");
	for (size_t i = 0; i < reading.count; i++)
		free(reading.buffers[i]);
	free(reading.buffers);
	return err == -ENODATA ? -ENOTSUP : err;
}

static int fill_entry(struct shapes *shapes, const struct function *function, struct entry *entry)
{
	struct source *source = &shapes->sources[function->module - shapes->table->modules.items];
	int err = open_source(function->module, source);

	if (err == -ENOMEM)
		return err;
	if (!err)
		return read_function(shapes, source, function, &entry->shape);
	snprintf(entry->shape.why, sizeof(entry->shape.why), "its file cannot be read: %s",
		 strerror(-err));
	return -ENOTSUP;
}

static int entry_of(struct shapes *shapes, const struct function *function, struct entry **found)
{
	struct entry **place = &shapes->entries[function - shapes->table->functions];
	struct entry *entry = *place;

	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry)
			return -ENOMEM;
		entry->err = fill_entry(shapes, function, entry);
		if (entry->err == -ENOMEM) {
			function_shape_clear(&entry->shape);
			free(entry);
			return -ENOMEM;
		}
		*place = entry;
	}
	*found = entry;
	return entry->err;
}

int shapes_of(struct shapes *shapes, const struct function *function,
	      const struct function_shape **shape)
{
	struct entry *entry = NULL;
	int err = entry_of(shapes, function, &entry);

	*shape = entry ? &entry->shape : NULL;
	return err;
}

/* The bytes of its parts are read anew: hardly any function loops to its probe. */
static int search_turns(const struct shapes *shapes, const struct function *function,
			struct entry *entry)
{
	struct source *source = &shapes->sources[function->module - shapes->table->modules.items];
	const struct function_shape *shape = &entry->shape;
	struct reading reading = {.shapes = shapes, .module = function->module, .source = source};
	struct code_range *ranges = calloc(shape->range_count, sizeof(*ranges));
	const struct function_code code = {
		.machine = source->image.machine,
		.ranges = ranges,
		.range_count = shape->range_count,
		.probe = function->address + (function->probe_offset - function->file_offset),
	};
	int err = ranges ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < shape->range_count; i++)
		err = read_range(&reading, shape->ranges[i].address, shape->ranges[i].size,
				 &ranges[i]);
	if (!err)
		err = turns_read(&code, &entry->turns, &entry->turn_count);
	for (size_t i = 0; i < reading.count; i++)
		free(reading.buffers[i]);
	free(reading.buffers);
	free(ranges);
	return err;
}

size_t shapes_turns(struct shapes *shapes, const struct function *function,
		    const struct exit_site **turns)
{
	struct entry *entry = NULL;

	*turns = NULL;
	if (entry_of(shapes, function, &entry) || !entry->shape.is_looped_to)
		return 0;
	if (!entry->is_searched)
		entry->is_searched = search_turns(shapes, function, entry) != -ENOMEM;
	*turns = entry->turns;
	return entry->turn_count;
}

bool shapes_is_amid_frame(struct shapes *shapes, const struct function *function)
{
	struct source *source = &shapes->sources[function->module - shapes->table->modules.items];
	uint64_t probe = function->address + (function->probe_offset - function->file_offset);
	bool known, is_entry;

	if (open_source(function->module, source))
		return false;
	is_entry = unwind_is_entry_frame(&source->unwind, probe, &known);
	return known && !is_entry;
}

const char *shapes_import(struct shapes *shapes, const struct module *module, uint64_t address)
{
	struct source *source = &shapes->sources[module - shapes->table->modules.items];

	return open_source(module, source) ? NULL : stubs_target(&source->stubs, address);
}

struct shapes *shapes_open(const struct symbol_table *table)
{
	struct shapes *shapes = calloc(1, sizeof(*shapes));

	if (!shapes)
		return NULL;
	shapes->table = table;
	shapes->sources =
		calloc(table->modules.count ? table->modules.count : 1, sizeof(*shapes->sources));
	shapes->entries = calloc(table->count ? table->count : 1, sizeof(struct entry *));
	if (shapes->sources && shapes->entries)
		return shapes;
	shapes_close(shapes);
	return NULL;
}

void shapes_close(struct shapes *shapes)
{
	if (!shapes)
		return;
	for (size_t i = 0; shapes->entries && i < shapes->table->count; i++) {
		if (shapes->entries[i]) {
			function_shape_clear(&shapes->entries[i]->shape);
			free(shapes->entries[i]->turns);
		}
		free(shapes->entries[i]);
	}
	for (size_t i = 0; shapes->sources && i < shapes->table->modules.count; i++)
		close_source(&shapes->sources[i]);
	free(shapes->entries);
	free(shapes->sources);
	free(shapes);
}

/* ---- functions that look at their return address ---- */

enum { MOST_VISITED = 512 }; /* functions that one question may lead to */

struct search {
	const struct function *found[MOST_VISITED];
	size_t count;
};

static bool is_tail_call(const struct exit_site *exit)
{
	return exit->kind == SITE_JUMP || exit->kind == SITE_CONDITIONAL;
}

/* What is called, or jumped to, may by its name be known to look at the caller's return address. */
static bool leads_to_look(struct shapes *shapes, const struct function *function, uint64_t target,
			  bool is_tail)
{
	const struct function *callee = symbol_table_find(shapes->table, function->module, target);
	const char *import = shapes_import(shapes, function->module, target);
	const char *name = import ? import : callee ? callee->name : NULL;

	return name && return_slot_is_read_by(name, is_tail);
}

static bool looks_itself(struct shapes *shapes, const struct function *function,
			 const struct function_shape *shape)
{
	bool looks = shape->looks_at_return;

	for (size_t i = 0; i < shape->exit_count && !looks; i++)
		looks = is_tail_call(&shape->exits[i]) &&
			leads_to_look(shapes, function, shape->exits[i].target, true);
	for (size_t i = 0; i < shape->callee_count && !looks; i++)
		looks = leads_to_look(shapes, function, shape->callees[i], false);
	return looks;
}

/* A jump out of the function takes its return address along. False: there are too many. */
static bool add_tail_calls(struct shapes *shapes, struct search *search,
			   const struct function *function, const struct function_shape *shape)
{
	for (size_t i = 0; i < shape->exit_count; i++) {
		const struct function *callee =
			is_tail_call(&shape->exits[i])
				? symbol_table_find(shapes->table, function->module,
						    shape->exits[i].target)
				: NULL;
		size_t known = 0;

		while (callee && known < search->count && search->found[known] != callee)
			known++;
		if (!callee || known < search->count)
			continue;
		if (search->count == MOST_VISITED)
			return false;
		search->found[search->count++] = callee;
	}
	return true;
}

bool shapes_looks_at_return(struct shapes *shapes, const struct function *function)
{
	struct search search = {.found = {function}, .count = 1};
	struct entry *root = NULL, *entry = NULL;

	if (entry_of(shapes, function, &root) == -ENOMEM)
		return true;
	if (root->looks)
		return root->looks == CLOSED_YES;
	root->looks = CLOSED_YES;
	for (size_t i = 0; i < search.count; i++) {
		if (entry_of(shapes, search.found[i], &entry) == -ENOMEM)
			return true;
		if (entry != root && entry->looks == CLOSED_NO)
			continue;
		if ((entry != root && entry->looks == CLOSED_YES) ||
		    looks_itself(shapes, search.found[i], &entry->shape) ||
		    !add_tail_calls(shapes, &search, search.found[i], &entry->shape))
			return true;
	}
	/* None of those that it leads to looks: of each of them the same is true. */
	for (size_t i = 0; i < search.count; i++) {
		entry_of(shapes, search.found[i], &entry);
		entry->looks = CLOSED_NO;
	}
	return false;
}

/* ---- closed call trees ---- */

/*
 * Why it is right: a return address is in danger only while its frame is there, and all that runs
 * then, signal handlers aside, are the instructions of the function and of what it calls. Where
 * each call and jump out is direct they are all known, and were all read: none raises, ends a
 * thread or changes the stack, as none calls the library, enters the kernel or loads the stack
 * pointer. A call through the PLT goes to a stub, which is no function of the table, and so ends
 * the search.
 */

static bool is_closed_itself(const struct function_shape *shape)
{
	for (size_t i = 0; i < shape->exit_count; i++) {
		if (shape->exits[i].kind == SITE_INDIRECT)
			return false;
	}
	return shape->decoded && !shape->calls_indirectly && !shape->enters_kernel &&
	       !shape->loads_stack_pointer;
}

/* Adds a function to look at, unless it was. False: the answer is no. */
static bool reach(struct shapes *shapes, struct search *search, const struct function *function)
{
	struct entry *entry;

	if (!function || entry_of(shapes, function, &entry) || entry->closed == CLOSED_NO)
		return false;
	if (entry->visit == shapes->visit || entry->closed == CLOSED_YES)
		return true;
	if (!is_closed_itself(&entry->shape)) {
		entry->closed = CLOSED_NO;
		return false;
	}
	if (search->count == MOST_VISITED)
		return false;
	entry->visit = shapes->visit;
	search->found[search->count++] = function;
	return true;
}

bool shapes_is_closed(struct shapes *shapes, const struct function *function)
{
	struct search search = {.count = 0};
	struct entry *entry = NULL;
	bool is_closed;

	shapes->visit++;
	is_closed = reach(shapes, &search, function);
	for (size_t i = 0; i < search.count && is_closed; i++) {
		const struct function_shape *shape;

		is_closed = shapes_of(shapes, search.found[i], &shape) == 0;
		for (size_t k = 0; is_closed && k < shape->callee_count; k++)
			is_closed = reach(shapes, &search,
					  symbol_table_find(shapes->table, search.found[i]->module,
							    shape->callees[k]));
	}
	/*
	 * Whatever a closed function leads to is closed too; of an open one only itself is known.
	 */
	for (size_t i = 0; i < search.count && is_closed; i++)
		shapes->entries[search.found[i] - shapes->table->functions]->closed = CLOSED_YES;
	if (!is_closed && entry_of(shapes, function, &entry) != -ENOMEM)
		entry->closed = CLOSED_NO;
	return is_closed;
}
