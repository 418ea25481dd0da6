// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/demangle.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#define DEMANGLED_MAX (16u << 10)

bool is_mangled(const char *symbol)
{
	/* _GLOBAL__: of a file's static constructors. */
	return strncmp(symbol, "_Z", 2) == 0 || strncmp(symbol, "_R", 2) == 0 ||
	       strncmp(symbol, "_GLOBAL__", 9) == 0;
}

struct demangled {
	jmp_buf too_long;
	size_t length;
	char text[DEMANGLED_MAX];
};

/*
 * A short hostile symbol can stand for a name of any length (each substitution may double it), so
 * the demangler is left from here as soon as the name is longer than anyone reads. It holds no heap
 * memory while it prints C++ names.
 */
static void collect(const char *piece, size_t length, void *context)
{
	struct demangled *name = context;

	if (length >= DEMANGLED_MAX - name->length)
		longjmp(name->too_long, 1);
	if (length) /* of nothing, piece may be NULL */
		memcpy(name->text + name->length, piece, length);
	name->length += length;
}

static int print_name(const char *symbol, struct demangled *name)
{
	/* Without the return type, which templates carry: it is no part of the name. */
	const int options = DMGL_PARAMS | DMGL_ANSI | DMGL_RET_DROP;

	if (setjmp(name->too_long))
		return 0;
	name->length = 0;
	/* Old Rust names are C++ names too, with a hash at the end: so Rust is asked first. */
	if (rust_demangle_callback(symbol, options, collect, name))
		return 1;
	name->length = 0;
	return cplus_demangle_v3_callback(symbol, options, collect, name);
}

char *demangle(const char *symbol)
{
	struct demangled *name;
	char *text = NULL;

	if (!is_mangled(symbol))
		return NULL;
	name = malloc(sizeof(*name));
	if (!name)
		return NULL;
	if (print_name(symbol, name) && name->length)
		text = strndup(name->text, name->length);
	free(name);
	return text;
}
