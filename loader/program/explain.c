// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * symbol_explain: what a name that exists is, if not a function to hook. Purpose: an error that
 * helps. Reads the files anew, and only after a pattern has matched nothing.
 */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/image.h"
#include "program/name.h"
#include "program/symbol.h"

/* What explains better comes later: a name may be several of these, in one module and another. */
enum finding { FOUND_NOTHING, FOUND_IMPORT, FOUND_COLD, FOUND_DATA, FOUND_IFUNC, FOUND_UNHOOKABLE };

struct search {
	bool (*matches)(const char *raw, const void *context);
	const void *context;
	const struct image *image;
	const struct module *module;
	enum finding best;
	const struct module *best_module;
	char name[256]; /* of the best */
};

static enum finding finding_of(const struct search *search, const struct image_symbol *symbol,
			       const char *name)
{
	if (symbol->undefined)
		return FOUND_IMPORT;
	if (symbol->type == STT_GNU_IFUNC)
		return FOUND_IFUNC;
	if (symbol->type == STT_OBJECT || symbol->type == STT_TLS || symbol->type == STT_COMMON)
		return FOUND_DATA;
	if (name_is_cold(name))
		return FOUND_COLD;
	if (name_unhookable(name) ||
	    (search->image->entry && symbol->address == search->image->entry))
		return FOUND_UNHOOKABLE;
	return symbol->in_code ? FOUND_NOTHING : FOUND_DATA;
}

static int explain_symbol(const struct image_symbol *symbol, void *context)
{
	struct search *search = context;
	size_t length = name_without_version(symbol->name);
	size_t plain = name_without_clone(symbol->name);
	char name[sizeof(search->name)];
	enum finding finding;

	if (length >= sizeof(name))
		return 0;
	memcpy(name, symbol->name, length);
	name[length] = '\0';
	finding = finding_of(search, symbol, name);
	if (finding <= search->best)
		return 0;
	if (!search->matches(name, search->context)) {
		if (finding != FOUND_COLD || plain >= length)
			return 0;
		name[plain] = '\0';
		if (!search->matches(name, search->context))
			return 0;
	}
	search->best = finding;
	search->best_module = search->module;
	strcpy(search->name, name);
	return 0;
}

static bool is_called(const struct function *function, const char *name)
{
	if (strcmp(function->name, name) == 0)
		return true;
	for (const char **alias = function->aliases; alias && *alias; alias++) {
		if (strcmp(*alias, name) == 0)
			return true;
	}
	return false;
}

static const struct module *home_of(const struct symbol_table *table, const char *name)
{
	for (size_t i = 0; i < table->count; i++) {
		if (is_called(&table->functions[i], name))
			return table->functions[i].module;
	}
	return NULL;
}

static void explain_import(const struct symbol_table *table, const struct search *search,
			   char *text, size_t size)
{
	const struct module *home = home_of(table, search->name);
	const char *name = search->name, *user = search->best_module->base;

	if (home)
		snprintf(text, size, "%s is imported by %s; it lives in %s: use %s:%s", name, user,
			 home->base, home->base, name);
	else
		snprintf(text, size,
			 "%s is imported by %s, and no mapped library has it as a function to hook",
			 name, user);
}

static void explain_finding(const struct symbol_table *table, const struct search *search,
			    char *text, size_t size)
{
	const char *name = search->name, *base = search->best_module->base;
	const char *reason = name_unhookable(name);

	switch (search->best) {
	case FOUND_IMPORT:
		explain_import(table, search, text, size);
		break;
	case FOUND_IFUNC:
		snprintf(
			text, size,
			"%s in %s is an IFUNC: it stands for one of several functions, chosen when the "
			"program "
			"starts; `scopetrace functions` with '%s:*%s_*' lists those that the file has "
			"symbols of, and which of them can be hooked; hook that one by its own name",
			name, base, base, name);
		break;
	case FOUND_UNHOOKABLE:
		snprintf(text, size, "%s in %s %s", name, base,
			 reason ? reason
				: "is the entry point: it is not called and never returns");
		break;
	case FOUND_COLD:
		if (name_is_cold(name))
			snprintf(
				text, size,
				"%s in %s is the cold part of a function: jumped to, never called; "
				"hook the function itself",
				name, base);
		else
			snprintf(
				text, size,
				"of %s only a .cold part is left in %s: it was inlined; build it with "
				"__attribute__((noinline))",
				name, base);
		break;
	default:
		snprintf(text, size, "%s in %s is data, not a function", name, base);
	}
}

/* Only names of the source are asked for: those that debug information knows without demangling. */
static bool explain_inlined(struct image *image, const struct search *search, const char *name,
			    char *text, size_t size)
{
	if (!name || !image_inlines(image, name))
		return false;
	snprintf(
		text, size,
		"%s in %s was inlined wherever it is called, so that there is no function to hook; "
		"build it with __attribute__((noinline)), or hook its caller",
		name, search->module->base);
	return true;
}

bool symbol_explain(const struct symbol_table *table, const struct symbol_query *query, char *text,
		    size_t size)
{
	struct search search = {.matches = query->matches, .context = query->context};
	bool inlined = false;

	for (size_t i = 0; i < table->modules.count && !inlined; i++) {
		struct image image;

		search.module = &table->modules.items[i];
		if (!query->searches(search.module, query->context) ||
		    image_open(search.module, &image))
			continue;
		search.image = &image;
		image_each_symbol(&image, explain_symbol, &search);
		if (search.best == FOUND_NOTHING || search.best == FOUND_COLD)
			inlined = explain_inlined(&image, &search, query->name, text, size);
		image_close(&image);
	}
	if (!inlined && search.best != FOUND_NOTHING)
		explain_finding(table, &search, text, size);
	return inlined || search.best != FOUND_NOTHING;
}
