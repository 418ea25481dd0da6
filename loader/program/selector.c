// SPDX-License-Identifier: GPL-2.0-or-later
#include "program/selector.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/demangle.h"
#include "base/log.h"
#include "program/name.h"
#include "program/nearest.h"

enum selector_kind { SELECTOR_NAME, SELECTOR_GLOB, SELECTOR_REGEX };

struct selector {
	enum selector_kind kind;
	char *text;    /* as given */
	char *module;  /* a glob; NULL: any */
	char *pattern; /* without LIB: and slashes */
	/* must occur in a mangled name whose demangled form matches; NULL: nothing known */
	char *literal;
	regex_t regex;
	bool has_regex;
};

/* ---- parsing ---- */

static int refuse_pattern(const char *text, size_t column, const char *why)
{
	log_error("pattern '%s': %s (column %zu)\n\t%s\n\t%*s^", text, why, column + 1, text,
		  (int)column, "");
	return -EINVAL;
}

/*
 * The ':' behind LIB, not one of the '::' in C++ and Rust names, and before anything else begins.
 * NULL if none.
 */
static const char *module_end(const char *text)
{
	for (const char *p = text; *p && !strchr("/<( ", *p); p++) {
		if (*p != ':')
			continue;
		if (p[1] != ':')
			return p;
		p++;
	}
	return NULL;
}

/*
 * glibc copies what stands before a + or {n} once or n times, so that nested ones multiply what
 * regcomp needs of memory. All count as nested.
 */
#define MOST_COPIES 65536ul

static unsigned long copies_of(const char *repetition)
{
	char *end;
	unsigned long least, most;

	if (*repetition == '+')
		return 2;
	least = strtoul(repetition + 1, &end, 10);
	most = *end == ',' ? strtoul(end + 1, NULL, 10) : 0;
	most = most > least ? most : least;
	return most ? most : 1;
}

/* The repetition with which it is too much, or NULL. */
static const char *too_many_copies(const char *pattern)
{
	unsigned long copies = 1;

	for (; *pattern; pattern++) {
		if (*pattern == '\\' && pattern[1]) {
			pattern++;
			continue;
		}
		if (*pattern != '+' && *pattern != '{')
			continue;
		if (copies_of(pattern) > MOST_COPIES / copies)
			return pattern;
		copies *= copies_of(pattern);
	}
	return NULL;
}

static int parse_regex(struct selector *selector, const char *text, size_t column)
{
	size_t length = strlen(selector->pattern);
	char message[128];
	const char *excess;
	int code;

	if (length < 2 || selector->pattern[length - 1] != '/')
		return refuse_pattern(text, column + length,
				      "the closing / of the regular expression is missing");
	if (length == 2)
		return refuse_pattern(text, column + 1, "the regular expression is empty");
	memmove(selector->pattern, selector->pattern + 1, length - 2);
	selector->pattern[length - 2] = '\0';
	excess = too_many_copies(selector->pattern);
	if (excess)
		return refuse_pattern(
			text, column + 1 + (size_t)(excess - selector->pattern),
			"it repeats too much (+ and {}) for the memory it would take");
	code = regcomp(&selector->regex, selector->pattern, REG_EXTENDED | REG_NOSUB);
	if (code == REG_ESPACE)
		return -ENOMEM;
	if (code) {
		regerror(code, &selector->regex, message, sizeof(message));
		return refuse_pattern(text, column + 1, message);
	}
	selector->has_regex = true;
	return 0;
}

/* Words of demangled names that are spelled otherwise in the mangled ones. */
static bool is_spelled_otherwise(const char *word, size_t length)
{
	static const char *const words =
		" std string basic_string allocator char_traits basic_istream basic_ostream "
		"basic_iostream istream ostream iostream anonymous namespace operator new delete "
		"lambda unnamed type vtable typeinfo guard variable thunk virtual non for "
		"construction global constructors destructors keyed initializers initializer "
		"temporary transaction clone reference auto decltype closure shim core alloc name ";
	char copy[64];

	if (length >= sizeof(copy))
		return false;
	memcpy(copy, word, length);
	copy[length] = '\0';
	return strstr(words, copy) != NULL;
}

/*
 * The longest identifier of the pattern: mangling keeps identifiers as they are, so that most names
 * need not be demangled to know that they do not match. Not looked for in argument lists, whose
 * types are abbreviated.
 */
static char *literal_of(const struct selector *selector)
{
	const char *best = NULL, *p = selector->pattern;
	size_t best_length = 2; /* shorter ones do not pay */

	if (selector->kind == SELECTOR_REGEX || strstr(p, "operator"))
		return NULL;
	while (*p && !strchr("[(<{\\", *p)) {
		size_t length = 0;

		while (isalnum((unsigned char)p[length]) || p[length] == '_')
			length++;
		if (length > best_length && !is_spelled_otherwise(p, length)) {
			best = p;
			best_length = length;
		}
		p += length ? length : 1;
	}
	return best ? strndup(best, best_length) : NULL;
}

static int parse_pattern(struct selector *selector, const char *text)
{
	const char *end = text[0] == '/' ? NULL : module_end(text);
	size_t column = end ? (size_t)(end - text) + 1 : 0;

	selector->text = strdup(text);
	selector->pattern = strdup(text + column);
	if (end)
		selector->module = strndup(text, (size_t)(end - text));
	if (!selector->text || !selector->pattern || (end && !selector->module))
		return -ENOMEM;
	if (end == text)
		return refuse_pattern(text, 0, "the library before : is missing");
	if (!selector->pattern[0])
		return refuse_pattern(text, column, "the function's name is missing");
	if (selector->pattern[0] == '/') {
		selector->kind = SELECTOR_REGEX;
		return parse_regex(selector, text, column);
	}
	selector->kind = strpbrk(selector->pattern, "*?[") ? SELECTOR_GLOB : SELECTOR_NAME;
	selector->literal = literal_of(selector);
	return 0;
}

struct selector *selector_parse(const char *text)
{
	struct selector *selector = calloc(1, sizeof(*selector));
	int err = selector ? parse_pattern(selector, text) : -ENOMEM;

	if (!err)
		return selector;
	selector_destroy(selector);
	errno = -err;
	return NULL;
}

void selector_destroy(struct selector *selector)
{
	if (!selector)
		return;
	if (selector->has_regex)
		regfree(&selector->regex);
	free(selector->text);
	free(selector->module);
	free(selector->pattern);
	free(selector->literal);
	free(selector);
}

bool selector_names_module(const struct selector *selector)
{
	return selector->module != NULL;
}

/* ---- matching ---- */

/* By the base name, or by what people call a library: libc for libc.so.6. */
static bool matches_module(const struct selector *selector, const struct module *module)
{
	size_t length;

	if (!selector->module || fnmatch(selector->module, module->base, 0) == 0)
		return true;
	length = strlen(selector->module);
	return strncmp(selector->module, module->base, length) == 0 &&
	       strncmp(module->base + length, ".so", 3) == 0;
}

static bool matches_text(const struct selector *selector, const char *name)
{
	if (selector->kind == SELECTOR_REGEX)
		return regexec(&selector->regex, name, 0, NULL, 0) == 0;
	if (strcmp(selector->pattern, name) == 0)
		return true;
	return selector->kind == SELECTOR_GLOB && fnmatch(selector->pattern, name, 0) == 0;
}

static bool is_equal_but_for_blanks(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (*a == ' ')
			a++;
		while (*b == ' ')
			b++;
		if (*a != *b)
			return false;
		if (!*a)
			return true;
	}
}

/* Shortens `demangled` as it goes. */
static bool matches_demangled(const struct selector *selector, char *demangled, bool is_whole)
{
	size_t length = is_whole ? name_without_clone_note(demangled) : strlen(demangled);

	if (matches_text(selector, demangled))
		return true;
	demangled[length] = '\0';
	if (matches_text(selector, demangled) ||
	    is_equal_but_for_blanks(selector->pattern, demangled))
		return true;
	demangled[name_without_parameters(demangled, length)] = '\0';
	return matches_text(selector, demangled) ||
	       is_equal_but_for_blanks(selector->pattern, demangled);
}

static bool matches_name(const struct selector *selector, const char *raw, bool is_whole)
{
	bool matches;
	char *demangled;

	if (matches_text(selector, raw))
		return true;
	if (!is_mangled(raw) || (selector->literal && !strstr(raw, selector->literal)))
		return false;
	demangled = demangle(raw);
	matches = demangled && matches_demangled(selector, demangled, is_whole);
	free(demangled);
	return matches;
}

bool selector_matches(const struct selector *selector, const struct function *function)
{
	bool is_whole = function->plain || !name_is_part(function->name);

	if (!matches_module(selector, function->module))
		return false;
	if (function->is_untyped)
		return selector->kind == SELECTOR_NAME &&
		       strcmp(selector->pattern, function->name) == 0;
	if (matches_name(selector, function->name, is_whole))
		return true;
	if (function->plain && matches_text(selector, function->plain))
		return true;
	for (const char **alias = function->aliases; alias && *alias; alias++) {
		if (matches_name(selector, *alias, true))
			return true;
	}
	return false;
}

/* ---- when nothing matches ---- */

static bool explained_name(const char *raw, const void *context)
{
	return matches_name(context, raw, true);
}

static bool explained_module(const struct module *module, const void *context)
{
	return matches_module(context, module);
}

/* The names that are offered are those that would have been looked through. */
static void offer_names(const struct selector *selector, const struct symbol_table *table,
			struct nearest *nearest)
{
	enum { MOST_DEMANGLED = 300000 }; /* more would take seconds */
	size_t demangled_count = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct function *function = &table->functions[i];
		const char *raw = function->plain ? function->plain : function->name;
		char *demangled = NULL;

		if (!matches_module(selector, function->module) ||
		    (!selector->module && function->module->is_libc))
			continue;
		if (is_mangled(raw) && demangled_count++ < MOST_DEMANGLED)
			demangled = demangle(raw);
		if (demangled)
			nearest_offer(nearest, demangled,
				      name_without_parameters(demangled,
							      name_without_clone_note(demangled)));
		else
			nearest_offer(nearest, raw, strlen(raw));
		free(demangled);
	}
}

static void find_nearest(const struct selector *selector, const struct symbol_table *table,
			 struct nearest *nearest)
{
	char wanted[NEAREST_LONGEST];
	size_t length = 0;

	for (const char *p = selector->pattern; *p && length + 1 < sizeof(wanted); p++) {
		if (!strchr("*?[]", *p))
			wanted[length++] = *p;
	}
	wanted[length] = '\0';
	nearest_begin(nearest, wanted);
	if (selector->kind != SELECTOR_REGEX && length)
		offer_names(selector, table, nearest);
}

static void log_no_module(const struct selector *selector, const struct symbol_table *table)
{
	char names[1024] = "";

	for (size_t i = 0; i < table->modules.count; i++) {
		size_t used = strlen(names);

		snprintf(names + used, sizeof(names) - used, "%s%s", i ? ", " : "",
			 table->modules.items[i].base);
	}
	log_error("pattern %s: no module is called %s; there are: %s", selector->text,
		  selector->module, names);
}

static bool has_functions(const struct selector *selector, const struct symbol_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		if (matches_module(selector, table->functions[i].module) &&
		    (selector->module || !table->functions[i].module->is_libc))
			return true;
	}
	return false;
}

static void log_no_match(const struct selector *selector, const struct symbol_table *table)
{
	struct symbol_query query = {
		.matches = explained_name,
		.searches = explained_module,
		.context = selector,
		.name = selector->pattern,
	};
	char why[512], names[NEAREST_MOST * (NEAREST_LONGEST + 2)];
	bool is_module_known = false;
	struct nearest nearest;

	for (size_t i = 0; i < table->modules.count; i++)
		is_module_known |= matches_module(selector, &table->modules.items[i]);
	if (!is_module_known) {
		log_no_module(selector, table);
		return;
	}
	find_nearest(selector, table, &nearest);
	/* A name that only lacks its namespace needs no search for what was inlined. */
	if (nearest.count && nearest.items[0].distance == 0)
		query.name = NULL;
	if (selector->kind == SELECTOR_NAME && symbol_explain(table, &query, why, sizeof(why)))
		log_error("pattern %s: %s", selector->text, why);
	else if (nearest.count)
		log_error("pattern %s matches no function; the nearest names: %s", selector->text,
			  nearest_list(&nearest, names, sizeof(names)));
	else if (has_functions(selector, table))
		log_error(
			"pattern %s matches no function, and none has a name like it; `scopetrace "
			"functions` lists all",
			selector->text);
	else
		log_error("pattern %s matches no function: there are no symbols to match; install "
			  "the program's debug symbols, or build it without -s",
			  selector->text);
}

/* ---- choosing ---- */

/* A function is shown under the name by which it was asked for. */
static void prefer_asked_name(const struct selector *selector, struct function *function)
{
	if (selector->kind != SELECTOR_NAME)
		return;
	for (const char **alias = function->aliases; alias && *alias; alias++) {
		const char *name = *alias;

		if (strcmp(selector->pattern, name) != 0)
			continue;
		*alias = function->name;
		function->name = name;
		function->demangled = NULL;
		return;
	}
}

/* Without LIB, the C library is looked through only when asked. */
static size_t include_from(const struct selector *selector, const struct symbol_table *table,
			   bool in_libc, bool *marks)
{
	size_t found = 0;

	for (size_t i = 0; i < table->count; i++) {
		struct function *function = &table->functions[i];

		if (!selector->module && function->module->is_libc && !in_libc)
			continue;
		if (selector->kind != SELECTOR_NAME && name_is_start_up(function->name))
			continue;
		if (!selector_matches(selector, function))
			continue;
		if (!marks[i])
			prefer_asked_name(selector, function);
		marks[i] = true;
		found++;
	}
	return found;
}

static int include_one(const char *text, const struct symbol_table *table, bool *marks)
{
	struct selector *selector = selector_parse(text);
	size_t found;

	if (!selector)
		return -errno;
	found = include_from(selector, table, false, marks);
	/* ld.so has a memcpy of its own; who asks for memcpy does not mean that one. */
	if (!found && selector->kind == SELECTOR_NAME &&
	    !symbol_is_indirect(table, selector->pattern))
		found = include_from(selector, table, true, marks);
	if (!found)
		log_no_match(selector, table);
	selector_destroy(selector);
	return found ? 0 : -ENOENT;
}

static int exclude_one(const char *text, const struct symbol_table *table, bool *marks)
{
	struct selector *selector = selector_parse(text);
	bool found = false;

	if (!selector)
		return -errno;
	for (size_t i = 0; i < table->count; i++) {
		if (!marks[i] || !selector_matches(selector, &table->functions[i]))
			continue;
		marks[i] = false;
		found = true;
	}
	if (!found)
		log_warning("-N %s takes nothing out: no function that -f chose matches it", text);
	selector_destroy(selector);
	return 0;
}

static int check_count(size_t count, bool all)
{
	if (!count) {
		log_error("every function that the patterns match is excluded by another");
		return -ENOENT;
	}
	if (count > SELECTOR_MAX_WITHOUT_ALL && !all) {
		log_error(
			"the patterns match %zu functions; more than %d need --all, or narrower patterns",
			count, SELECTOR_MAX_WITHOUT_ALL);
		return -E2BIG;
	}
	return 0;
}

static int gather_chosen(const struct symbol_table *table, const bool *marks, bool all,
			 const struct function ***chosen, size_t *count)
{
	size_t marked = 0;
	int err;

	for (size_t i = 0; i < table->count; i++)
		marked += marks[i];
	err = check_count(marked, all);
	if (err)
		return err;
	*chosen = calloc(marked, sizeof(**chosen));
	if (!*chosen)
		return -ENOMEM;
	*count = 0;
	for (size_t i = 0; i < table->count; i++) {
		if (!marks[i])
			continue;
		if (symbol_demangle(table, &table->functions[i]))
			return -ENOMEM;
		(*chosen)[(*count)++] = &table->functions[i];
	}
	return 0;
}

int selector_choose(const struct symbol_table *table, char *const *include, size_t include_count,
		    char *const *exclude, size_t exclude_count, bool all,
		    const struct function ***chosen, size_t *count)
{
	bool *marks = calloc(table->count ? table->count : 1, sizeof(*marks));
	int err = marks ? 0 : -ENOMEM;

	*chosen = NULL;
	*count = 0;
	for (size_t i = 0; i < include_count && !err; i++)
		err = include_one(include[i], table, marks);
	for (size_t i = 0; i < exclude_count && !err; i++)
		err = exclude_one(exclude[i], table, marks);
	if (!err)
		err = gather_chosen(table, marks, all, chosen, count);
	if (err) {
		free(*chosen);
		*chosen = NULL;
		*count = 0;
	}
	if (err == -ENOMEM)
		log_error("choosing functions failed: %s", strerror(ENOMEM));
	free(marks);
	return err;
}

/* ---- @FILE ---- */

static int append_pattern(const char *text, size_t length, char ***patterns, size_t *count)
{
	char **grown = realloc(*patterns, (*count + 1) * sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	*patterns = grown;
	grown[*count] = strndup(text, length);
	if (!grown[*count])
		return -ENOMEM;
	++*count;
	return 0;
}

static int append_lines(const char *text, char ***patterns, size_t *count)
{
	while (*text) {
		size_t line = strcspn(text, "\n"), first = strspn(text, " \t\r"), last = line;

		while (last > first && strchr(" \t\r", text[last - 1]))
			last--;
		if (first < last && text[first] != '#' &&
		    append_pattern(text + first, last - first, patterns, count))
			return -ENOMEM;
		text += line + (text[line] != '\0');
	}
	return 0;
}

int selector_expand(const char *argument, char ***patterns, size_t *count)
{
	size_t length, before = *count;
	char *text = NULL;
	int err;

	if (argument[0] != '@') {
		err = append_pattern(argument, strlen(argument), patterns, count);
	} else {
		err = io_read_file(argument + 1, &text, &length);
		if (err)
			log_error("cannot read the patterns in %s: %s", argument + 1,
				  strerror(-err));
		else
			err = append_lines(text, patterns, count);
		if (!err && *count == before) {
			log_error("%s holds no pattern: one a line is wanted", argument + 1);
			err = -EINVAL;
		}
	}
	if (err == -ENOMEM)
		log_error("reading patterns failed: %s", strerror(ENOMEM));
	free(text);
	return err;
}

void selector_free_patterns(char **patterns, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(patterns[i]);
	free(patterns);
}
