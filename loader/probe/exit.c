// SPDX-License-Identifier: GPL-2.0-or-later
#include "probe/exit.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

/* One site of one function. */
struct exit_owner {
	uint64_t offset;
	size_t function; /* index into the group's ids */
	uint32_t id;
	uint32_t number; /* of its exits */
	size_t site;	 /* in the table */
};

/* ---- places ---- */

int exit_places_make(struct exit_places *places, const struct probe_function *functions,
		     size_t count, size_t most)
{
	size_t sum = 0;

	exit_places_clear(places);
	places->first = calloc(count + 1, sizeof(*places->first));
	if (!places->first)
		return -ENOMEM;
	places->count = count;
	for (size_t i = 0; i < count; i++) {
		places->first[i] = (uint32_t)sum;
		sum += functions[i].exit_count;
		if (sum > most) {
			log_error(
				"the functions are left by more than %zu instructions: narrow the selection",
				most);
			return -E2BIG;
		}
	}
	places->first[count] = (uint32_t)sum;
	return 0;
}

void exit_places_clear(struct exit_places *places)
{
	free(places->first);
	*places = (struct exit_places){0};
}

uint32_t exit_places_entry(const struct exit_places *places, const struct probe_function *function,
			   uint32_t id)
{
	if (function->returns != RETURNS_INSTRUCTION)
		return 0;
	for (size_t i = 0; i < function->exit_count; i++)
		if (function->exits[i].offset == function->offset)
			return places->first[id] + (uint32_t)i + 1;
	return 0;
}

/* ---- names of functions that stubs lead to ---- */

struct named {
	const char *name;
	uint32_t id;
};

struct names {
	struct named *items;
	size_t count;
};

static int by_name(const void *left, const void *right)
{
	return strcmp(((const struct named *)left)->name, ((const struct named *)right)->name);
}

static int names_make(struct names *names, const struct probe_function *functions, size_t count)
{
	names->items = calloc(count ? count : 1, sizeof(*names->items));
	if (!names->items)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (functions[i].name)
			names->items[names->count++] =
				(struct named){functions[i].name, (uint32_t)i};
	qsort(names->items, names->count, sizeof(*names->items), by_name);
	return 0;
}

/* Id + 1; 0 where none, or more than one file's, has the name. */
static uint32_t names_find(const struct names *names, const char *name)
{
	const struct named wanted = {.name = name};
	const struct named *found;
	size_t at;

	if (!name)
		return 0;
	found = bsearch(&wanted, names->items, names->count, sizeof(*names->items), by_name);
	if (!found)
		return 0;
	at = (size_t)(found - names->items);
	if ((at && by_name(found, found - 1) == 0) ||
	    (at + 1 < names->count && by_name(found, found + 1) == 0))
		return 0;
	return found->id + 1;
}

/* ---- the table ---- */

static int by_offset(const void *left, const void *right)
{
	const struct exit_owner *a = left, *b = right;

	if (a->offset != b->offset)
		return a->offset < b->offset ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static int collect_owners(struct exit_table *table, const struct probe_function *functions,
			  const uint32_t *ids, const int *refused, size_t count)
{
	size_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += functions[ids[i]].exit_count;
	table->owners = calloc(sum ? sum : 1, sizeof(*table->owners));
	table->offsets = calloc(sum ? sum : 1, sizeof(*table->offsets));
	table->cookies = calloc(sum ? sum : 1, sizeof(*table->cookies));
	table->refused = calloc(sum ? sum : 1, sizeof(*table->refused));
	if (!table->owners || !table->offsets || !table->cookies || !table->refused)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		const struct probe_function *function = &functions[ids[i]];

		for (size_t j = 0; !refused[i] && j < function->exit_count; j++)
			if (function->exits[j].offset != function->offset)
				table->owners[table->owner_count++] = (struct exit_owner){
					function->exits[j].offset, i, ids[i], (uint32_t)j, 0};
	}
	qsort(table->owners, table->owner_count, sizeof(*table->owners), by_offset);
	return 0;
}

static int describe(const struct probe_exit *exit, uint32_t id, bool is_shared,
		    const struct names *names, uint32_t place, int map)
{
	struct exit_setting setting = exit->setting;

	setting.function = id;
	setting.is_shared = is_shared;
	setting.target_function = names_find(names, exit->target_name);
	return bpf_map_update_elem(map, &place, &setting, BPF_ANY);
}

int exit_table_make(struct exit_table *table, const struct exit_places *places,
		    const struct probe_function *functions, const uint32_t *ids, const int *refused,
		    size_t count, uint32_t generation, int map)
{
	struct names names = {0};
	int err;

	*table = (struct exit_table){0};
	err = collect_owners(table, functions, ids, refused, count);
	if (!err)
		err = names_make(&names, functions, places->count);
	for (size_t i = 0, next; !err && i < table->owner_count; i = next) {
		const struct exit_owner *owner = &table->owners[i];
		uint32_t place = places->first[owner->id] + owner->number;

		for (next = i;
		     next < table->owner_count && table->owners[next].offset == owner->offset;
		     next++)
			table->owners[next].site = table->count;
		table->offsets[table->count] = owner->offset;
		table->cookies[table->count++] = (unsigned long long)generation << 32 | place;
		err = describe(&functions[owner->id].exits[owner->number], owner->id, next > i + 1,
			       &names, place, map);
	}
	for (size_t i = 0; !err && i < count; i++) {
		const struct probe_function *function = &functions[ids[i]];
		uint32_t place = exit_places_entry(places, function, ids[i]);

		if (place)
			err = describe(&function->exits[place - 1 - places->first[ids[i]]], ids[i],
				       false, &names, place - 1, map);
	}
	if (err)
		log_error("cannot describe where the functions return: %s", strerror(-err));
	free(names.items);
	return err;
}

void exit_table_clear(struct exit_table *table)
{
	free(table->owners);
	free(table->offsets);
	free(table->cookies);
	free(table->refused);
	*table = (struct exit_table){0};
}

void exit_table_refuse_owners(const struct exit_table *table, int *refused)
{
	for (size_t i = 0; i < table->owner_count; i++) {
		const struct exit_owner *owner = &table->owners[i];

		if (table->refused[owner->site])
			refused[owner->function] = table->refused[owner->site];
	}
}
