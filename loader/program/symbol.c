// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/symbol.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/demangle.h"
#include "base/log.h"
#include "base/search.h"
#include "base/vec.h"
#include "program/arena.h"
#include "program/image.h"
#include "program/entry_probe.h"
#include "program/name.h"

/* What symbol_table.owned points to. */
struct owned {
	struct arena arena;
	struct hash_map indirect; /* hashes of the names of IFUNCs */
};

/* One symbol of code, before those of one address are made one function. */
struct entry {
	uint64_t address;
	uint64_t size;
	const char *name;
	uint32_t rank; /* which of several names is the function's: the lowest */
	uint32_t order;
	bool is_untyped;
};

struct collector {
	struct symbol_table *table;
	const struct module *module;
	const struct image *image;
	struct arena *arena;
	struct entry *entries;
	size_t count;
	size_t capacity;
	size_t function_capacity; /* of table->functions */
	struct hash_map indirect; /* of this module alone */
};

/* ---- symbols to entries ---- */

/*
 * syscall() too: what it is called for cannot be seen. dlopen() and dlsym() too: what they find may
 * fork.
 */
static const char *const forks[] = {"fork",    "_Fork",	  "__fork", "__libc_fork", "clone",
				    "__clone", "clone3",  "daemon", "forkpty",	   "syscall",
				    "dlopen",  "dlmopen", "dlsym",  "dlvsym",	   NULL};

/*
 * A static program has fork inside: only because something in it calls it. So a definition counts
 * as an import does. An exec is recorded only where there is no fork.
 */
static void record_fork(struct collector *c, const struct image_symbol *symbol, size_t length)
{
	struct symbol_table *table = c->table;
	bool forks_itself;

	if (table->may_fork || c->module->is_libc || is_mangled(symbol->name))
		return;
	forks_itself = name_is_among(forks, symbol->name, length);
	if (!forks_itself && (table->may_exec || !name_is_exec(symbol->name, length)))
		return;
	table->may_fork = forks_itself;
	table->may_exec |= !forks_itself;
	snprintf(table->fork_evidence, sizeof(table->fork_evidence), "%s %s %.*s", c->module->path,
		 symbol->undefined ? "imports" : "contains", (int)length, symbol->name);
}

static bool is_hookable(const struct collector *c, const struct image_symbol *symbol,
			const char *name)
{
	if (symbol->undefined || !symbol->in_code)
		return false;
	if (symbol->type != STT_FUNC && symbol->type != STT_NOTYPE)
		return false;
	if (c->image->entry && symbol->address == c->image->entry)
		return false;
	/* arm64's mapping symbols, and labels that an assembler left in. */
	if (symbol->type == STT_NOTYPE && (name[0] == '$' || name[0] == '.'))
		return false;
	return !name_is_cold(name) && !name_unhookable(name);
}

static uint32_t rank_of(const struct image_symbol *symbol, const char *name)
{
	uint32_t rank = symbol->type == STT_NOTYPE ? 64 : 0;

	if (symbol->binding != STB_GLOBAL)
		rank += symbol->binding == STB_WEAK ? 1 : 32;
	if (name[0] == '_' && !is_mangled(name))
		rank += name[1] == '_' ? 8 : 4;
	return rank;
}

static int record_indirect(struct collector *c, uint64_t hash)
{
	struct owned *owned = c->table->owned;
	int err = hash_map_put(&c->indirect, hash, 0);

	return err ? err : hash_map_put(&owned->indirect, hash, 0);
}

static int collect_symbol(const struct image_symbol *symbol, void *context)
{
	struct collector *c = context;
	size_t length = name_without_version(symbol->name);
	struct entry *entry;
	char *name;

	record_fork(c, symbol, length);
	if (symbol->type == STT_GNU_IFUNC && !symbol->undefined)
		return record_indirect(c, hash_bytes(symbol->name, length));
	if (!is_hookable(c, symbol, symbol->name))
		return 0;
	name = arena_copy(c->arena, symbol->name, length);
	if (!name || vec_grow(&c->entries, &c->capacity, c->count))
		return -ENOMEM;
	entry = &c->entries[c->count];
	entry->address = symbol->address;
	entry->size = symbol->size;
	entry->name = name;
	entry->rank = rank_of(symbol, name);
	entry->order = (uint32_t)c->count++;
	entry->is_untyped = symbol->type == STT_NOTYPE;
	return 0;
}

/* ---- entries to functions ---- */

static int by_address(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* .symtab and .dynsym name most functions twice. */
static bool is_named_before(const struct entry *group, size_t at)
{
	for (size_t i = 0; i < at; i++) {
		if (strcmp(group[i].name, group[at].name) == 0)
			return true;
	}
	return false;
}

static int add_aliases(struct collector *c, const struct entry *group, size_t count,
		       struct function *function)
{
	enum { MOST_ALIASES = 256 }; /* of one address; a file with more is not an honest one */
	size_t used = 0;

	if (count > MOST_ALIASES)
		count = MOST_ALIASES;
	for (size_t i = 1; i < count; i++) {
		if (is_named_before(group, i))
			continue;
		if (!function->aliases) {
			function->aliases =
				arena_alloc(c->arena, count * sizeof(*function->aliases));
			if (!function->aliases)
				return -ENOMEM;
		}
		function->aliases[used++] = group[i].name;
	}
	if (function->aliases)
		function->aliases[used] = NULL;
	return 0;
}

static int add_function(struct collector *c, const struct entry *group, size_t count)
{
	struct symbol_table *table = c->table;
	struct function *function;

	if (vec_grow(&table->functions, &c->function_capacity, table->count))
		return -ENOMEM;
	function = &table->functions[table->count];
	*function = (struct function){
		.name = group->name,
		.demangled = is_mangled(group->name) ? NULL : group->name,
		.module = c->module,
		.address = group->address,
		.is_untyped = group->is_untyped,
	};
	if (!image_offset(c->image, group->address, &function->file_offset))
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (group[i].size > function->size)
			function->size = group[i].size;
	}
	table->count++;
	return add_aliases(c, group, count, function);
}

/*
 * Removes the functions that share their name with an IFUNC of the module: old versions of it
 * (memcpy@GLIBC_2.2.5), which hardly any program calls. A hook on one would see nothing, and nobody
 * would know why.
 */
static void drop_old_versions(struct collector *c)
{
	size_t kept = 0;
	uint32_t unused;

	for (size_t i = 0; i < c->count && c->indirect.count; i++) {
		const char *name = c->entries[i].name;

		if (!hash_map_get(&c->indirect, hash_bytes(name, strlen(name)), &unused))
			c->entries[kept++] = c->entries[i];
	}
	if (c->indirect.count)
		c->count = kept;
	hash_map_clear(&c->indirect);
}

/* An untyped symbol inside a typed function is a label in it, not a function. */
static int group_entries(struct collector *c)
{
	uint64_t covered = 0;

	if (c->count)
		qsort(c->entries, c->count, sizeof(*c->entries), by_address);
	for (size_t i = 0, next; i < c->count; i = next) {
		const struct entry *group = &c->entries[i];
		int err;

		for (next = i + 1; next < c->count && c->entries[next].address == group->address;
		     next++)
			;
		if (group->is_untyped && group->address < covered)
			continue;
		err = add_function(c, group, next - i);
		if (err)
			return err;
		if (!group->is_untyped && group->size < UINT64_MAX - group->address &&
		    group->address + group->size > covered)
			covered = group->address + group->size;
	}
	return 0;
}

/*
 * The names of the module, if it has parts of functions, which must know whether the whole function
 * is there.
 */
static int index_names(const struct symbol_table *table, size_t first, struct hash_map *names)
{
	bool has_parts = false;
	int err = 0;

	for (size_t i = first; i < table->count && !has_parts; i++)
		has_parts = name_is_part(table->functions[i].name);
	for (size_t i = first; has_parts && i < table->count && !err; i++) {
		const char *name = table->functions[i].name;

		err = hash_map_put(names, hash_bytes(name, strlen(name)), (uint32_t)i);
	}
	return err;
}

/* Lets clones answer to the name in the source. */
static int name_clones(struct collector *c, size_t first)
{
	struct symbol_table *table = c->table;
	struct hash_map names = {0};
	int err = index_names(table, first, &names);

	for (size_t i = first; i < table->count && !err; i++) {
		struct function *function = &table->functions[i];
		size_t length = name_without_clone(function->name);
		uint32_t whole;

		if (!function->name[length])
			continue;
		if (name_is_part(function->name) &&
		    hash_map_get(&names, hash_bytes(function->name, length), &whole))
			continue;
		function->plain = arena_copy(c->arena, function->name, length);
		err = function->plain ? 0 : -ENOMEM;
	}
	hash_map_clear(&names);
	return err;
}

static int collect_module(struct collector *c, const struct module *module, struct image *image)
{
	size_t first = c->table->count;
	int err;

	c->module = module;
	c->image = image;
	c->count = 0;
	err = image_each_symbol(image, collect_symbol, c);
	drop_old_versions(c);
	if (!err)
		err = group_entries(c);
	return err ? err : name_clones(c, first);
}

/* ---- functions to probe sites ---- */

/* Part of a file, read as functions in ascending order ask for their bytes. */
struct window {
	int fd;
	uint8_t *bytes;
	uint64_t start;
	size_t length;
};

enum { WINDOW_BYTES = 1 << 20, FEWEST_BYTES = 32 };

static void window_move(struct window *window, uint64_t offset, size_t wanted)
{
	ssize_t length;

	if (offset >= window->start && offset - window->start + wanted <= window->length)
		return;
	window->start = offset;
	window->length = 0;
	if (offset > INT64_MAX - WINDOW_BYTES)
		return;
	length = pread(window->fd, window->bytes, WINDOW_BYTES, (off_t)offset);
	window->length = length > 0 ? (size_t)length : 0;
}

/*
 * Up to the next function at most, so that a file that lies about sizes costs no more than one
 * reading.
 */
static uint64_t size_to_read(const struct symbol_table *table, size_t i)
{
	const struct function *function = &table->functions[i], *next = function + 1;
	uint64_t size = function->size;

	if (i + 1 < table->count && next->module == function->module &&
	    next->file_offset > function->file_offset &&
	    next->file_offset - function->file_offset < size)
		size = next->file_offset - function->file_offset;
	return size < FEWEST_BYTES ? FEWEST_BYTES : size > WINDOW_BYTES ? WINDOW_BYTES : size;
}

static void place_probe(struct function *function, uint16_t machine, struct window *window,
			uint64_t wanted, bool use_nop5)
{
	struct code code = {
		.machine = machine, .size = function->size, .address = function->file_offset};
	struct entry_probe probe;

	if (machine != EM_X86_64 && machine != EM_AARCH64) {
		function->probe_offset = function->file_offset;
		function->cost = PROBE_COST_REFUSED;
		function->refused = "code of another kind than 64 bits, which is not understood";
		return;
	}
	window_move(window, function->file_offset, wanted);
	code.bytes = window->bytes + (function->file_offset - window->start);
	code.length = window->length - (size_t)(function->file_offset - window->start);
	probe = entry_probe_place(&code, use_nop5);
	function->probe_offset = function->file_offset + probe.distance;
	function->cost = probe.cost;
	function->refused = probe.refused;
}

/* The hooks on a library go on in the program that an exec runs, which may fork. */
static bool is_safe_from_fork(const struct symbol_table *table, const struct function *function)
{
	return !table->may_fork && (!table->may_exec || function->module->is_main);
}

static int place_probes(struct symbol_table *table, const struct image *images, bool optimized)
{
	struct window window = {.fd = -1, .bytes = malloc(WINDOW_BYTES)};
	uint64_t end = 0; /* of all functions before, in this file */

	if (!window.bytes)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++) {
		struct function *function = &table->functions[i];
		const struct image *image = &images[function->module - table->modules.items];

		if (image->fd != window.fd) {
			window.fd = image->fd;
			window.length = 0;
			end = 0;
		}
		/*
		 * The call that a nop5 becomes overwrites the red zone of the function around it.
		 */
		place_probe(function, image->machine, &window, size_to_read(table, i),
			    (optimized || is_safe_from_fork(table, function)) &&
				    function->file_offset >= end);
		if (function->size < UINT64_MAX - function->file_offset &&
		    function->file_offset + function->size > end)
			end = function->file_offset + function->size;
	}
	free(window.bytes);
	return 0;
}

/* ---- the table ---- */

/* 0 to go on (without the module if its image stays empty), or -errno, logged. */
static int open_image(const struct module *module, struct image *image)
{
	int err = image_open(module, image);

	if (!err)
		return 0;
	if (module->is_main)
		log_error("cannot read the program %s (through %s): %s", module->path,
			  module->probe_path,
			  err == -ENOEXEC ? "it is not an ELF program" : strerror(-err));
	else if (err != -ENOEXEC) /* a data file may be mapped executable too */
		log_warning("the functions of %s are left out: %s: %s", module->path,
			    module->probe_path, strerror(-err));
	return module->is_main ? err : 0;
}

static int fill_table(struct symbol_table *table, struct image *images, bool optimized)
{
	struct collector collector = {.table = table,
				      .arena = &((struct owned *)table->owned)->arena};
	int err = 0;

	for (size_t i = 0; i < table->modules.count; i++) {
		err = open_image(&table->modules.items[i], &images[i]);
		if (err)
			goto out;
		if (!images[i].dwfl)
			continue;
		err = collect_module(&collector, &table->modules.items[i], &images[i]);
		if (err)
			break;
	}
	if (!err)
		err = place_probes(table, images, optimized);
	if (err)
		log_error("reading the symbols failed: %s", strerror(-err));
out:
	hash_map_clear(&collector.indirect);
	free(collector.entries);
	return err;
}

static int read_modules(struct symbol_table *table, bool optimized)
{
	struct image *images =
		calloc(table->modules.count ? table->modules.count : 1, sizeof(*images));
	int err = -ENOMEM;

	table->owned = calloc(1, sizeof(struct owned));
	if (images && table->owned)
		err = fill_table(table, images, optimized);
	else
		log_error("reading the symbols failed: %s", strerror(ENOMEM));
	for (size_t i = 0; images && i < table->modules.count; i++)
		image_close(&images[i]);
	free(images);
	if (err)
		symbol_table_close(table);
	return err;
}

int symbol_table_of_process(pid_t pid, bool optimized, struct symbol_table *table)
{
	int err;

	*table = (struct symbol_table){0};
	err = module_list_of_process(pid, &table->modules);
	return err ? err : read_modules(table, optimized);
}

int symbol_table_of_binary(const char *path, bool optimized, struct symbol_table *table)
{
	int err;

	*table = (struct symbol_table){0};
	err = module_list_of_binary(path, &table->modules);
	return err ? err : read_modules(table, optimized);
}

void symbol_table_close(struct symbol_table *table)
{
	struct owned *owned = table->owned;

	if (owned) {
		hash_map_clear(&owned->indirect);
		arena_close(&owned->arena);
	}
	free(owned);
	free(table->functions);
	module_list_close(&table->modules);
	*table = (struct symbol_table){0};
}

const struct function *symbol_table_find(const struct symbol_table *table,
					 const struct module *module, uint64_t address)
{
	const struct function *functions = table->functions;
	size_t i;

	SEARCH_FIRST(i, table->count,
		     functions[i].module < module ||
			     (functions[i].module == module && functions[i].address < address));
	return i < table->count && functions[i].module == module && functions[i].address == address
		       ? &functions[i]
		       : NULL;
}

static int keep_module_open(struct module *module)
{
	int err = module_keep_open(module);

	if (err == -ESTALE || err == -ENOENT || err == -ESRCH)
		log_error(
			"%s (through %s) is no longer the file that was read: the process has ended or runs "
			"another program, or the file was replaced",
			module->path, module->probe_path);
	else if (err)
		log_error("cannot hold %s open (through %s): %s", module->path, module->probe_path,
			  strerror(-err));
	return err;
}

int symbol_table_keep_open(struct symbol_table *table, const struct function *const *functions,
			   size_t count)
{
	int err = 0;

	for (size_t i = 0; i < count && !err; i++)
		if (functions[i])
			err = keep_module_open(
				&table->modules.items[functions[i]->module - table->modules.items]);
	return err;
}

bool symbol_is_indirect(const struct symbol_table *table, const char *name)
{
	const struct owned *owned = table->owned;
	uint32_t unused;

	return hash_map_get(&owned->indirect, hash_bytes(name, strlen(name)), &unused);
}

int symbol_demangle(const struct symbol_table *table, struct function *function)
{
	struct owned *owned = table->owned;
	char *demangled;

	if (function->demangled)
		return 0;
	demangled = demangle(function->name);
	if (!demangled) {
		function->demangled = function->name;
		return 0;
	}
	function->demangled = arena_copy(&owned->arena, demangled, strlen(demangled));
	free(demangled);
	return function->demangled ? 0 : -ENOMEM;
}
